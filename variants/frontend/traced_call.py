"""Calls of traced layers: how they are read, what follows from edges, and what is returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import GraphError
from hetune.variants.frontend.adapter import Adapter, Unsupported, is_wrapper
from hetune.variants.frontend.autocast import full_precision
from hetune.variants.frontend.call import Call, LooseEdges, RepeatReader
from hetune.variants.frontend.edge_errors import check_edge_tensors
from hetune.variants.frontend.loose_edges import joined
from hetune.variants.frontend.traced_graphs import (
    OfGraph,
    keep,
    kept,
    refusal_of,
    refuse,
    shared_graph,
)
from hetune.variants.frontend.tracing.adjacency import AdjacencyLayer, has_matrix
from hetune.variants.frontend.tracing.arguments import (
    HALVES,
    CallArguments,
    in_float32,
    of_one_width,
)
from hetune.variants.frontend.tracing.edge_module import EdgeModule, kept_by, original, read_call_of
from hetune.variants.frontend.tracing.layer import Traced, trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.recording import Recordings
from hetune.variants.frontend.tracing.selected_columns import picks_columns
from hetune.variants.frontend.tracing.validate import (
    gradient_refusal,
    number_of_nodes,
    parameters_at,
    places_of,
    validated,
    weights_of,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reused_index import EdgePart
from hetune.variants.graph.tensor_identity import identity


def mode_of(parts: Iterable[nn.Module]) -> tuple[bool, ...]:
    """Which of a module's parts are in training mode."""
    return tuple([part.training for part in parts])


def read_in_float32(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dtype: torch.dtype
) -> CallArguments | Unsupported:
    """What a call gives, in float32: autocast, or a module of bfloat16, takes floats of 16 bits.

    Args:
        module: What is called.
        args: Of the call.
        kwargs: Likewise.
        dtype: Of the module's parameters.

    Raises:
        InputError: They are not the arguments of such a call.
    """
    given, dtypes = (args, kwargs), set[torch.dtype]()
    if any(map(torch.is_autocast_enabled, _DEVICES)) or dtype in HALVES:
        named = {name: in_float32(value, dtypes) for name, value in kwargs.items()}
        given = in_float32(args, dtypes), named
    try:
        found = read_call_of(module, *given)
    except NotTraceable as error:
        is_matrix = has_matrix(args, kwargs)
        is_other = is_matrix != isinstance(module, AdjacencyLayer)
        return Unsupported(str(error), kind=("matrix", is_matrix) if is_other else None)
    is_autocast = torch.is_autocast_enabled(found.device.type)
    if isinstance(module, EdgeModule) and (is_autocast or not dtypes.isdisjoint(HALVES)):
        return Unsupported("autocast is on, or floats have 16 bits: layers of float32 compile")
    if len(dtypes) > 1 or (dtypes and not is_autocast and dtypes != {dtype}):
        names = " and ".join(sorted(str(each).removeprefix("torch.") for each in dtypes))
        return Unsupported(f"its arguments are {names}: those of the module's dtype compile")
    for name, value in found.values.items():
        if isinstance(value, Tensor) and is_wrapper(value):
            kind = type(value).__name__
            return Unsupported(f"{name} is a {kind}, which has no memory that kernels could read")
    return replace(found, given_dtype=dtypes.pop()) if dtypes else found


_DEVICES = ("cpu", "cuda")
_FEW = 2
"""Fewer rows than this may be broadcast to others, so they say nothing about shapes."""


def dtype_of(module: nn.Module) -> torch.dtype:
    """The dtype of its parameters."""
    dtypes = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(dtypes, torch.float32)


