"""The adapter of a message-passing layer of PyTorch Geometric, traced by its first call."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

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
from hetune.variants.frontend.traced_graphs import (
    OfGraph,
    keep,
    kept,
    refusal_of,
    refuse,
    shared_graph,
)
from hetune.variants.frontend.tracing.arguments import CallArguments
from hetune.variants.frontend.tracing.edge_module import original, read_call_of
from hetune.variants.frontend.tracing.layer import Traced, trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.recording import Recordings
from hetune.variants.frontend.tracing.validate import (
    gradient_refusal,
    live_parameters_of,
    validated,
    weights_of,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.tensor_identity import identity
from hetune.variants.program.limitation import limitation

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
        self._modes: dict[tuple[bool, ...], Unsupported | Recordings] = {
            _mode(self._parts): Recordings(traced.recording)
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
        )

    def _weights(self) -> dict[str, Tensor]:
        exact = {
            name: tensor.double() if tensor.is_floating_point() else tensor
            for name, tensor in live_parameters_of(self._module).items()
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
        arguments = replace(arguments, edge_features=self.traced.edge_features)
        mode = _mode(self._parts)
        if mode not in self._modes:
            self._modes[mode] = self._in_mode(arguments, mode)
        if isinstance(recordings := self._modes[mode], Unsupported):
            return recordings
        return _TracedCall(self, self._module, arguments, mode, recordings)

    def _in_mode(
        self, arguments: CallArguments, mode: tuple[bool, ...]
    ) -> Unsupported | Recordings:
        """What is computed of edges in the mode of now, or why the layer computes another thing."""
        try:
            now = validated(self._module, arguments)
        except NotTraceable as error:
            return Unsupported(f"it is no program: {error}")
        if now.key != self.traced.key:
            reason = f"training={self._module.training} makes it another program"
            return Unsupported(reason, kind=(self._key, mode))
        return Recordings(now.recording)

    def gradient_refusal(self, arguments: CallArguments, mode: tuple[bool, ...]) -> str | None:
        """Why the program's gradients are not the layer's in a mode, or None; computed once."""
        if mode not in self._gradient_refusals:
            self._gradient_refusals[mode] = gradient_refusal(self._module, arguments)
        return self._gradient_refusals[mode]

    def _graph_refusal(self, module: object, graph: HeteroGraph) -> str | None:
        return refusal_of(graph, self)


def _shown(key: tuple[tuple[str, object], ...]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in key)


class _TracedCall(Call):
    """A call of a traced layer."""

    __slots__ = ("_arguments", "_known", "_mode", "_module", "_reader", "_recordings")

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
            traced = self._traced()
            counts = arguments.num_nodes, arguments.num_sources
            graph = shared_graph(edge_index, traced, counts)
            self._known = keep(graph, self._reader, self._key, traced)
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
        traced, arguments = self._reader.traced, self._arguments
        counts = arguments.num_nodes, arguments.num_sources
        rows = self._recordings.run(*counts, arguments.values)
        if rows is not None and (replayed := traced.on(arguments.num_nodes, rows)) is not None:
            return replayed
        found = trace(self._module, arguments)
        if found.key != traced.key:
            raise NotTraceable("its program depends on the graph: branch on options alone")
        self._recordings.add(found.recording)
        return found

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """Features by name, and constants."""
        arguments = self._arguments
        names = {param.name for param in self._reader.adapter.inputs}
        features = (*arguments.features, *arguments.sources, *arguments.edge_features)
        given = {name: arguments.values[name] for name in features if name in names}
        return {**given, **self._of_graph(graph).constants}

    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Any:
        """Rows as the layer gives them, and what torch makes of them."""
        arguments, traced = self._arguments, self._reader.traced
        given = arguments.values
        found = dict(zip(traced.program.results, results, strict=True))
        if traced.result_shape is not None:
            return traced.result(found, {}, given, (), graph.num_targets)
        features = (*arguments.features, *arguments.sources, *arguments.edge_features)
        found = {**{name: given[name] for name in features}, **found}
        parameters, of_graph = live_parameters_of(self._module), self._of_graph(graph).others
        return traced.result(found, parameters, given, of_graph, graph.num_targets)

    def gradient_refusal(self) -> str | None:
        """What is computed once for a graph has none, nor what the layer detaches."""
        if any(tensor.requires_grad for tensor in self._arguments.graph_tensors):
            return "what is computed once for a graph has none"
        return self._reader.gradient_refusal(self._arguments, self._mode)

    @property
    def takes_out(self) -> bool:
        """Whether the program's result is the call's."""
        return self._reader.traced.result_shape is not None

    def _of_graph(self, graph: HeteroGraph) -> OfGraph:
        if self._known is None:
            self._known = kept(graph, self._reader, self._key)
        if self._known is None:  # others came meanwhile
            with torch.inference_mode(False):  # as where graphs are made
                self._known = keep(graph, self._reader, self._key, self._traced())
        return self._known

    @property
    def _key(self) -> tuple[object, ...]:
        return self._mode, *map(identity, self.tensors)
