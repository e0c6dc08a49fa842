"""The adapter of a message-passing layer of PyTorch Geometric, traced by its first call."""

from __future__ import annotations

import dis
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor, nn

from hetune.variants.errors import GraphError
from hetune.variants.frontend.adapter import (
    Adapter,
    Unsupported,
    is_wrapper,
    refusal,
)
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.edge_errors import check_edge_tensors
from hetune.variants.frontend.pyg_lazy import is_uninitialized
from hetune.variants.frontend.tracing.arguments import CallArguments
from hetune.variants.frontend.tracing.edge_module import original, read_call_of
from hetune.variants.frontend.tracing.layer import Traced, trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.recording import Recordings
from hetune.variants.frontend.tracing.validate import parameters_of, validated, weights_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import Space

_GIVEN = GraphSlot[None, "WeakKeyDictionary[_Reader, Mapping[str, Tensor] | str]"]()
"""What tracing on a graph gave, by reader: constants, or why the graph is left to the module."""
_GRAPHS: WeakValueDictionary[tuple[int, int, int], HeteroGraph] = WeakValueDictionary()
"""Graphs that layers of a model may share, by the edge_index, the nodes and the edges."""
_SHARING = threading.Lock()
"""Held while a layer looks for a graph to share and makes it its own."""
_REFUSALS: WeakKeyDictionary[nn.Module, _Refusals] = WeakKeyDictionary()
_MOST_REFUSED = 16
"""Traces of one module that fail before none is tried any more."""


def is_message_passing(module: nn.Module) -> bool:
    """Whether a module is a layer of PyTorch Geometric's, or a user's subclass of one."""
    return any(
        kind.__name__ == "MessagePassing"
        and kind.__module__ == "torch_geometric.nn.conv.message_passing"
        for kind in type(module).__mro__
    )


