"""A function of a vertex, run vertex by vertex on lists: what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.vertex.objects import Edge, FeatureRows, Relation, Vertex
from hetune.variants.frontend.vertex.rows import Neighborhood, Neighbors, ValuePlace, VertexValue

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda rows: rows.sum(0),
    "max": lambda rows: rows.amax(0),
    "min": lambda rows: rows.amin(0),
}


class OneVertex(Neighborhood):
    """One vertex. Without edges it has one of zeros, which is reduced to zeros.

    Args:
        is_empty: Whether it has no edges.
    """

    def __init__(self, is_empty: bool) -> None:
        self._is_empty = is_empty

    def take(self, rows: Tensor, at: ValuePlace, to: ValuePlace) -> Tensor:
        """The row: there is one vertex."""
        return rows

    def reduce(self, rows: list[Tensor], at: ValuePlace, to: ValuePlace, fn: str) -> Tensor:
        """As of `Neighborhood`."""
        found = _REDUCTIONS[fn](torch.stack(rows))
        return torch.zeros_like(found) if self._is_empty else found


def run_one_by_one(
    function: Callable[..., Any],
    edge_index: Tensor,
    nodes: Mapping[str, Tensor],
    edges: Mapping[str, Tensor],
    weights: Mapping[str, Any],
    interpreter: object = None,
) -> Tensor:
    """What a function gives for each vertex.

    Args:
        function: Of a vertex and weights.
        edge_index: The edges, int64 [2, E].
        nodes: Rows of vertices by name.
        edges: Rows of edges by name; "type" are their types.
        weights: By name; tensors among them are shared.
        interpreter: Of symbols: there are none.
    """
    num_nodes = len(next(iter(nodes.values())))
    src, dst = edge_index.tolist()
    rows = []
    for i in range(num_nodes):
        own = [e for e, end in enumerate(dst) if end == i]
        found = function(_vertex(i, own, src, nodes, edges), **weights)
        rows.append(found.tensor if isinstance(found, VertexValue) else found)
    return torch.cat(rows)


def _vertex(
    i: int, own: list[int], src: list[int], nodes: Mapping[str, Tensor], edges: Mapping[str, Tensor]
) -> Vertex:
    around = OneVertex(not own)

    def rows(
        features: Mapping[str, Tensor], row: int | None, place: ValuePlace, within: ValuePlace
    ) -> FeatureRows:
        def value(tensor: Tensor) -> VertexValue:
            one = torch.zeros_like(tensor[:1]) if row is None else tensor[row : row + 1]
            return VertexValue(one, place, within, around)

        return FeatureRows(features, value)

    def edge(e: int | None, within: ValuePlace) -> Edge:
        source = None if e is None else src[e]
        return Edge(
            rows(edges, e, ValuePlace.EDGE, within),
            Vertex(rows(nodes, source, ValuePlace.EDGE, within)),
            Vertex(rows(nodes, i, ValuePlace.EDGE, within)),
        )

    def incoming(of: list[int], within: ValuePlace) -> Neighbors:
        dtype = next(iter(nodes.values())).dtype
        count = VertexValue(
            torch.tensor([[len(of)]], dtype=dtype), within, ValuePlace.VERTEX, around
        )
        given: list[int | None] = [*of] or [None]
        return Neighbors([edge(e, within) for e in given], lambda: count)

    center = Vertex(rows(nodes, i, ValuePlace.VERTEX, ValuePlace.VERTEX))
    center.inedges = incoming(own, ValuePlace.VERTEX)
    if "type" in edges:
        types = edges["type"][own].tolist()
        by_type = [
            [e for e, kind in zip(own, types, strict=True) if kind == relation]
            for relation in sorted({*types})
        ]
        center.relations = [Relation(incoming(of, ValuePlace.RELATION)) for of in by_type or [[]]]
    return center
