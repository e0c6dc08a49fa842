"""Scores of many candidates at one end of edges: as products of rows, or edge by edge."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.variants.passes.pairs import separate
from hetune.variants.program.nodes import End, Program
from hetune.variants.runtime.edge_scores import edge_scores
from hetune.variants.runtime.pair_scores import pair_scores

SIDES = {"head": End.SRC, "tail": End.DST}
"""The ends of the edges that triples are."""


class ProgramCandidates:
    """Scores candidates by a program whose result is one number of each edge.

    Args:
        program: A verified one.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parts = {side: separate(program, end) for side, end in SIDES.items()}

    def of_all(
        self, values: Mapping[str, Tensor], nodes: Tensor, types: Tensor, side: str
    ) -> Tensor:
        """Scores [B, N] of all nodes at a side.

        Args:
            values: A tensor for each of the program's parameters: see `pair_scores`.
            nodes: int64 [B], what is at the other side.
            types: int64 [B].
            side: "head" or "tail".
        """
        parts = self._parts[side]
        if parts is None:
            return edge_scores(self._program, values, nodes, types, SIDES[side])
        found = pair_scores(parts, values, nodes, types)
        unclear = _are_unclear(found).nonzero()[:, 0]
        if not len(unclear):
            return found
        by_edges = edge_scores(self._program, values, nodes, types, SIDES[side], unclear)
        return found.index_copy(1, unclear, by_edges)

    def has_chunks(self, side: str) -> bool:
        """Whether rows of candidates meet queries in products and distances, whatever the type."""
        parts = self._parts[side]
        return parts is not None and not parts.by_type

    def of_chunks(
        self,
        values: Mapping[str, Tensor],
        nodes: Tensor,
        types: Tensor,
        side: str,
        candidates: Tensor,
    ) -> Tensor | None:
        """Scores [B, K] of candidates [chunks, K] that B / chunks queries in a row share.

        Only where `has_chunks`. None where products do not tell.
        """
        parts = self._parts[side]
        assert parts is not None
        found = pair_scores(parts, values, nodes, types, candidates)
        chunks, count = candidates.shape
        is_unclear = chunks > 0 and _are_unclear(found.view(chunks, -1, count)).any()
        return None if is_unclear else found


def _are_unclear(scores: Tensor) -> Tensor:
    """Which candidates [..., K] have no number among their scores [..., B, K].

    Products also read what a score may not: 0 times infinity.
    """
    are_none = scores[..., :1, :].isnan().any(-2)
    return scores.isnan().all(-2) if are_none.any() else are_none