def adapt_call(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Adapter | Unsupported:
    """The adapter of a message-passing layer for calls like this one.

    Args:
        module: The layer. Parameters that it makes in its first call are made.
        args: Of the call.
        kwargs: Likewise.

    Raises:
        InputError: They are not the arguments of such a call.
    """
    own = original(module)
    if (reason := _state_refusal(own) or refusal(own)) is not None:
        return Unsupported(reason)
    arguments = _arguments(module, args, kwargs)
    if isinstance(arguments, Unsupported):
        return arguments
    if is_uninitialized(own) or (not own.training and _sets_more(own)):
        with torch.no_grad():
            own(*args, **kwargs)
    if (refusals := _REFUSALS.get(own)) is None:
        refusals = _REFUSALS[own] = _Refusals(own)
    kind = arguments.key, _mode(own.modules())
    if (known := refusals.known(own, kind)) is not None:
        return known
    found = _traced_adapter(module, arguments)
    if isinstance(found, Unsupported):
        refusals.add(kind, found)
    return found


def _sets_more(module: nn.Module) -> bool:
    """Whether a forward sets attributes that its module has only after a first call."""
    code = getattr(type(module).forward, "__code__", None)
    steps = () if code is None else dis.get_instructions(code)
    return any(i.opname == "STORE_ATTR" and not hasattr(module, i.argval) for i in steps)


class _Refusals:
    """Why calls of a module run in the module itself, by their kind, until the module changes.

    A forward that writes to its attributes changes it in every call: so the traces are few.
    """

    def __init__(self, module: nn.Module) -> None:
        self._state, self._parts = PythonState(module), _inner(module)
        self._by_kind: dict[object, Unsupported] = {}
        self._left = _MOST_REFUSED

    def known(self, module: nn.Module, kind: object) -> Unsupported | None:
        """Why a call of this kind would be refused again."""
        if not self._left:
            return Unsupported(f"it was no program {_MOST_REFUSED} times")
        if self._parts != _inner(module) or self._state.change() is not None:
            self._state, self._parts = PythonState(module), _inner(module)
            self._by_kind.clear()
        return self._by_kind.get(kind)

    def add(self, kind: object, refusal: Unsupported) -> None:
        """Remembers why a trace failed."""
        self._by_kind[kind] = refusal
        self._left -= 1


def _inner(module: nn.Module) -> list[nn.Module]:
    return list(module.modules())[1:]


def _mode(parts: Iterable[nn.Module]) -> tuple[bool, ...]:
    return tuple([part.training for part in parts])


def _traced_adapter(module: nn.Module, arguments: CallArguments) -> Adapter | Unsupported:
    try:
        traced = validated(module, arguments)
    except NotTraceable as error:
        return Unsupported(f"it is no program: {error}")
    if (reason := limitation(traced.program)) is not None:
        return Unsupported(reason)
    return _Reader(module, arguments, traced).adapter


def _arguments(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> CallArguments | Unsupported:
    try:
        found = read_call_of(module, args, kwargs)
    except NotTraceable as error:
        return Unsupported(str(error))
    if torch.is_autocast_enabled(found.values[found.edges].device.type):
        return Unsupported("autocast is on, which makes some of its parts run in a half")
    for name, value in found.values.items():
        if isinstance(value, Tensor) and is_wrapper(value):
            kind = type(value).__name__
            return Unsupported(f"{name} is a {kind}, which has no memory that kernels could read")
    return found


def _state_refusal(module: nn.Module) -> str | None:
    for part in module.modules():
        if getattr(part, "cached", False):
            return "cached=True keeps to its first graph: hetune caches what follows from each one"
        if (layers := getattr(part, "decomposed_layers", 1)) != 1:
            return f"decomposed_layers={layers}: 1 compiles"
    return None


class _Reader:
    """Reads calls of a traced layer.

    Attributes:
        traced: What it computes.
        adapter: What it is to the rest of hetune.
    """

    def __init__(self, module: nn.Module, arguments: CallArguments, traced: Traced) -> None:
        self._module, self._key, self.traced = module, arguments.key, traced
        own = original(module)
        self._state, self._parts = PythonState(own), list(own.modules())
        self._modes: dict[tuple[bool, ...], str | Recordings] = {
            _mode(self._parts): Recordings(traced.recording)
        }
        self.adapter = Adapter(
            own,
            traced.program,
            self._weights,
            traced.num_etypes,
            graph_refusal=self._graph_refusal,
            read=self._read,
            result_shape=traced.result_shape,
        )

    def _weights(self) -> dict[str, Tensor]:
        exact = {
            name: tensor.double() if tensor.is_floating_point() else tensor
            for name, tensor in parameters_of(self._module).items()
        }
        return {name: w.float() for name, w in weights_of(self.traced, exact).items()}

    def _read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | Unsupported:
        if (path := self._state.change()) is not None:
            return Unsupported(f"{path} was changed: compile it anew")
        arguments = _arguments(self._module, args, kwargs)
        if isinstance(arguments, Unsupported):
            return arguments
        if arguments.key != self._key:
            known = "it is compiled for other kinds of calls: compile it anew for calls with "
            return Unsupported(known + _shown(arguments.key), kind=arguments.key)
        mode = _mode(self._parts)
        if mode not in self._modes:
            self._modes[mode] = self._in_mode(arguments)
        if isinstance(recordings := self._modes[mode], str):
            return Unsupported(recordings)
        return _TracedCall(self, self._module, arguments, mode, recordings)

    def _in_mode(self, arguments: CallArguments) -> str | Recordings:
        """What is computed of edges in the mode of now, or why the layer computes another thing."""
        try:
            now = validated(self._module, arguments)
        except NotTraceable as error:
            return f"it is no program: {error}"
        if now.key != self.traced.key:
            return f"training={self._module.training} makes it another program"
        return Recordings(now.recording)

    def _graph_refusal(self, module: object, graph: HeteroGraph) -> str | None:
        found = _given(graph).get(self, "it is no graph of the layer's")
        return found if isinstance(found, str) else None


def _shown(key: tuple[tuple[str, object], ...]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in key)


class _TracedCall(Call):
    """A call of a traced layer."""

    __slots__ = ("_arguments", "_mode", "_module", "_reader", "_recordings")

    def __init__(
        self,
        reader: _Reader,
        module: nn.Module,
        arguments: CallArguments,
        mode: tuple[bool, ...],
        recordings: Recordings,
    ) -> None:
        self._reader, self._module, self._arguments = reader, module, arguments
        self._mode, self._recordings = mode, recordings

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
        """The number of nodes, and whose constants are kept with the graph, in what mode."""
        return self._arguments.num_nodes, self._reader, self._mode

    def graph(self) -> HeteroGraph:
        """The edges that messages go along, after the layer has added or removed some."""
        arguments = self._arguments
        edge_index = arguments.values[arguments.edges]
        try:
            given = self._traced()
            return _graph_of(edge_index, given, arguments.num_nodes, self._reader)
        except GraphError:
            etype = torch.zeros_like(edge_index[0])
            check_edge_tensors(edge_index, etype, arguments.num_nodes, 1)
            raise
        except NotTraceable as error:
            nothing = edge_index[0, :0]
            graph = HeteroGraph(
                nothing, nothing, nothing, num_nodes=arguments.num_nodes, num_etypes=1
            )
            _given(graph)[self._reader] = str(error)
            return graph

    def _traced(self) -> Traced:
        if self._arguments.num_edges == 0:
            raise NotTraceable("the graph has no edges")
        traced, arguments = self._reader.traced, self._arguments
        rows = self._recordings.run(arguments.num_nodes, arguments.values)
        if rows is not None and (replayed := traced.on(arguments.num_nodes, rows)) is not None:
            return replayed
        found = trace(self._module, arguments)
        if found.key != traced.key:
            raise NotTraceable("its program depends on the graph: branch on options alone")
        self._recordings.add(found.recording)
        return found

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """Features by name, and constants."""
        constants = _given(graph)[self._reader]
        assert not isinstance(constants, str)
        names = {param.name for param in self._reader.adapter.inputs}
        features = (name for name in self._arguments.features if name in names)
        return {**{name: self._arguments.values[name] for name in features}, **constants}

    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Any:
        """Rows as the layer gives them, and what torch makes of them."""
        traced, given = self._reader.traced, self._arguments.values
        found = dict(zip(traced.program.results, results, strict=True))
        if traced.result_shape is not None:
            return traced.result(found, {}, given, graph.num_nodes)
        found = {**{name: given[name] for name in self._arguments.features}, **found}
        with torch.no_grad():
            parameters = parameters_of(self._module)
            return traced.result(found, parameters, given, graph.num_nodes)

    @property
    def takes_out(self) -> bool:
        """Whether the program's result is the call's."""
        return self._reader.traced.result_shape is not None


def _given(graph: HeteroGraph) -> WeakKeyDictionary[_Reader, Mapping[str, Tensor] | str]:
    return graph.state.of(_GIVEN, None, WeakKeyDictionary)


def _graph_of(edge_index: Tensor, given: Traced, num_nodes: int, reader: _Reader) -> HeteroGraph:
    """The graph of what a layer makes of an edge_index, with the indexes that others made.

    One with this reader's constants is another call's, whose constants may be others.
    """
    key = id(edge_index), num_nodes, len(given.src)
    with _SHARING:
        graph = _GRAPHS.get(key)
        if graph is None or reader in _given(graph) or not _is_of(graph, given):
            graph = _GRAPHS[key] = given.graph(num_nodes)
        others = [known for known in _given(graph).values() if not isinstance(known, str)]
        constants = {name: _known(name, rows, others) for name, rows in given.constants.items()}
        _given(graph)[reader] = constants
    return graph


def _is_of(graph: HeteroGraph, given: Traced) -> bool:
    edges, nodes = (given.kinds.get(space) for space in (Space.EDGE, Space.NODE))
    counts = given.num_etypes, 1 if nodes is None else nodes.count
    return (
        (graph.num_etypes, graph.num_ntypes) == counts
        and _is_equal(graph.src, given.src)
        and _is_equal(graph.dst, given.dst)
        and (edges is None or _is_equal(graph.etype, edges.index))
        and (nodes is None or _is_equal(graph.ntype, nodes.index))
    )


def _known(name: str, rows: Tensor, others: Iterable[Mapping[str, Tensor]]) -> Tensor:
    """A constant as another layer has it, if it is equal: kernels then read it once.

    Else a copy of an inference tensor, whose graph is for all tensors of equal content: it may be
    the caller's own, and be written to.
    """
    found = (other[name] for other in others if name in other)
    own = rows.clone() if rows.is_inference() else rows
    return next((tensor for tensor in found if _is_equal(tensor, rows)), own)


def _is_equal(known: Tensor, rows: Tensor) -> bool:
    if not rows.is_floating_point():
        known, rows = known.long(), rows.long()
    is_alike = known.device == rows.device and known.dtype == rows.dtype
    return is_alike and torch.equal(known, rows)
