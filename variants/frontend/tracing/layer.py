"""A layer's own forward, run on symbols once: the program, and what the graph gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.tracing import arithmetic, edges, products, shapes  # noqa: F401
from hetune.variants.frontend.tracing.alignment import is_rows, squeezed
from hetune.variants.frontend.tracing.arguments import CallArguments, sizes_of
from hetune.variants.frontend.tracing.batch_norm import updated_by
from hetune.variants.frontend.tracing.dropout import TracedMask
from hetune.variants.frontend.tracing.edge_module import original
from hetune.variants.frontend.tracing.expressions import Expression, parameter
from hetune.variants.frontend.tracing.interpreter import Interpreter
from hetune.variants.frontend.tracing.node_order import NodeOrder
from hetune.variants.frontend.tracing.not_traceable import NotTraceable, reason_of
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.recording import Recording
from hetune.variants.frontend.tracing.roll_up import RolledUp, check_sources, rolled_up
from hetune.variants.frontend.tracing.row_sets import RowTypes
from hetune.variants.frontend.tracing.selected_columns import with_selected_columns
from hetune.variants.frontend.tracing.simplify import needed, with_parts_of_results
from hetune.variants.frontend.tracing.symbols import RowValue, symbol
from hetune.variants.frontend.tracing.tail import finished, key_of, leaves, outputs, rows
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import End, Program, Reshape, Space, Take, Type, operands
from hetune.variants.program.text import show
from hetune.variants.program.verify import verify


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What a layer computes for one call.

    Attributes:
        program: With results in rows of nodes or edges.
        result_shape: Of a row of the result, as the layer gives it; None where it gives `output`.
        weights: What each weight of the program is.
        constants: What follows from the graph alone, ``[rows, *row shape]``.
        of_graph: What else does, and is returned.
        edge_features: Names of the arguments that are features of edges.
        src: The source of each edge, int64 [E].
        dst: The destination of each edge, int64 [E].
        kinds: The types of edges and nodes, where weights have a row for each.
        recording: How all that depends on the graph follows from the arguments.
        output: What the layer gives, of the program's results: see `tail`.
        masks: Masks of dropout, and the calls that each is for, one after the other.
        joined: Values that it is made of and that have others side by side.
        rows: Names of the arguments that a feature has the rows of, one after the other.
        node_types: Types of nodes that have rows of their own, in the order of these.
        places: Which of them values that it is made of have rows of, for each of their parts.
        order: In which the graph has the nodes, where types of nodes choose rows of weights.
    """

    program: Program
    result_shape: tuple[int, ...] | None
    weights: Mapping[str, Expression]
    constants: Mapping[str, Tensor]
    of_graph: tuple[Tensor, ...]
    edge_features: tuple[str, ...]
    src: Tensor
    dst: Tensor
    kinds: Mapping[Space, RowTypes]
    recording: Recording
    output: Any
    masks: Mapping[str, tuple[TracedMask, ...]]
    joined: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, tuple[str, ...]]
    node_types: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]
    order: NodeOrder | None

    def result(
        self,
        found: Mapping[str, Tensor],
        parameters: Mapping[str, Tensor],
        given: Mapping[str, Any],
        of_graph: Sequence[Tensor],
        num_nodes: int,
    ) -> Any:
        """What the layer gives.

        Args:
            found: The program's results, and its features, by name, [rows, *row shape].
            parameters: Of the layer; not read where `result_shape` is known.
            given: Arguments of the call.
            of_graph: As of the attributes, on the call's graph.
            num_nodes: N.
        """
        if self.result_shape is not None:
            return found[self.program.result].reshape(num_nodes, *self.result_shape)
        counts = [given[kind].shape[0] for kind in self.node_types]

        def part(name: str, number: int, of: str) -> Tensor:
            return (
                torch.split(found[name], counts)[self.places[of][number]] if counts else found[name]
            )

        whole = {
            name: torch.cat([part(own, i, name) for i, own in enumerate(parts)], -1)
            for name, parts in self.joined.items()
        }
        return finished(self.output, parameters, {**found, **whole}, given, of_graph, num_nodes)

    def graph(self, num_nodes: int, num_sources: int | None = None) -> HeteroGraph:
        """The edges that messages go along.

        Args:
            num_nodes: That they may lead to.
            num_sources: That they come from, where these are others.

        Raises:
            GraphError: They are no graph.
        """
        etype, ntype = self.kinds.get(Space.EDGE), self.kinds.get(Space.NODE)
        if num_sources is not None:
            return BipartiteGraph(
                self.src,
                self.dst,
                None if etype is None else etype.index,
                num_sources=num_sources,
                num_targets=num_nodes,
                num_etypes=self.num_etypes,
            )
        if self.node_types and ntype is not None:
            num_nodes = len(ntype.index)
        return HeteroGraph(
            self.src,
            self.dst,
            None if etype is None else etype.index,
            None if ntype is None else ntype.index,
            num_nodes=num_nodes,
            num_etypes=self.num_etypes,
            num_ntypes=None if ntype is None else ntype.count,
        )

    @property
    def num_etypes(self) -> int:
        """How many rows weights have that depend on the types of edges."""
        kinds = self.kinds.get(Space.EDGE)
        return 1 if kinds is None else kinds.count or int(kinds.index.max()) + 1

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for calls that compute the same on other graphs."""
        weights = tuple((name, weight.key) for name, weight in self.weights.items())
        shares = tuple(self.dropout.items())
        return show(self.program), self.result_shape, weights, key_of(self.output), shares

    @property
    def updated(self) -> frozenset[str]:
        """Names of the buffers that the layer writes to: statistics of batch norm."""
        return frozenset(updated_by(self.output))

    @property
    def dropout(self) -> dict[str, float]:
        """Of elements that masks drop, by name."""
        return {name: masks[0].share for name, masks in self.masks.items()}

    def on(
        self, num_nodes: int, num_sources: int | None, rows: Mapping[str, Tensor]
    ) -> Traced | None:
        """The same for another graph.

        Args:
            num_nodes: Of the graph.
            num_sources: Of those that edges come from, where these are others.
            rows: What the recording gave for it.

        Returns:
            None where rows are not as many as they should be, or so few that torch may broadcast
            them.
        """
        src, dst = rows["src"], rows["dst"]
        if self.node_types:
            num_nodes = len(rows[_types_name(Space.NODE)])
        counts = {Space.NODE: num_nodes, Space.EDGE: len(src)}
        if num_sources is not None:
            counts[Space.SOURCE] = num_sources
        constants = {name: rows[name] for name in self.constants}
        kinds = {
            space: replace(types, index=rows[_types_name(space)])
            for space, types in self.kinds.items()
        }
        shapes: list[tuple[Tensor, Space, tuple[int, ...]]]
        shapes = [(dst, Space.EDGE, ()), (src, Space.EDGE, ())]
        shapes += [(types.index, space, ()) for space, types in kinds.items()]
        for name, tensor in constants.items():
            type_ = self.program.type_of(name)
            shapes.append((tensor, type_.space, type_.shape))
        are_rows = all(rows.shape == (counts[space], *row) for rows, space, row in shapes)
        if min(counts.values()) < 2 or not are_rows:
            return None
        of_graph = tuple(rows[_returned_name(i)] for i in range(len(self.of_graph)))
        order = None if self.order is None else NodeOrder(rows[_ORDER], rows[_RANKS])
        return replace(
            self,
            constants=constants,
            src=src,
            dst=dst,
            kinds=kinds,
            order=order,
            of_graph=of_graph,
        )


def trace(module: nn.Module, arguments: CallArguments) -> Traced:
    """Runs a layer's forward on symbols.

    Args:
        module: The layer; it is not changed.
        arguments: Of the call; the layer may add edges and remove some.

    Raises:
        NotTraceable: It is no program; says why and where.
    """
    given = dict(arguments.values)
    spaces = dict.fromkeys(arguments.features, Space.NODE)
    spaces |= dict.fromkeys(arguments.sources, Space.SOURCE)
    spaces |= dict.fromkeys(arguments.edge_features, Space.EDGE)
    of_graph = {
        name: value
        for name, value in given.items()
        if isinstance(value, Tensor) and name not in spaces
    }
    counts = arguments.num_nodes, arguments.num_edges, arguments.num_sources
    tape = Tape(of_graph, *counts)
    tape.is_of_doubles = any(given[name].dtype is torch.float64 for name in spaces)
    recorder = ProgramRecorder(tape)
    others = {name: value for name, value in given.items() if not arguments.is_of_graph(name)}
    interpreter = Interpreter(recorder, arguments.num_edges, others, arguments.device)
    with tape:
        arguments.declare(recorder)
    if arguments.edge_features:
        recorder.count_edges(given[arguments.edges], 1)
    for name, space in spaces.items():
        value = given[name]
        type_ = Type(space, tuple(value.shape[1:]), arguments.node_type(name))
        whole = recorder.feature(name, type_)
        if space is Space.SOURCE:
            recorder.counts[Space.SRC_PAIR] = tape.sizes[0]
            whole = recorder.emit(Take(whole, Space.SRC_PAIR, End.SRC), f"{name}_with_edges")
        rows = recorder.emit(Reshape(whole, squeezed(value.shape[1:])), f"{name}_rows")
        shape = tuple(value.shape)
        given[name] = symbol(RowValue(rows, 0), shape, value.dtype, value.device, interpreter)
    twin = on_symbols(module, interpreter)
    with torch.no_grad():
        try:
            with tape:
                sized = {name: sizes_of(v, *tape.sizes) for name, v in given.items()}
                result = interpreter.parts.result(twin.forward(**arguments.given(sized)))
            return _traced(type(original(module)).__name__, recorder, result, arguments)
        except Exception as error:
            raise NotTraceable(reason_of(error)) from None


def on_symbols(
    module: nn.Module,
    interpreter: Interpreter,
    forward_of: Callable[[str, nn.Module], Callable[..., Any] | None] = lambda path, part: None,
) -> Any:
    """A twin of a module, its parameters and buffers symbols; what it sets stays with it.

    Args:
        module: The module.
        interpreter: Gives functions of symbols a meaning.
        forward_of: What is called in place of a part, by path; None: its own forward, on symbols.
    """
    twins: dict[int, Any] = {}

    def twin_of(part: nn.Module, prefix: str) -> Any:
        if id(part) in twins:
            return twins[id(part)]
        if (forward := forward_of(prefix.removesuffix("."), part)) is not None:
            twin = twins[id(part)] = object.__new__(type(part))
            twin.__dict__.update(vars(part) | {"forward": forward})
            return twin
        twin = twins[id(part)] = object.__new__(type(part))
        own = dict(vars(part))
        for group in ("_parameters", "_buffers"):
            own[group] = {
                name: None if tensor is None else _leaf(prefix + name, tensor)
                for name, tensor in own[group].items()
            }
        own["_modules"] = {
            name: None if inner is None else twin_of(inner, f"{prefix}{name}.")
            for name, inner in own["_modules"].items()
        }
        leaves = {id(t): own["_parameters"][name] for name, t in part._parameters.items()}
        for name, value in own.items():
            if isinstance(value, Tensor):
                raise NotTraceable(f"{prefix}{name} is a tensor: make it a parameter or buffer")
            if isinstance(value, list):
                own[name] = [leaves.get(id(item), item) for item in value]
        twin.__dict__.update(own)
        return twin

    def _leaf(name: str, tensor: Tensor) -> Any:
        leaf = parameter(name)
        return symbol(leaf, tuple(tensor.shape), tensor.dtype, tensor.device, interpreter)

    return twin_of(module, "")


def _traced(name: str, recorder: ProgramRecorder, result: Any, arguments: CallArguments) -> Traced:
    shape, output, of_graph = None, None, list[Tensor]()
    is_whole = is_rows(result) and result.meaning.axis == 0 and not recorder.node_counts
    if is_whole and recorder.is_of_nodes(result.meaning.name):
        shape = tuple(result.shape[1:])
        results = [recorder.emit(Reshape(result.meaning.name, (math.prod(shape),)), "out")]
    else:
        output = outputs(result, arguments.values, of_graph)
        results = [*dict.fromkeys(leaves(output))]
    if not results or recorder.constants.keys() & results:
        raise NotTraceable("its result has no row for each node or edge on its first axis")
    if not recorder.sets:
        raise NotTraceable("it uses no edges")
    if any(recorder.types[name].group in recorder.parts for name in results):
        raise NotTraceable("its result has rows of some of the nodes, or in another order")
    if arguments.sources:
        check_sources(recorder)
    found = rolled_up(recorder, results)
    names = found.names
    whole = _program(name, found, tuple(new for result in results for new in names[result]))
    program, joined = with_parts_of_results(whole)
    program, chosen = with_selected_columns(program, found.weights)
    parts = {new: joined.get(new, (new,)) for own in names.values() for new in own}
    if joined or found.node_types or any(own != (old,) for old, own in names.items()):
        joined = {old: tuple(p for new in own for p in parts[new]) for old, own in names.items()}
    places = {
        old: tuple(place for new, place in zip(names[old], own, strict=True) for _ in parts[new])
        for old, own in found.places.items()
    }
    if any(len(parts) > 1 for parts in joined.values()) and shape is not None:
        output, shape = rows(RowValue(results[0], 0), tuple(result.shape)), None
    used = {param.name for param in program.params}
    weights = {n: weight for n, weight in {**found.weights, **chosen}.items() if n in used}
    constants = {name: rows for name, rows in found.constants.items() if name in used}
    masks = {name: masks for name, masks in found.masks.items() if name in used}
    src, dst, kinds, returned = found.src, found.dst, found.kinds, tuple(of_graph)
    order = None
    if Space.NODE in kinds and not found.node_types:
        with recorder.tape:
            order = NodeOrder.by_type(kinds[Space.NODE].index)
            src, dst = order.renumbered(src), order.renumbered(dst)
            of_nodes = replace(kinds[Space.NODE], index=order.sorted(kinds[Space.NODE].index))
            kinds = {**kinds, Space.NODE: of_nodes}
            constants = order.with_nodes_sorted(constants, program.types)
    recorded = {_types_name(space): each.index for space, each in kinds.items()}
    recorded |= {_returned_name(i): tensor for i, tensor in enumerate(returned)}
    recorded |= {} if order is None else {_ORDER: order.nodes, _RANKS: order.ranks}
    recording = recorder.tape.recording({**constants, **recorded, "src": src, "dst": dst})
    of_edges = returned, arguments.edge_features, src, dst, kinds
    given = (*arguments.features, *arguments.sources, *arguments.edge_features)
    rows_of = {name: found.rows.get(name, (name,)) for name in {*given, *found.rows}}
    typed = rows_of, found.node_types, places
    made = *of_edges, recording, output, masks, joined, *typed, order
    return Traced(program, shape, weights, constants, *made)


_ORDER, _RANKS = "order of nodes", "ranks of nodes"
"""In recordings."""


def _types_name(space: Space) -> str:
    """Of the types of edges or nodes in recordings."""
    return f"types of {space}s"


def _returned_name(i: int) -> str:
    """Of what follows from the graph and is returned, in recordings."""
    return f"returned {i}"


def _program(name: str, found: RolledUp, results: tuple[str, ...]) -> Program:
    lets = needed(found.lets, results)
    used = {name for let in lets for name in operands(let.op)}
    params = tuple(param for param in found.params if param.name in used)
    made = {let.name for let in lets}
    made_results = tuple(dict.fromkeys(result for result in results if result in made))
    if not made_results:
        raise NotTraceable("none of its results is made in a program")
    program = Program(name, params, tuple(lets), made_results)
    try:
        verify(program)
    except ProgramError as error:
        raise NotTraceable(str(error)) from None
    return program
