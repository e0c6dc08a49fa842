"""How high true triples rank among all that could stand in their place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, get_args

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import Side, check_pairs
from hetune.variants.runtime.known_triples import KnownTriples, as_triples, check_entities
from hetune.variants.runtime.pair_products import row_blocks

_SIDES: tuple[str, ...] = get_args(Side)
_TIES = ("realistic", "optimistic", "pessimistic")
MEMORY_LIMIT = 1 << 28
"""Bytes, by default."""
BYTES_A_SCORE = 16
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

    @classmethod
    def of(cls, ranks: Mapping[str, Tensor], k: Iterable[int]) -> Self:
        """The means of ranks by side, and hits up to each of `k`."""
        found = torch.cat(list(ranks.values()))
        hits = {most: float((found <= most).double().mean()) for most in k}
        return cls(ranks, float((1 / found).mean()), float(found.mean()), hits)


@dataclass(frozen=True, slots=True)
class TopEntities:
    """Entities by their scores, the best first.

    Attributes:
        entities: int64 [B, k]; -1 where a query has no more.
        scores: Float [B, k]; minus infinity there.
    """

    entities: Tensor
    scores: Tensor


def top_k(
    scores: AllScores,
    nodes: Tensor,
    rels: Tensor,
    *,
    k: int = 10,
    side: str = "tail",
    known: Tensor | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int, int], None] | None = None,
    **tables: Any,
) -> TopEntities:
    """The entities that score best as tails, or as heads.

    Args:
        scores: As of `rank`.
        nodes: Numbers of the entities at the other side, integers [B].
        rels: Numbers of relations, integers [B].
        k: How many for each query; all if there are fewer entities.
        side: "head" or "tail".
        known: As of `rank`: triples that are left out.
        memory_limit: Bytes that scores and what they are compared with may take.
        progress: Called before each batch with how many queries are done, and how many there are.
        **tables: Passed on to ``all``.

    Raises:
        InputError: Arguments do not fit, or a score is not a number.
    """
    _check_options((side,), (k,))
    check_pairs(nodes, rels)
    nodes, rels = nodes.long(), rels.long()
    queries = _Queries(scores, tables, side, known, nodes.device)
    count = queries.num_entities(len(nodes[:1]))
    found = torch.empty(len(nodes), min(k, count), device=nodes.device)
    best, done = torch.empty_like(found, dtype=torch.int64), 0
    for rows in _batches(rels, count, memory_limit):
        if progress is not None:
            progress(done, len(nodes))
        given = queries.scores(nodes[rows], rels[rows])
        lowest = given.new_tensor(-math.inf)
        given = given.index_put(queries.known.entities(nodes[rows], rels[rows]), lowest)
        found[rows], best[rows] = given.topk(min(k, count))
        done += len(rows)
    best[found == -math.inf] = -1
    return TopEntities(best, found)


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
    _check_options(sides, k)
    if ties not in _TIES:
        raise InputError(f"ties are {ties!r}: give one of {', '.join(_TIES)}")
    triples = as_triples("triples", triples)
    if not len(triples):
        raise InputError("there are no triples to rank: give one at least")
    ranks = {}
    for i, side in enumerate(sides):
        queries = _Queries(scores, tables, side, known, triples.device)
        target = triples[:, queries.known.target]
        nodes, rels = triples[:, queries.known.fixed], triples[:, 1]
        done = i * len(triples)
        ranks[side] = torch.empty(len(triples), dtype=torch.float64)
        count = queries.num_entities(1)
        check_entities("triples", triples, count)
        for rows in _batches(rels, count, memory_limit):
            found = queries.ranks(nodes[rows], rels[rows], target[rows], ties)
            ranks[side][rows.cpu()] = found.cpu()
            done += len(rows)
            if progress is not None:
                progress(done, len(triples) * len(sides))
    return Ranking.of(ranks, k)


class _Queries:
    """What asks for entities at one side of triples."""

    def __init__(
        self,
        scores: AllScores,
        tables: Mapping[str, Any],
        side: str,
        known: Tensor | None,
        device: torch.device,
    ) -> None:
        self._scores, self._tables, self._side = scores, tables, side
        given = torch.empty(0, 3, dtype=torch.int64) if known is None else known
        self._triples = as_triples("known", given).to(device)
        self.known = KnownTriples(self._triples, side)

    def num_entities(self, num_queries: int) -> int:
        """How many have a score in a trial of so many queries; known triples are checked."""
        zeros = self._triples.new_zeros(num_queries)
        count = self.scores(zeros, zeros).shape[1]
        check_entities("known", self._triples, count)
        return count

    def ranks(self, nodes: Tensor, rels: Tensor, target: Tensor, ties: str) -> Tensor:
        """Float64 [B]."""
        found = self.scores(nodes, rels)
        true = found.gather(1, target[:, None])
        above, equal = torch.empty_like(target), torch.empty_like(target)
        for block in row_blocks((found,), found.shape):
            above[block] = (found[block] > true[block]).sum(1)
            equal[block] = (found[block] == true[block]).sum(1) - 1
        row, entity = self.known.entities(nodes, rels)
        is_other = entity != target[row]
        row, entity = row[is_other], entity[is_other]
        other, own = found[row, entity], true[row, 0]
        above -= torch.bincount(row[other > own], minlength=len(target))
        equal -= torch.bincount(row[other == own], minlength=len(target))
        share = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}[ties]
        return 1 + above.double() + share * equal

    @torch.no_grad()
    def scores(self, nodes: Tensor, rels: Tensor) -> Tensor:
        """[B, N]."""
        found = self._scores.all(nodes, rels, side=self._side, **self._tables)
        if found.dim() != 2 or len(found) != len(nodes):
            raise InputError(
                f"scores of {len(nodes)} queries have the shape {list(found.shape)}: `all` gives "
                "a row of scores for each"
            )
        if found.numel() and found.amax(1).isnan().any():
            raise InputError(self._not_a_number(found, nodes, rels))
        return found

    def _not_a_number(self, found: Tensor, nodes: Tensor, rels: Tensor) -> str:
        """Which score is none, and whose rows to mend: those of what all such scores share."""
        row, entity = found.isnan().nonzero()[0].tolist()
        node, rel = int(nodes[row]), int(rels[row])
        whose = (
            f"entity {node} or relation {rel}" if found[row].isnan().all() else f"entity {entity}"
        )
        return (
            f"the score of entity {entity} as the {self._side} is not a number, where the other "
            f"entity is {node} and the relation {rel}: mend the rows of {whose} in the tables"
        )


def _batches(rels: Tensor, num_entities: int, memory_limit: int) -> tuple[Tensor, ...]:
    """Queries to be scored at a time: what depends on a relation is made once."""
    order = rels.argsort(stable=True)
    return torch.split(order, max(1, memory_limit // (BYTES_A_SCORE * num_entities)))


def _check_options(sides: Sequence[str], k: Sequence[int]) -> None:
    if isinstance(sides, str):
        raise InputError(f"sides are {sides!r}: give a tuple, of head, tail or both")
    if not sides or any(side not in _SIDES for side in sides) or len(set(sides)) < len(sides):
        raise InputError(f"sides are {', '.join(sides) or 'none'}: give head, tail or both")
    if any(most < 1 for most in k):
        raise InputError(f"k is {list(k)}: ranks are at least 1")
