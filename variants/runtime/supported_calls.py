"""Which calls of a layer run compiled, and what they read as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from hetune.variants.backends.base import Backend
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.calls import read_call
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.modes import has_tangents

SupportedCall = tuple[Adapter, Call, HeteroGraph]
"""Of a layer: its adapter, and what the call gives."""


def supported_call(
    module: nn.Module,
    adapter: Adapter | Unsupported,
    backend: Backend,
    graphs: GraphCache,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_run: bool,
) -> SupportedCall | Unsupported:
    """What a call reads as, or why it does not run compiled.

    Args:
        module: The layer's.
        adapter: As the layer has it.
        backend: What the call is for.
        graphs: Those that the layer knows.
        args: Of the call.
        kwargs: Of the call.
        is_run: Whether the call runs now, where derivatives may be carried forward.

    Raises:
        InputError: A tensor's dtype, shape or device does not fit.
        GraphError: The edges are no graph.
    """
    if isinstance(adapter, Unsupported):
        return adapter
    if adapter.module is not module:
        return Unsupported("its module was replaced: compile it anew")
    if (reason := adapter.refusal()) is not None:
        return Unsupported(reason)
    if (other := adapter.mode_refusal()) is not None:
        return other
    call = read_call(adapter, args, kwargs)
    if isinstance(call, Unsupported):
        return call
    for tensor in call.features:
        if reason := backend.refusal(tensor.device):
            return Unsupported(reason)
    features = call.features
    if is_run and has_tangents(lambda: (*features, *module.parameters(), *module.buffers())):
        return Unsupported("derivatives are carried forward, which its module does alone")
    graph = graphs.graph_of(call)
    if (reason := adapter.graph_refusal(graph)) is not None:
        return Unsupported(reason)
    return adapter, call, graph
