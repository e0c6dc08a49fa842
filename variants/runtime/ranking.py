"""How high true triples rank among all that could stand in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.runtime.pair_products import row_blocks

_SIDES = ("head", "tail")
_TIES = ("realistic", "optimistic", "pessimistic")
MEMORY_LIMIT = 1 << 28
"""Bytes, by default."""
_BYTES_A_SCORE = 16
"""A score, and what it is made of."""


class AllScores(Protocol):
    """What scores all entities at once, such as a score function."""

    @property
    def all(self) -> Callable[..., Tensor]:
        """A function of nodes [B], rels [B], ``side=`` and tables that gives scores [B, N]."""
        ...


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks of true triples, from 1.

    Attributes:
        ranks: Float64 [M] for each side: of the true entity there, in the order of the triples.
        mrr: The mean of 1 / rank over triples and sides.
        mr: The mean rank.
        hits: By k: which part of the ranks is at most k.
    """

    ranks: Mapping[str, Tensor]
    mrr: float
    mr: float
    hits: Mapping[int, float]


def rank(
    scores: AllScores,
    triples: Tensor,
    *,
    known: Tensor | None = None,
    sides: Sequence[str] = _SIDES,
    k: Sequence[int] = (1, 3, 10),
    ties: str = "realistic",
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int, int], None] | None = None,
    **tables: Any,
) -> Ranking:
    """Ranks true triples among those with any other entity as their head, or as their tail.

    Args:
        scores: Has a method ``all(nodes, rels, side=...)`` that gives scores [B, N].
        triples: Integers [M, 3]: head, relation and tail of each.
        known: Integers [K, 3]: true triples, which are left out of the others. None leaves none
            out.
        sides: What is replaced: "head", "tail" or both.
        k: For `Ranking.hits`.
        ties: Among equal scores a true triple comes first ("optimistic"), last ("pessimistic"), or
            in the middle ("realistic").
        memory_limit: Bytes that scores and what they are compared with may take.
        progress: Called after each batch with how many ranks there are, and how many there will be.
        **tables: Passed on to ``all``.

    Raises:
        InputError: There are no triples, or they do not fit; or a score is not a number.
    """
    _check_options(sides, k, ties)
    triples = _as_triples("triples", triples)
    if not len(triples):
        raise InputError("there are no triples to rank: give one at least")
    others = _as_triples("known", known) if known is not None else triples[:0]
    ranks = {}
    for i, side in enumerate(sides):
        ranker = _SideRanker(scores, tables, side, ties, others.to(triples.device))
        done = i * len(triples)
        ranks[side] = torch.empty(len(triples), dtype=torch.float64)
        count = ranker.num_entities(triples)
        order = triples[:, 1].argsort(stable=True)  # what depends on a relation is made once
        size = max(1, memory_limit // (_BYTES_A_SCORE * count))
        for rows in torch.split(order, size):
            ranks[side][rows.cpu()] = ranker.ranks(triples[rows]).cpu()
            done += len(rows)
            if progress is not None:
                progress(done, len(triples) * len(sides))
    found = torch.cat(list(ranks.values()))
    hits = {most: float((found <= most).double().mean()) for most in k}
    return Ranking(ranks, float((1 / found).mean()), float(found.mean()), hits)


class _SideRanker:
    """Ranks entities at one side of triples."""

    def __init__(
        self, scores: AllScores, tables: Mapping[str, Any], side: str, ties: str, known: Tensor
    ) -> None:
        self._scores, self._tables, self._side, self._ties = scores, tables, side, ties
        self._fixed, self._target = (0, 2) if side == "tail" else (2, 0)
        self._known = known

    def num_entities(self, triples: Tensor) -> int:
        """How many there are; afterwards the true triples of a query are known."""
        count = self._all(torch.zeros_like(triples[:1])).shape[1]
        for name, given in (("triples", triples), ("known", self._known)):
            wrong = ((given < 0) | (given[:, [0, 0, 2]] >= count)).any(1).nonzero()
            if len(wrong):
                at = int(wrong[0])
                raise InputError(
                    f"{name}[{at}] is {given[at].tolist()}: there are {count} entities, numbered "
                    "from 0"
                )
        self._stride = 1 + int(torch.cat((triples, self._known))[:, 1].max())
        known = self._known[self._known[:, self._target].argsort()]
        keys = self._keys(known)
        order = keys.argsort(stable=True)
        keys, entities = keys[order], known[order, self._target]
        is_new = torch.ones_like(keys, dtype=torch.bool)
        is_new[1:] = (keys[1:] != keys[:-1]) | (entities[1:] != entities[:-1])
        self._true_keys, self._true_entities = keys[is_new], entities[is_new]
        return count

    def ranks(self, triples: Tensor) -> Tensor:
        """Float64 [B]."""
        found, target = self._all(triples), triples[:, self._target]
        if found.amax(1).isnan().any():
            raise InputError("a score is not a number: ranks need numbers")
        true = found.gather(1, target[:, None])
        above, equal = torch.empty_like(target), torch.empty_like(target)
        for block in row_blocks((found,), found.shape):
            above[block] = (found[block] > true[block]).sum(1)
            equal[block] = (found[block] == true[block]).sum(1) - 1
        row, entity = self._true_others(triples)
        other, own = found[row, entity], true[row, 0]
        above -= torch.bincount(row[other > own], minlength=len(triples))
        equal -= torch.bincount(row[other == own], minlength=len(triples))
        share = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}[self._ties]
        return 1 + above.double() + share * equal

    def _true_others(self, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the triples have which other true entities."""
        keys = self._keys(triples)
        start = torch.searchsorted(self._true_keys, keys)
        counts = torch.searchsorted(self._true_keys, keys, right=True) - start
        row = torch.arange(len(keys), device=keys.device).repeat_interleave(counts)
        first = start - (counts.cumsum(0) - counts)
        entity = self._true_entities[torch.arange(len(row), device=keys.device) + first[row]]
        is_other = entity != triples[row, self._target]
        return row[is_other], entity[is_other]

    def _keys(self, triples: Tensor) -> Tensor:
        return triples[:, self._fixed] * self._stride + triples[:, 1]

    @torch.no_grad()
    def _all(self, triples: Tensor) -> Tensor:
        nodes = triples[:, self._fixed]
        found = self._scores.all(nodes, triples[:, 1], side=self._side, **self._tables)
        if found.dim() != 2 or len(found) != len(triples):
            raise InputError(
                f"scores of {len(triples)} queries have the shape {list(found.shape)}: `all` gives "
                "a row of scores for each"
            )
        return found


def _as_triples(name: str, given: Tensor) -> Tensor:
    if not isinstance(given, Tensor):
        raise InputError(f"{name} is a {type(given).__name__}: give a tensor of integers [M, 3]")
    if given.dim() != 2 or given.shape[1] != 3 or given.is_floating_point():
        raise InputError(f"{name} is {given.dtype} {list(given.shape)}: give integers [M, 3]")
    return given.long()


def _check_options(sides: Sequence[str], k: Sequence[int], ties: str) -> None:
    if isinstance(sides, str):
        raise InputError(f"sides are {sides!r}: give a tuple, of head, tail or both")
    if not sides or any(side not in _SIDES for side in sides) or len(set(sides)) < len(sides):
        raise InputError(f"sides are {', '.join(sides) or 'none'}: give head, tail or both")
    if any(most < 1 for most in k):
        raise InputError(f"k is {list(k)}: ranks are at least 1")
    if ties not in _TIES:
        raise InputError(f"ties are {ties!r}: give one of {', '.join(_TIES)}")
