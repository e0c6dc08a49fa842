"""Edges in canonical order, by (dst, etype, src), with their source pairs."""

from typing import NamedTuple

import numpy as np
import torch

from hetune.variants.graph import index_primitives


class EdgeOrder(NamedTuple):
    """Edges in canonical order and their source pairs, int32; `position` None for all edges."""

    position: torch.Tensor | None
    edge_id: torch.Tensor
    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    src_pair_of_edge: torch.Tensor
    src_pair_node: torch.Tensor
    src_pair_etype: torch.Tensor


def sort_edges(
    src: torch.Tensor, dst: torch.Tensor, etype: torch.Tensor, num_nodes: int, num_etypes: int
) -> EdgeOrder:
    """All edges of a graph."""
    ordered = index_primitives.primitives().order_edges(src, dst, etype, num_nodes, num_etypes)
    return EdgeOrder(None, *ordered)


def no_edges() -> EdgeOrder:
    """The order of an index without edges."""
    return EdgeOrder(*(torch.empty(0, dtype=torch.int32, device="cpu") for _ in EdgeOrder._fields))


def select_edges(
    every: EdgeOrder, pair_etype_ptr: np.ndarray, relations: tuple[int, ...], count: int
) -> EdgeOrder:
    """The edges of some relations: a filter keeps every order.

    Args:
        every: All edges.
        pair_etype_ptr: First source pair of each relation, and their number, [R + 1].
        relations: Ascending, at least one.
        count: How many edges these relations have.
    """
    num_etypes = pair_etype_ptr.size - 1
    chosen = np.asarray(relations)
    wanted = torch.zeros(num_etypes, dtype=torch.bool, device="cpu")
    wanted[torch.from_numpy(chosen)] = True
    position = index_primitives.primitives().select(every.etype, wanted, count)
    etype = every.etype.index_select(0, position)
    # The source pairs of a relation are contiguous: only their start moves.
    start = pair_etype_ptr
    spans = [slice(start[r], start[r + 1]) for r in chosen]
    pair_node = torch.cat([every.src_pair_node[span] for span in spans])
    pair_etype = torch.cat([every.src_pair_etype[span] for span in spans])
    shift = np.zeros(num_etypes, dtype=np.int32)
    lengths = np.diff(start)[chosen]
    shift[chosen] = np.cumsum(lengths) - lengths - start[chosen]
    pair_of_edge = every.src_pair_of_edge.index_select(0, position)
    pair_of_edge += torch.from_numpy(shift).index_select(0, etype)
    ids, src, dst = (a.index_select(0, position) for a in (every.edge_id, every.src, every.dst))
    return EdgeOrder(position, ids, src, dst, etype, pair_of_edge, pair_node, pair_etype)
