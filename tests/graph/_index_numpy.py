"""`hetune.variants.graph.index_native` in NumPy: the same functions with the same results."""

import numpy as np
import torch


def _int32(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32))


def order_edges(
    src: torch.Tensor, dst: torch.Tensor, etype: torch.Tensor, num_nodes: int, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Sort edges by (dst, etype, src, position) and number the distinct (etype, src) pairs.

    Returns:
        `(edge_id, src, dst, etype, src_pair_of_edge, src_pair_node, src_pair_etype)`.
    """
    source, target, relation = src.numpy(), dst.numpy(), etype.numpy()
    order = np.lexsort((source, relation, target))
    keys = relation[order].astype(np.int64) * num_nodes + source[order]
    pairs, pair_of_edge = np.unique(keys, return_inverse=True)
    nodes = max(num_nodes, 1)
    columns = (order, source[order], target[order], relation[order], pair_of_edge.reshape(-1))
    return tuple(map(_int32, (*columns, pairs % nodes, pairs // nodes)))


def sort_by_key(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """Stable argsort of keys in [0, buckets)."""
    return _int32(np.argsort(keys.numpy(), kind="stable"))


def pointers(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """How many of the sorted keys are smaller than k, for each k in [0, buckets]."""
    return _int32(np.searchsorted(keys.numpy(), np.arange(buckets + 1)))


def number_pairs(dst: torch.Tensor, etype: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Number the runs of equal (dst, etype) in canonical order.

    Returns:
        `(pair_of_edge, indptr, node, etype)`.
    """
    target, relation = dst.numpy(), etype.numpy()
    is_first = np.ones(target.size, dtype=bool)
    is_first[1:] = (np.diff(target) != 0) | (np.diff(relation) != 0)
    first = np.flatnonzero(is_first)
    indptr = np.append(first, target.size)
    return tuple(map(_int32, (np.cumsum(is_first) - 1, indptr, target[first], relation[first])))


def select(etype: torch.Tensor, wanted: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` positions whose etype is wanted (bool [R])."""
    return _int32(np.flatnonzero(wanted.numpy()[etype.numpy()]))


def group_rows(
    etype: torch.Tensor, row_ptr: torch.Tensor, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Sort the rows of each block `[row_ptr[b], row_ptr[b + 1])` by etype, stably.

    Returns:
        `(rows, group_ptr, group_etype, block_ptr)`, a group being a run of one etype.
    """
    relation, bounds = etype.numpy(), row_ptr.numpy()
    block = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    rows = np.lexsort((relation, block))
    is_first = np.ones(rows.size, dtype=bool)
    is_first[1:] = (np.diff(block) != 0) | (np.diff(relation[rows]) != 0)
    first = np.flatnonzero(is_first)
    group_ptr = np.append(first, rows.size)
    block_ptr = np.searchsorted(first, bounds)
    return tuple(map(_int32, (rows, group_ptr, relation[rows[first]], block_ptr)))


def node_blocks(
    indptr: torch.Tensor, pair_indptr: torch.Tensor, block_nodes: int, work_limit: int
) -> torch.Tensor:
    """Cut nodes into ranges of at most `block_nodes` nodes and `work_limit` units of work."""
    work = np.arange(indptr.numel()) * 4 + indptr.numpy() + 2 * pair_indptr.numpy().astype(np.int64)
    cuts, nodes = [0], work.size - 1
    while cuts[-1] < nodes:
        start = cuts[-1]
        fits = int(np.searchsorted(work, work[start] + work_limit, side="right")) - 1
        cuts.append(min(max(fits, start + 1), start + block_nodes, nodes))
    return _int32(np.array(cuts))
