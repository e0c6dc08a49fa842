"""How an index is cut for parallel work: blocks of nodes, and rows of a space by type.

Every cut is kept by the index, as all that it is asked for; none depends on the number of threads.
"""

import numpy as np
import torch

from hetune.variants.errors import InputError
from hetune.variants.graph import index_native
from hetune.variants.graph.edge_batch import BatchIndex
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.index_native import NodeBlocks
from hetune.variants.graph.row_groups import (
    RowGroups,
    check_block_nodes,
    cut_by_type,
    most_group_rows,
    num_blocks,
)

_SPACES = ("edge", "dst_pair", "src_pair")


def node_blocks(index: GraphIndex, block_nodes: int) -> torch.Tensor:
    """Cut the nodes into consecutive blocks of about equal work, [B + 1].

    There are `block_counts` blocks. The work (4 for a node, 1 for an incoming edge, 2 for a
    destination pair, over all the graph's edges) is shared out evenly, unless a block is a single
    node, and no block has more than twice as many nodes as the blocks have on average. All indexes
    of a graph share the cuts; so do sizes of blocks that make as many.

    Raises:
        InputError: `block_nodes` is not positive.
    """
    return _blocks(index, block_nodes).cuts


def _blocks(index: GraphIndex, block_nodes: int) -> NodeBlocks:
    whole, count = index.whole, block_count(index, block_nodes)

    def build() -> NodeBlocks:
        pointers = whole.indptr, whole.node_dst_pair_indptr
        most = 2 * -(-whole.num_nodes // count)
        return index_native.node_blocks(*pointers, most, _work_limit(whole, count))

    return whole.step(f"node_blocks({count})", build)


def block_count(index: GraphIndex, block_nodes: int) -> int:
    """What `block_counts` gives for the graph of an index.

    Raises:
        InputError: `block_nodes` is not positive.
    """
    check_block_nodes(block_nodes)
    return num_blocks(index.whole.num_nodes, block_nodes)


def _work_limit(whole: GraphIndex, count: int) -> int:
    """The most work of a block of several nodes."""
    work = 4 * whole.num_nodes + whole.num_edges + 2 * whole.num_dst_pairs
    share = -(-work // count)
    # A little more than the share, or blocks of whole nodes would leave a sliver for one more.
    return share + max(share // 64, work // max(whole.num_nodes, 1)) + 8


def block_order(index: GraphIndex, block_nodes: int) -> torch.Tensor:
    """The blocks of `node_blocks(index, block_nodes)` in the order to begin them in, [B].

    Hubs, which are blocks of their own with more than a block's share of the work, come first,
    most work first: begun late, one would keep a thread busy after the others have finished. The
    other blocks follow in the order of their nodes.

    Raises:
        InputError: `block_nodes` is not positive.
    """
    return _blocks(index, block_nodes).order


def num_hubs(index: GraphIndex, block_nodes: int) -> int:
    """How many hubs `block_order(index, block_nodes)` begins with.

    Raises:
        InputError: `block_nodes` is not positive.
    """
    return _blocks(index, block_nodes).hubs


def most_rows_in_block(index: GraphIndex, space: str, block_nodes: int) -> int:
    """The most rows that a block of `node_blocks(index, block_nodes)` has.

    Args:
        index: The index.
        space: "node", "dst_pair" (of this index's edges) or "edge" (of all edges).
        block_nodes: As for `node_blocks`.
    """
    blocks = _blocks(index, block_nodes)
    if space != "dst_pair" or index is index.whole:
        return blocks.most[("node", "edge", "dst_pair").index(space)]

    def build() -> int:
        bounds = index.node_dst_pair_indptr.numpy()[blocks.cuts.numpy()]
        return int(np.diff(bounds).max()) if len(bounds) > 1 else 0

    return index.step(f"most_pairs_in_block({block_count(index, block_nodes)})", build)


def row_groups(index: GraphIndex, space: str, block_nodes: int | None) -> RowGroups:
    """Group the rows of a space by etype.

    Args:
        index: The index.
        space: "edge", "dst_pair" or "src_pair".
        block_nodes: Group inside the blocks of destination nodes that
            `node_blocks(index, block_nodes)` yields, rows ascending in each group; only for "edge"
            and "dst_pair". None: group all rows, in groups of at most 512 rows and blocks of
            about as many, or of fewer where that makes less than eight blocks.

    Raises:
        InputError: There is no such space, or its rows have no destination to group by.
    """
    if space not in _SPACES:
        raise InputError(f"no rows of {space!r}: the spaces are {', '.join(map(repr, _SPACES))}")
    if block_nodes is None:
        if space == "edge" and isinstance(index, BatchIndex):
            return index.by_type(most_group_rows(index.num_edges)).groups
        return index.step(f"row_groups({space})", lambda: _groups_by_etype(index, space))
    if space not in ("edge", "dst_pair"):
        raise InputError(
            f"rows of {space!r} have no destination node to group by: give block_nodes=None"
        )

    def build() -> RowGroups:
        blocks = node_blocks(index, block_nodes)
        if space == "edge":
            etype, indptr = index.etype, index.indptr
        else:
            etype, indptr = index.dst_pair_etype, index.node_dst_pair_indptr
        row_ptr = indptr.index_select(0, blocks)
        return RowGroups(*index_native.group_rows(etype, row_ptr, index.num_etypes))

    return index.step(f"row_groups({space}, blocks={block_count(index, block_nodes)})", build)


def _groups_by_etype(index: GraphIndex, space: str) -> RowGroups:
    if space in ("edge", "dst_pair"):
        etype = index.etype if space == "edge" else index.dst_pair_etype
        counts = index.rows_per_relation(etype)
        rows = index_native.sort_by_key(etype, max(index.num_etypes, 1))
        return cut_by_type(rows, counts)
    rows = torch.arange(index.num_src_pairs, dtype=torch.int32, device="cpu")
    return cut_by_type(rows, np.diff(index.src_pair_etype_ptr.numpy()).astype(np.int64))