class TracedReader:
    """Reads calls of a traced layer.

    Attributes:
        traced: What it computes.
        adapter: How the compiler and calls see the layer.
    """

    def __init__(
        self,
        module: nn.Module,
        arguments: CallArguments,
        traced: Traced,
        recordings: Recordings,
    ) -> None:
        self._module, self._key, self.traced = module, arguments.key, traced
        own = original(module)
        self._state, self._parts = PythonState(own), list(own.modules())
        self._places, self._updates = places_of(module), bool(traced.updated)
        self._picks = picks_columns(traced.program, traced.weights)
        self._modes: dict[tuple[bool, ...], Unsupported | Recordings] = {
            mode_of(self._parts): recordings
        }
        self._gradient_refusals: dict[tuple[bool, ...], str | None] = {}
        self.adapter = Adapter(
            own,
            traced.program,
            self._weights,
            traced.num_etypes,
            graph_refusal=self._graph_refusal,
            read=self._read,
            result_shape=traced.result_shape,
            dropout=traced.dropout,
        )

    def parameters(self) -> dict[str, Tensor]:
        """The layer's parameters and buffers by name."""
        return parameters_at(self._places)

    def _weights(self) -> dict[str, Tensor]:
        """In float64, or in float32 where gradients go back through each operator."""
        dtype = torch.float32 if torch.is_grad_enabled() else torch.float64
        exact = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in self.parameters().items()
        }
        return {name: w.float() for name, w in weights_of(self.traced, exact).items()}

    def _read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | Unsupported:
        if (path := self._state.change()) is not None:
            return Unsupported(f"{path} was changed: compile it anew")
        arguments = read_in_float32(self._module, args, kwargs, self.adapter.dtype)
        if isinstance(arguments, Unsupported):
            return arguments
        if arguments.key != self._key:
            kinds = ", ".join(f"{name}: {kind}" for name, kind in arguments.key)
            known = "it is compiled for other kinds of calls: compile it anew for calls with "
            return Unsupported(known + kinds, kind=arguments.key)
        arguments = replace(arguments, edge_features=self.traced.edge_features)
        if not self.fits(arguments):
            return Unsupported("columns are picked, and features are not finite: replace these")
        mode = mode_of(self._parts)
        if mode not in self._modes:
            with full_precision(arguments.device.type):
                self._modes[mode] = self._in_mode(arguments, mode)
        if isinstance(recordings := self._modes[mode], Unsupported):
            return recordings
        if self._updates and arguments.is_rounded:
            return Unsupported("batch norm trains, and autocast is on, or floats have 16 bits")
        return TracedCall(self, self._module, arguments, mode, recordings)

    def fits(self, arguments: CallArguments) -> bool:
        """Whether features are finite, where products pick columns, so that 0 times others is 0."""
        return not self._picks or arguments.are_finite

    def is_as_in(self, mode: tuple[bool, ...]) -> bool:
        """Whether the layer is in a mode, and its attributes are what they were."""
        return self._state.change() is None and mode_of(self._parts) == mode

    def _in_mode(
        self, arguments: CallArguments, mode: tuple[bool, ...]
    ) -> Unsupported | Recordings:
        """What is computed of edges in the mode of now, or why the layer computes another thing."""
        try:
            now, recordings = validated(self._module, arguments)
        except NotTraceable as error:
            return Unsupported(f"it is no program: {error}")
        if now.key != self.traced.key:
            reason = f"training={self._module.training} makes it another program"
            return Unsupported(reason, kind=(self._key, mode))
        return recordings

    def gradient_refusal(self, arguments: CallArguments, mode: tuple[bool, ...]) -> str | None:
        """Why the program's gradients are not the layer's in a mode, or None; computed once."""
        if mode not in self._gradient_refusals:
            self._gradient_refusals[mode] = gradient_refusal(self._module, arguments)
        return self._gradient_refusals[mode]

    def _graph_refusal(self, module: object, graph: HeteroGraph) -> str | None:
        return refusal_of(graph, self)


