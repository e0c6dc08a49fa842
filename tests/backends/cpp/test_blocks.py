"""What generated code relies on: all kernels of a launch see the same blocks of nodes."""

import numpy as np
import pytest

from hetune.variants.graph import cuts
from hetune.variants.graph.index import GraphIndex


@pytest.mark.parametrize("relations", [(0, 2), (1,)])
@pytest.mark.parametrize("space", ["edge", "dst_pair"])
def test_blocked_rows_of_a_group_lie_in_the_blocks_of_the_whole_graph(space, relations, graphs):
    for graph in graphs.values():
        group = GraphIndex.of(graph, relations)
        blocks = cuts.node_blocks(GraphIndex.of(graph), 16).numpy()
        found = cuts.row_groups(group, space, 16)
        assert found.num_blocks == blocks.size - 1
        node = (group.dst if space == "edge" else group.dst_pair_node).numpy()
        groups_per_block = np.diff(found.block_ptr.numpy())
        block = np.repeat(np.arange(found.num_blocks), groups_per_block)
        block = np.repeat(block, np.diff(found.group_ptr.numpy()))
        nodes = node[found.rows.numpy()]
        assert (blocks[block] <= nodes).all()
        assert (nodes < blocks[block + 1]).all()
