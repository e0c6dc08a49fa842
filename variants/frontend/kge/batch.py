"""What batches of triples have to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from hetune.variants.errors import InputError

Side = Literal["head", "tail"]
"""Of a triple."""
_INTEGERS = (torch.int64, torch.int32)


def check_triples(heads: Tensor, rels: Tensor, tails: Tensor) -> None:
    """Refuses what is no batch of triples.

    Raises:
        InputError: They are no integers, or not as many.
    """
    _check_integers(heads=heads, rels=rels, tails=tails)
    if not heads.shape == rels.shape == tails.shape:
        raise InputError(
            f"there are {len(heads)} heads, {len(rels)} rels and {len(tails)} tails: give one of "
            "each for a triple"
        )


def check_pairs(nodes: Tensor, rels: Tensor) -> None:
    """Refuses what is no batch of entities with a relation each.

    Raises:
        InputError: They are no integers, or not as many.
    """
    _check_integers(nodes=nodes, rels=rels)
    if len(nodes) != len(rels):
        raise InputError(f"there are {len(nodes)} nodes and {len(rels)} rels: give one for each")


def _check_integers(**given: Tensor) -> None:
    for name, ids in given.items():
        if not isinstance(ids, Tensor) or ids.dtype not in _INTEGERS or ids.dim() != 1:
            raise InputError(f"{name} are no integers [B]: give a tensor of int64 or int32")


def check_negatives(negatives: Tensor, num_triples: int, side: str) -> None:
    """Refuses what are no negatives of a batch.

    Raises:
        InputError: They are no integers [B, K] or [chunks, K], or take no side.
    """
    _check_side(side)
    is_table = isinstance(negatives, Tensor) and negatives.dim() == 2
    if not is_table or negatives.dtype not in _INTEGERS:
        raise InputError("negatives are no integers [B, K]: give a tensor of int64 or int32")
    if num_triples % len(negatives) if len(negatives) else num_triples:
        raise InputError(
            f"{num_triples} triples are no {len(negatives)} chunks: give a row of negatives for "
            "each triple, or for each of some chunks of equal size"
        )


def check_queries(
    nodes: Tensor, rels: Tensor, side: str, num_entities: int, num_relations: int | None
) -> None:
    """Refuses what are no entities with relations whose other side may be anyone.

    Raises:
        InputError: They are no integers, or not as many, or there is no such side, entity or
            relation.
    """
    check_pairs(nodes, rels)
    _check_side(side)
    check_range("nodes", nodes, "entities", num_entities)
    check_range("rels", rels, "relations", num_relations)


def _check_side(side: str) -> None:
    if side not in get_args(Side):
        raise InputError(f"side={side!r}: take 'head' or 'tail'")


def check_ids(triples: Sequence[Tensor], num_entities: int, num_relations: int | None) -> None:
    """Refuses triples of entities or relations that there are not; None allows any relation.

    Raises:
        InputError: Says which, and where.
    """
    kinds = ("heads", "entities"), ("rels", "relations"), ("tails", "entities")
    counts = num_entities, num_relations, num_entities
    for ids, (name, kind), count in zip(triples, kinds, counts, strict=True):
        check_range(name, ids, kind, count)


def check_range(name: str, ids: Tensor, kind: str, count: int | None) -> None:
    """Refuses ids of what there is not; a count of None allows any.

    Raises:
        InputError: Says which, and where.
    """
    if count is None:
        return
    wrong = ((ids < 0) | (ids >= count)).nonzero()
    if len(wrong):
        at = wrong[0].tolist()
        raise InputError(
            f"{name}{at} is {int(ids[tuple(at)])}: there are {count} {kind}, numbered from 0"
        )
