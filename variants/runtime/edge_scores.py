"""Scores of all candidates by an edge for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.interpret import interpret
from hetune.variants.program.nodes import End, Program, Space
from hetune.variants.runtime.pair_products import joined_rows

_AT_ONCE = 1 << 20
"""Elements of rows of edges that there are at a time."""


def edge_scores(
    program: Program,
    values: Mapping[str, Tensor],
    nodes: Tensor,
    types: Tensor,
    end: End,
    candidates: Tensor | None = None,
) -> Tensor:
    """Scores of candidates by a program, interpreted on some queries at a time.

    Args:
        program: A verified program whose result is one number of each edge.
        values: As of `pair_scores`, as are the next two.
        nodes: int64 [B].
        types: int64 [B].
        end: The end of edges that candidates are at.
        candidates: int64 [K]; all nodes by default.

    Returns:
        [B, K], of the values' dtype.
    """
    counts = {param.type.space: len(values[param.name]) for param in program.params}
    widest = max(kind.width for kind in program.types.values() if kind.space is Space.EDGE)

    def score(src: Tensor, etype: Tensor, dst: Tensor) -> Tensor:
        graph = HeteroGraph(
            *(src.int(), dst.int(), etype.int()),
            num_nodes=counts[Space.NODE],
            num_etypes=counts.get(Space.ETYPE, 1),
            validate=False,
        )
        return interpret(program, values, graph)

    most = _AT_ONCE // max(widest, 1)
    if candidates is None:
        candidates = torch.arange(counts[Space.NODE], device=nodes.device)
    return scores_of_edges(score, nodes, types, end, candidates, most)


def scores_of_edges(
    score: Callable[[Tensor, Tensor, Tensor], Tensor],
    nodes: Tensor,
    types: Tensor,
    end: End,
    candidates: Tensor,
    most: int,
) -> Tensor:
    """Scores [B, K] of candidates.

    Args:
        score: Of edges: sources, types and destinations, int64 [E] each.
        nodes: int64 [B], what is at the other end of each edge.
        types: int64 [B], the type of each.
        end: The end of edges that candidates are at.
        candidates: int64 [K].
        most: Edges that there are at a time, but of one query at least.
    """
    count = len(candidates)

    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        queries = torch.arange(len(nodes), device=nodes.device)
        for rows in torch.split(queries, max(1, most // max(count, 1))):
            ends = nodes[rows].repeat_interleave(count), candidates.repeat(len(rows))
            src, dst = ends if end is End.DST else ends[::-1]
            found = score(src, types[rows].repeat_interleave(count), dst)
            yield rows, found.view(len(rows), count)

    return joined_rows(parts(), (len(nodes), count))
