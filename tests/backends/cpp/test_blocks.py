"""What generated code relies on: all kernels of a launch see the same blocks of nodes."""

import numpy as np
import pytest

from hetune.variants.graph import cuts
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

SUM = """
launch
  buffer x: node[4]
  buffer y: node[4]
  traverse node
    init acc: [4] sum
    for edge
      h: [4] = read x[src]
      update acc h
    store y = acc
"""


@pytest.mark.parametrize("hubs", [0, 1, 20])
@pytest.mark.parametrize("threads", [2, 3, 7, 64, 70])
def test_no_block_is_left_out_whoever_runs_it(hubs, threads, check):
    """Each node's sum is right, with hubs for all and shares for each; 64 shares are the most."""
    rng = np.random.default_rng(hubs)
    nodes = 600
    dst = np.concatenate([np.repeat(np.arange(hubs) * 6, 300), rng.integers(0, nodes, 900)])
    graph = HeteroGraph(rng.integers(0, nodes, dst.size), dst, num_nodes=nodes)
    index = GraphIndex.of(graph)
    assert (cuts.num_hubs(index, 8) > 0) == (hubs > 0)
    assert cuts.num_hubs(index, 8) < cuts.block_order(index, 8).numel()
    check(parse(SUM), Schedule(block_nodes=8), {"": graph}, more_threads=threads)


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