class TracedCall(Call):
    """A call of a traced layer."""

    __slots__ = ("_arguments", "_known", "_mode", "_module", "_reader", "_recordings")

    def __init__(
        self,
        reader: TracedReader,
        module: nn.Module,
        arguments: CallArguments,
        mode: tuple[bool, ...],
        recordings: Recordings,
    ) -> None:
        self._reader, self._module, self._arguments = reader, module, arguments
        self._mode, self._recordings = mode, recordings
        self._known: OfGraph | None = None

    @property
    def features(self) -> tuple[Tensor, ...]:
        """All floats, of edges too."""
        values = self._arguments.values.values()
        return tuple(v for v in values if isinstance(v, Tensor) and v.is_floating_point())

    @property
    def edges(self) -> object:
        """The edge_index."""
        return self._arguments.values[self._arguments.edges]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The edge_index and what else belongs to the graph."""
        return self._arguments.graph_tensors

    @property
    def others(self) -> tuple[object, ...]:
        """The numbers of nodes, and whose constants are kept with the graph, in what mode."""
        arguments = self._arguments
        return arguments.num_nodes, arguments.num_sources, self._reader, self._mode

    def graph(self) -> HeteroGraph:
        """The edges that messages go along, after the layer has added or removed some."""
        arguments = self._arguments
        edge_index = arguments.values[arguments.edges]
        try:
            arguments.check_edges()
            traced = self._traced()
            counts = arguments.num_nodes, arguments.num_sources
            graph = shared_graph(edge_index, traced, counts)
            self._known = keep(graph, self._reader, self._key, self.tensors, traced)
            return graph
        except GraphError:
            if arguments.sources:
                raise
            etype = torch.zeros_like(edge_index[0])
            check_edge_tensors(edge_index, etype, arguments.num_nodes, 1)
            raise
        except NotTraceable as error:
            nothing = edge_index[0, :0]
            graph = HeteroGraph(
                nothing, nothing, nothing, num_nodes=arguments.num_nodes, num_etypes=1
            )
            refuse(graph, self._reader, str(error))
            return graph

    def _traced(self) -> Traced:
        if self._arguments.num_edges == 0:
            raise NotTraceable("the graph has no edges")
        with full_precision(self._arguments.device.type):
            return self._replayed_or_traced()

    def _replayed_or_traced(self) -> Traced:
        traced, arguments = self._reader.traced, self._arguments
        counts = arguments.num_nodes, arguments.num_sources
        rows = self._recordings.run(*counts, arguments.values)
        replayed = None if rows is None else traced.on(*counts, rows)
        if replayed is not None:
            return replayed
        found = trace(self._module, arguments)
        if found.key != traced.key:
            raise NotTraceable("its program depends on the graph: branch on options alone")
        self._recordings.add(found.recording)
        return found

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """Features by name, and constants."""
        params = self._reader.adapter.inputs
        rows, of_graph = self._reader.traced.rows, self._of_graph(graph)
        given = {p.name: self._rows(p.name) for p in params if p.name in rows}
        if of_graph.order is not None:
            given = of_graph.order.with_nodes_sorted(given, {p.name: p.type for p in params})
        return {**given, **of_graph.constants}

    def repeat_reader(self, args: tuple[Any, ...]) -> RepeatReader | None:
        """Those with as many rows of nodes, where nothing given had to be taken apart."""
        reader, module, arguments = self._reader, self._module, self._arguments
        mode, recordings, blank = self._mode, self._recordings, replace(arguments, values={})
        kept, index = kept_by(module), {id(each): i for i, each in enumerate(args)}
        places = {
            name: index.get(id(value))
            for name, value in arguments.values.items()
            if kept.get(name) is not value
        }
        first = next(iter(places))
        if None in places.values() or first not in arguments.features or places[first] != 0:
            return None

        def read(args: tuple[Any, ...]) -> Call | None:
            now = kept_by(module) if kept else {}
            if not reader.is_as_in(mode) or any(now.get(name) is not kept[name] for name in kept):
                return None
            given = {name: args[place] for name, place in places.items() if place is not None}
            found = replace(blank, values={**given, **now})
            if not reader.fits(found):
                return None
            return TracedCall(reader, module, found, mode, recordings)

        return read

    def loose_edges(self) -> LooseEdges | None:
        """Where nodes and edges are of one type, and the program's result is the call's."""
        arguments, traced = self._arguments, self._reader.traced
        is_other = arguments.sources or arguments.edge_features or traced.kinds
        if is_other or not self.takes_out:
            return None
        assert traced.result_shape is not None
        with full_precision(arguments.device.type):
            found = self._recordings.run(arguments.num_nodes, None, arguments.values)
        if found is None or arguments.num_nodes < _FEW or len(found["src"]) < _FEW:
            return None
        rows = {name: self._rows(name) for name in traced.rows}
        rows |= {name: found[name] for name in traced.constants}
        parts = (EdgePart(found["src"], found["dst"]),)
        shape = arguments.num_nodes, *traced.result_shape
        return LooseEdges(parts, shape[:1], rows, lambda out: out.view(shape))

    def _rows(self, feature: str) -> Tensor:
        parts = [self._arguments.values[name] for name in self._reader.traced.rows[feature]]
        return parts[0] if len(parts) == 1 else joined(of_one_width(parts))

    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Any:
        """Rows as the layer gives them, and what torch makes of them."""
        arguments, traced = self._arguments, self._reader.traced
        given = arguments.values
        found = dict(zip(traced.program.results, results, strict=True))
        if traced.order is not None and (order := self._of_graph(graph).order) is not None:
            found = order.with_nodes_unsorted(found, traced.program.types)
        if traced.result_shape is not None:
            return traced.result(found, {}, given, (), graph.num_targets)
        read = {part for parts in traced.joined.values() for part in parts}
        features = [name for name in traced.rows if name in read or name in given]
        found = {**{name: self._rows(name) for name in features}, **found}
        parameters, of_graph = self._reader.parameters(), self._of_graph(graph).others
        return traced.result(found, parameters, given, of_graph, graph.num_targets)

    def gradient_refusal(self) -> str | None:
        """What is computed once for a graph has none, nor what the layer detaches."""
        arguments = self._arguments
        if any(tensor.requires_grad for tensor in arguments.graph_tensors):
            return "what is computed once for a graph has none"
        if arguments.is_rounded:
            return "autocast is on, or floats have 16 bits: layers of float32 are trained compiled"
        return self._reader.gradient_refusal(arguments, self._mode)

    @property
    def given_dtype(self) -> torch.dtype:
        """Of the floats that the call was given."""
        return self._arguments.given_dtype

    def of_module(self) -> Any:
        """What the module gives on a small random graph."""
        arguments, random = self._arguments, torch.Generator().manual_seed(0)
        drawn = arguments.drawn(random, number_of_nodes(self._module, 0))
        with torch.no_grad():
            return self._module(**drawn.given(drawn.like(arguments, arguments.given_dtype).values))

    @property
    def takes_out(self) -> bool:
        """Whether the program's result is the call's."""
        traced = self._reader.traced
        return traced.result_shape is not None and traced.order is None

    def _of_graph(self, graph: HeteroGraph) -> OfGraph:
        if self._known is None:
            self._known = kept(graph, self._reader, self._key)
        if self._known is None:  # others came meanwhile
            with torch.inference_mode(False):  # as where graphs are made
                traced = self._traced()
                self._known = keep(graph, self._reader, self._key, self.tensors, traced)
        return self._known

    @property
    def _key(self) -> tuple[object, ...]:
        return self._mode, *map(identity, self.tensors)
