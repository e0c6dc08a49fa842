"""What traced layers keep with graphs: those of their edges, and what follows from these."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor

from hetune.variants.fork_locks import new_lock
from hetune.variants.frontend.tracing.layer import Traced
from hetune.variants.frontend.tracing.node_order import NodeOrder
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.program.nodes import Space


@dataclass(frozen=True, slots=True)
class OfGraph:
    """What follows from a graph and what belongs to it.

    Attributes:
        constants: Of the program.
        others: What else calls return.
        made_of: The tensors that belong to the graph, where writes to them are counted.
        order: That of the graph's nodes, where calls have another one.
    """

    constants: Mapping[str, Tensor]
    others: tuple[Tensor, ...]
    made_of: tuple[weakref.ref[Tensor], ...] = ()
    order: NodeOrder | None = None


_Kept = dict[tuple[object, ...], OfGraph]
"""By the tensors that belong to the graph."""
_KEPT = GraphSlot[None, "WeakKeyDictionary[object, _Kept | str]"]()
"""By layer; or why the graph is left to the module."""
_MOST = 32
"""Sets of edge weights and the like that a graph keeps constants of, as many as a layer remembers
graphs; the latest stay, and none for longer than its tensors."""
_GRAPHS: WeakValueDictionary[tuple[int, tuple[int, int | None], int], HeteroGraph] = (
    WeakValueDictionary()
)
"""Graphs that layers of a model may share, by the edge_index, the nodes and the edges."""
_SHARING = new_lock()
"""Held while a layer looks for a graph to share and makes it its own."""


def kept(graph: HeteroGraph, layer: object, key: tuple[object, ...]) -> OfGraph | None:
    """What a layer keeps with a graph.

    Args:
        graph: The graph, which is not refused.
        layer: Whose.
        key: The tensors that belong to the graph.
    """
    found = _kept(graph)[layer]
    assert not isinstance(found, str)
    return found.get(key)


def keep(
    graph: HeteroGraph,
    layer: object,
    key: tuple[object, ...],
    tensors: tuple[Tensor, ...],
    traced: Traced,
) -> OfGraph:
    """Keeps what follows from a graph, and tensors that belong to it, while these live."""
    by_layer = _kept(graph)
    with _SHARING:
        sets = [
            of_graph
            for found in by_layer.values()
            if isinstance(found, dict)
            for of_graph in tuple(found.values())
        ]
        constants = {
            name: _known(name, rows, [each.constants for each in sets])
            for name, rows in traced.constants.items()
        }
        own = by_layer.setdefault(layer, {})
        assert isinstance(own, dict)
        own.pop(key, None)
        if len(own) >= _MOST:
            del own[next(iter(own))]

        def forget(_: object) -> None:
            own.pop(key, None)

        counted = (tensor for tensor in tensors if not tensor.is_inference())
        made_of = tuple(weakref.ref(tensor, forget) for tensor in counted)
        order = None if traced.order is None or traced.order.is_same else traced.order
        found = own[key] = OfGraph(constants, traced.of_graph, made_of, order)
        return found


def refuse(graph: HeteroGraph, layer: object, reason: str) -> None:
    """Leaves a graph to the module."""
    _kept(graph)[layer] = reason


def refusal_of(graph: HeteroGraph, layer: object) -> str | None:
    """Why a graph is left to the module, or None."""
    found = _kept(graph).get(layer, "it is no graph of the layer's")
    return found if isinstance(found, str) else None


def _kept(graph: HeteroGraph) -> WeakKeyDictionary[object, _Kept | str]:
    return graph.state.of(_KEPT, None, WeakKeyDictionary)


def shared_graph(edge_index: Tensor, given: Traced, counts: tuple[int, int | None]) -> HeteroGraph:
    """The graph of what a layer makes of an edge_index, with the indexes that others made."""
    key = id(edge_index), counts, len(given.src)
    with _SHARING:
        graph = _GRAPHS.get(key)
        if graph is None or not _is_of(graph, given):
            graph = _GRAPHS[key] = given.graph(*counts)
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

    Else a copy: the rows may be the caller's own, who may write to them while others read these.
    """
    found = (other[name] for other in others if name in other)
    known = next((tensor for tensor in found if _is_equal(tensor, rows)), None)
    return rows.detach().clone() if known is None else known


def _is_equal(known: Tensor, rows: Tensor) -> bool:
    if not rows.is_floating_point():
        known, rows = known.long(), rows.long()
    is_alike = known.device == rows.device and known.dtype == rows.dtype
    return is_alike and torch.equal(known, rows)
