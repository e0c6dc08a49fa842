"""Edges in canonical order, merged: an edited graph's, from those of the graph before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from hetune.variants.graph import index_native
from hetune.variants.graph._order import EdgeOrder
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import as_int32

_LOW = (1 << 32) - 1


class Added(NamedTuple):
    """Edges that come, in the order in which the graph gets them: int64 [A] each.

    A node that comes, too, is put at half a node before the first one of the next type: twice
    their old ids, minus one, is where ends lie (`src_key`, `dst_key`).
    """

    src: np.ndarray
    dst: np.ndarray
    etype: np.ndarray
    src_key: np.ndarray
    dst_key: np.ndarray


def find_edges(
    index: GraphIndex, src: np.ndarray, dst: np.ndarray, etype: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where the edges between these nodes begin and end in canonical order, int64 each."""
    keys = 2 * etype, 2 * src
    return _in_order(index, 2 * dst, keys, False), _in_order(index, 2 * dst, keys, True)


def merged_order(
    index: GraphIndex,
    removed: np.ndarray,
    gone: torch.Tensor,
    added: Added,
    new_nodes: torch.Tensor | None,
) -> EdgeOrder:
    """The canonical order of the edited graph: equal, bit by bit, to that of sorting it.

    Args:
        index: Of all edges of the graph before.
        removed: Where in its canonical order the edges lie that go, ascending.
        gone: Where in the graph's own order, ascending, int32.
        added: Edges that come.
        new_nodes: The new id of each node, int32 [N]; None if they keep theirs.
    """
    order = np.lexsort((added.src, added.etype, added.dst))
    src, dst, etype, src_key, dst_key = (column[order] for column in added)
    at = as_int32(_in_order(index, dst_key, (2 * etype, src_key), True))
    positions = as_int32(removed)
    new_ids = None
    if len(removed):
        nothing = torch.empty(0, dtype=torch.int32, device="cpu")
        new_ids = index_native.renumber(index.num_edges, gone, nothing)
    ids = index.num_edges - len(removed) + order
    pairs = _merged_pairs(index, removed, added, new_nodes)

    def column(
        values: torch.Tensor, come: np.ndarray, numbers: torch.Tensor | None = None
    ) -> torch.Tensor:
        return index_native.edit_column(values, positions, at, as_int32(come), numbers)

    return EdgeOrder(
        column(index.edge_id, ids, new_ids),
        column(index.src, src, new_nodes),
        column(index.dst, dst, new_nodes),
        column(index.etype, etype),
        column(index.src_pair_of_edge, pairs.of_added[order], pairs.numbers),
        pairs.node,
        pairs.etype,
    )


class _Pairs(NamedTuple):
    """Source pairs of the edited graph; the new number of each old one, if any changes."""

    node: torch.Tensor
    etype: torch.Tensor
    numbers: torch.Tensor | None
    of_added: np.ndarray


def _merged_pairs(
    index: GraphIndex, removed: np.ndarray, added: Added, new_nodes: torch.Tensor | None
) -> _Pairs:
    start = index.src_pair_etype_ptr.numpy()
    spans = start[added.etype], start[added.etype + 1]
    keys = added.etype, added.src_key
    first, after = (_bound(None, index.src_pair_node, keys, spans, a) for a in (False, True))
    is_known = after > first
    gone = _emptied(index, removed, first[is_known])
    new = added.etype[~is_known] << 32 | added.src[~is_known]
    born, of_born = np.unique(new, return_inverse=True)
    at = np.zeros(len(born), np.int64)
    at[of_born] = first[~is_known]
    changes = as_int32(gone), as_int32(at)
    numbers = None
    if len(gone) or len(at):
        numbers = index_native.renumber(index.num_src_pairs, *changes)
    of_added = np.zeros(len(added.src), np.int64)
    known = first[is_known]
    of_added[is_known] = known if numbers is None else numbers.numpy()[known]
    # Those before it that go, and come.
    own = at - np.searchsorted(gone, at) + np.arange(len(at))
    of_added[~is_known] = own[of_born]
    return _Pairs(
        index_native.edit_column(index.src_pair_node, *changes, as_int32(born & _LOW), new_nodes),
        index_native.edit_column(index.src_pair_etype, *changes, as_int32(born >> 32)),
        numbers,
        of_added,
    )


def _emptied(index: GraphIndex, removed: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Source pairs whose edges all go, ascending, but for those that added edges use."""
    if not len(removed):
        return removed
    of_edge = index.src_pair_of_edge.numpy()
    pairs, losses = np.unique(of_edge[removed], return_counts=True)
    is_touched = np.zeros(index.num_src_pairs, bool)
    is_touched[pairs] = True
    is_touched[used] = False
    left = np.bincount(np.searchsorted(pairs, of_edge[is_touched[of_edge]]), minlength=len(pairs))
    emptied: np.ndarray = pairs[(left == losses) & is_touched[pairs]]
    return emptied


def _in_order(
    index: GraphIndex, dst_key: np.ndarray, keys: tuple[np.ndarray, np.ndarray], above: bool
) -> np.ndarray:
    """The first position in canonical order that is not before an edge, or behind equal ones."""
    indptr = index.indptr.numpy()
    # Of a node that comes, which no edge leads to yet, both are the same.
    span = indptr[(dst_key + 1) // 2], indptr[dst_key // 2 + 1]
    return _bound(index.etype, index.src, keys, span, above)


def _bound(
    major: torch.Tensor | None,
    minor: torch.Tensor,
    keys: tuple[np.ndarray, np.ndarray],
    span: tuple[np.ndarray, np.ndarray],
    above: bool,
) -> np.ndarray:
    ends, wanted = (
        (
            torch.from_numpy(np.ascontiguousarray(a, np.int64)),
            torch.from_numpy(np.ascontiguousarray(b, np.int64)),
        )
        for a, b in (span, keys)
    )
    return index_native.bound(major, minor, wanted, ends, above).numpy()
