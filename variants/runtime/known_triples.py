"""Triples that are known to be true, looked up by all but the entity at one side."""

from __future__ import annotations

import torch
from torch import Tensor

from hetune.variants.errors import InputError


class KnownTriples:
    """Finds the true entities of queries.

    Args:
        triples: int64 [K, 3]: head, relation and tail of each, none negative.
        side: "head" or "tail": what is looked for.

    Attributes:
        fixed: Which column is known of a query.
        target: Which one is looked for.
    """

    def __init__(self, triples: Tensor, side: str) -> None:
        self.fixed, self.target = (0, 2) if side == "tail" else (2, 0)
        self._stride = 1 + int(triples[:, 1].max()) if len(triples) else 1
        known = triples[triples[:, self.target].argsort()]
        keys = self._keys(known[:, self.fixed], known[:, 1])
        order = keys.argsort(stable=True)
        keys, entities = keys[order], known[order, self.target]
        is_new = torch.ones_like(keys, dtype=torch.bool)
        is_new[1:] = (keys[1:] != keys[:-1]) | (entities[1:] != entities[:-1])
        self._true_keys, self._entities = keys[is_new], entities[is_new]

    def entities(self, nodes: Tensor, rels: Tensor) -> tuple[Tensor, Tensor]:
        """Which queries, int64 [B] each, have which true entities: int64 [pairs] each."""
        keys = self._keys(nodes, rels)
        start = torch.searchsorted(self._true_keys, keys)
        counts = torch.searchsorted(self._true_keys, keys, right=True) - start
        row = torch.arange(len(keys), device=keys.device).repeat_interleave(counts)
        first = start - (counts.cumsum(0) - counts)
        return row, self._entities[torch.arange(len(row), device=keys.device) + first[row]]

    def _keys(self, nodes: Tensor, rels: Tensor) -> Tensor:
        """-1 for a relation that no known triple has."""
        return torch.where(rels < self._stride, nodes * self._stride + rels, -1)


def as_triples(name: str, given: Tensor) -> Tensor:
    """Triples as int64 [M, 3].

    Raises:
        InputError: They are no integers [M, 3].
    """
    if not isinstance(given, Tensor):
        raise InputError(f"{name} is a {type(given).__name__}: give a tensor of integers [M, 3]")
    if given.dim() != 2 or given.shape[1] != 3 or given.is_floating_point():
        raise InputError(f"{name} is {given.dtype} {list(given.shape)}: give integers [M, 3]")
    return given.long()


def check_entities(name: str, triples: Tensor, count: int) -> None:
    """Refuses triples of entities that there are not, or of negative relations.

    Raises:
        InputError: Says which.
    """
    wrong = ((triples < 0) | (triples[:, [0, 0, 2]] >= count)).any(1).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"{name}[{at}] is {triples[at].tolist()}: there are {count} entities, numbered from 0"
        )
