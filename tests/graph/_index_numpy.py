"""`hetune.variants.graph.index_native` in NumPy: the same functions with the same results."""

import numpy as np
import torch

from hetune.variants.graph.index_native import NodeBlocks


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
) -> NodeBlocks:
    """Cut nodes into ranges of at most `block_nodes` nodes and `work_limit` units of work."""
    edges, pairs = (ids.numpy().astype(np.int64) for ids in (indptr, pair_indptr))
    work = np.arange(edges.size) * 4 + edges + 2 * pairs
    cuts, nodes = [0], work.size - 1
    while cuts[-1] < nodes:
        start = cuts[-1]
        fits = int(np.searchsorted(work, work[start] + work_limit, side="right")) - 1
        cuts.append(min(max(fits, start + 1), start + block_nodes, nodes))
    bounds = np.array(cuts)
    of_block = np.diff(work[bounds])
    order = np.argsort(-np.maximum(of_block, work_limit), kind="stable")
    most = (int(np.diff(of[bounds]).max(initial=0)) for of in (np.arange(nodes + 1), edges, pairs))
    hubs = int((of_block > work_limit).sum())
    return NodeBlocks(_int32(bounds), _int32(order), hubs, (next(most), next(most), next(most)))


def nodes_of(ids: torch.Tensor, count: int, having: bool) -> torch.Tensor:
    """The nodes in [0, count) that are among ids, or those that are not, ascending."""
    return _int32(np.flatnonzero(np.isin(np.arange(count), ids.numpy()) == having))


def cut_by_type(counts: np.ndarray, most: int, step: int) -> tuple[torch.Tensor, ...]:
    """Cut rows that are sorted by type into groups of at most `most`, and bundle those."""
    pieces = -(-counts // most)
    group_etype = np.repeat(np.arange(counts.size), pieces)
    size = -(-counts // np.maximum(pieces, 1))
    size = -(-size // step) * step
    first_group, first_row = np.cumsum(pieces) - pieces, np.cumsum(counts) - counts
    piece = np.arange(group_etype.size) - first_group[group_etype]
    start = first_row[group_etype] + np.minimum(piece * size[group_etype], counts[group_etype])
    window = start // most
    is_first = np.ones(window.size, dtype=bool)
    is_first[1:] = window[1:] != window[:-1]
    block_ptr = np.append(np.flatnonzero(is_first), window.size)
    return tuple(map(_int32, (np.append(start, counts.sum()), group_etype, block_ptr)))


def pairs(
    node: torch.Tensor, etype: torch.Tensor, num_nodes: int, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Number the distinct (etype, node) of edges in any order.

    Returns:
        `(pair_of_edge, pair_node, pair_etype)`, pairs by etype, then node.
    """
    keys = etype.numpy() * np.int64(num_nodes) + node.numpy()
    found, of_edge = np.unique(keys, return_inverse=True)
    return tuple(map(_int32, (of_edge, found % num_nodes, found // num_nodes)))
