"""A function of a vertex, run once for all vertices: each neighbour stands for all edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.tracing.interpreter import Interpreter
from hetune.variants.frontend.tracing.row_sets import RowTypes
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol
from hetune.variants.frontend.vertex.objects import Edge, FeatureRows, Relation, Vertex
from hetune.variants.frontend.vertex.rows import Neighborhood, Neighbors, ValuePlace, VertexValue
from hetune.variants.program.nodes import Count, End, Reduce, Space, Take

_SPACES = {
    ValuePlace.VERTEX: Space.NODE,
    ValuePlace.RELATION: Space.DST_PAIR,
    ValuePlace.EDGE: Space.EDGE,
}


class AllVertices(Neighborhood):
    """Rows of all vertices, of all edges, and of all pairs of a vertex and a relation.

    Args:
        moves: The edges.
        etype: The type of each, where it is known.
        dtype: Of counts.
        interpreter: Of symbols, where there are any.
    """

    def __init__(
        self,
        moves: Moves,
        etype: Tensor | None,
        dtype: torch.dtype,
        interpreter: Interpreter | None,
    ) -> None:
        self._moves, self._etype, self._at, self._dtype = moves, etype, interpreter, dtype
        self._pairs: tuple[Tensor, Tensor] | None = None
        if interpreter is not None:  # messages go from sources to destinations
            interpreter.recorder.end_of(moves.src)
            interpreter.recorder.end_of(moves.dst)

    def take(self, rows: Tensor, at: ValuePlace, to: ValuePlace) -> Tensor:
        """As of `Neighborhood`."""
        if (at, to) == (ValuePlace.VERTEX, ValuePlace.EDGE):
            return self._moves.at_dst(rows)
        pair_of_edge, vertex_of_pair = self._pair_index()
        if isinstance(rows, Symbol):
            end = End.DST if at is ValuePlace.VERTEX else End.NONE
            return self._emitted(rows, Take(_name(rows), _SPACES[to], end), to)
        return rows.index_select(0, vertex_of_pair if at is ValuePlace.VERTEX else pair_of_edge)

    def reduce(self, rows: list[Tensor], at: ValuePlace, to: ValuePlace, fn: str) -> Tensor:
        """As of `Neighborhood`; there is one tensor."""
        (found,) = rows
        if (at, to) == (ValuePlace.EDGE, ValuePlace.VERTEX):
            return self._moves.reduced(found, fn)
        pair_of_edge, vertex_of_pair = self._pair_index()
        if isinstance(found, Symbol):
            end = End.DST if to is ValuePlace.VERTEX else End.NONE
            return self._emitted(found, Reduce(_name(found), _SPACES[to], fn, end), to)
        if to is ValuePlace.VERTEX:
            return Moves(vertex_of_pair, vertex_of_pair, self._moves.num_nodes).reduced(found, fn)
        return Moves(pair_of_edge, pair_of_edge, len(vertex_of_pair)).reduced(found, fn)

    def count(self, of: ValuePlace) -> Tensor:
        """How many edges each vertex, or pair, has: [rows, 1]."""
        if of is ValuePlace.VERTEX:
            return self._moves.degrees(self._moves.dst).to(self._dtype).unsqueeze(1)
        pair_of_edge, vertex_of_pair = self._pair_index()
        if self._at is not None:
            name = self._at.recorder.emit(Count(Space.DST_PAIR), "count")
            shape = len(vertex_of_pair), 1
            return self._at.symbol(
                RowValue(name, 0), torch.empty(shape, dtype=self._dtype, device="meta")
            )
        pairs = Moves(pair_of_edge, pair_of_edge, len(vertex_of_pair))
        return pairs.degrees(pair_of_edge).to(self._dtype).unsqueeze(1)

    def _pair_index(self) -> tuple[Tensor, Tensor]:
        """The pair of each edge, and the vertex of each pair."""
        if self._pairs is None:
            if self._etype is None:
                raise InputError("the edges have no types: give e_feature={'type': types}")
            kinds = int(self._etype.max()) + 1 if self._etype.numel() else 1
            keys, pair_of_edge = torch.unique(
                self._moves.dst * kinds + self._etype, return_inverse=True
            )
            self._pairs = pair_of_edge, keys // kinds
            if self._at is not None:
                recorder = self._at.recorder
                recorder.counts[Space.DST_PAIR] = len(keys)
                recorder.kinds.setdefault(Space.EDGE, RowTypes(self._etype, 0))
        return self._pairs

    def _emitted(self, rows: Symbol, op: Take | Reduce, to: ValuePlace) -> Tensor:
        assert self._at is not None
        recorder = self._at.recorder
        name = recorder.emit(op, str(op.space))
        shape = recorder.counts[_SPACES[to]], *rows.shape[1:]
        like = torch.empty(shape, dtype=rows.dtype, device="meta")
        return self._at.symbol(RowValue(name, 0), like)


def _name(rows: Symbol) -> str:
    assert isinstance(rows.meaning, RowValue)
    return rows.meaning.name


def run_on_all(
    function: Callable[..., Any],
    moves: Moves,
    nodes: Mapping[str, Tensor],
    edges: Mapping[str, Tensor],
    weights: Mapping[str, Any],
    interpreter: Interpreter | None,
) -> Any:
    """What a function gives for all vertices.

    Args:
        function: Of a vertex and weights.
        moves: The edges.
        nodes: Rows of vertices by name.
        edges: Rows of edges by name; "type" are their types.
        weights: By name; tensors among them are shared.
        interpreter: Of symbols, where there are any.
    """
    dtype = next(iter(nodes.values())).dtype
    around = AllVertices(moves, edges.get("type"), dtype, interpreter)

    def vertex(place: ValuePlace, within: ValuePlace, take: Callable[[Tensor], Tensor]) -> Vertex:
        return Vertex(FeatureRows(nodes, lambda x: VertexValue(take(x), place, within, around)))

    def incoming(within: ValuePlace) -> Neighbors:
        edge = Edge(
            FeatureRows(edges, lambda x: VertexValue(x, ValuePlace.EDGE, within, around)),
            vertex(ValuePlace.EDGE, within, moves.at_src),
            vertex(ValuePlace.EDGE, within, moves.at_dst),
        )
        return Neighbors(
            [edge], lambda: VertexValue(around.count(within), within, ValuePlace.VERTEX, around)
        )

    center = vertex(ValuePlace.VERTEX, ValuePlace.VERTEX, lambda x: x)
    center.inedges = incoming(ValuePlace.VERTEX)
    center.relations = [Relation(incoming(ValuePlace.RELATION))]
    return function(center, **weights)
