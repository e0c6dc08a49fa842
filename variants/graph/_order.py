"""Edges in canonical order, by (dst, etype, src), and the pairs of their ends and types."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch


class EdgeOrder(NamedTuple):
    """All edges of a graph in canonical order and their source pairs, int32."""

    edge_id: torch.Tensor
    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    src_pair_of_edge: torch.Tensor
    src_pair_node: torch.Tensor
    src_pair_etype: torch.Tensor


class SelectedPairs(NamedTuple):
    """Source pairs of some relations: nodes and types, int32 [PS]; how their numbers move.

    Those of a relation are contiguous, so that only their start moves: by `shift`, int32 [R].
    """

    src_pair_node: torch.Tensor
    src_pair_etype: torch.Tensor
    shift: torch.Tensor


@dataclass(frozen=True)
class RelationStats:
    """Counts per relation of the whole graph, int64 [R].

    Attributes:
        edges: Edges.
        src_pairs: Distinct sources.
        dst_pairs: Distinct destinations.
    """

    edges: np.ndarray
    src_pairs: np.ndarray
    dst_pairs: np.ndarray


class DstPairs(NamedTuple):
    """Distinct (dst, etype): first edges, nodes and types; int32."""

    indptr: torch.Tensor
    node: torch.Tensor
    etype: torch.Tensor


def select_pairs(
    every: EdgeOrder, pair_etype_ptr: np.ndarray, relations: tuple[int, ...]
) -> SelectedPairs:
    """Source pairs of some relations.

    Args:
        every: All edges.
        pair_etype_ptr: First source pair of each relation, and their number, [R + 1].
        relations: Ascending.
    """
    chosen, start = np.asarray(relations, np.intp), pair_etype_ptr
    lengths = np.diff(start)[chosen]
    shift = np.zeros(start.size - 1, dtype=np.int32)
    shift[chosen] = np.cumsum(lengths) - lengths - start[chosen]
    nothing = every.src_pair_node[:0]
    node, etype = (
        torch.cat([nothing, *(pairs[start[r] : start[r + 1]] for r in relations)])
        for pairs in (every.src_pair_node, every.src_pair_etype)
    )
    return SelectedPairs(node, etype, torch.from_numpy(shift).to(node.device))
