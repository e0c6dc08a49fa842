"""Sharing out by edges: hubs reach over many chunks, and results stay the same."""

import numpy as np
import pytest

from hetune.variants.backends.cpp.balance import CHUNK_EDGES, supports_edge_balance
from hetune.variants.backends.cpp.emit import emit
from hetune.variants.errors import KernelError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

WEIGHTED_SUM = """
launch
  buffer x: node[{d}]
  buffer a: edge[]
  buffer root: node[{d}]
  buffer y: node[{d}]
  buffer top: node[]
  traverse node
    own: [{d}] = read root
    init acc: [{d}] sum
    init most: [] max
    for edge@{group}
      h: [{d}] = read x[src]
      c: [] = read a
      m: [{d}] = mul(c, h)
      update acc m
      update most c
    both: [{d}] = add(own, acc)
    store y = both
    flat: [] = sigmoid(most)
    store top = flat
"""

BY_EDGE = Schedule(balance="edge")


def _with_hubs(edges_into_hubs: int) -> HeteroGraph:
    """Node 0 and node 5 have many edges; nodes 6 and 9 have none, and nor has the last one."""
    rng = np.random.default_rng(1)
    dst = np.concatenate(
        [
            np.zeros(edges_into_hubs, np.int64),
            np.full(3 * edges_into_hubs, 5),
            rng.choice([1, 2, 3, 4, 7, 8], 500),
        ]
    )
    src = rng.integers(0, 11, dst.size)
    etype = rng.integers(0, 3, dst.size)
    ntype = np.zeros(11, np.int64)
    return HeteroGraph(src, dst, etype, ntype, num_nodes=11, num_etypes=3, num_ntypes=3)


@pytest.fixture(scope="session")
def hubs(graphs) -> dict[str, HeteroGraph]:
    found = {f"{count} edges": _with_hubs(count) for count in (3, CHUNK_EDGES, 2 * CHUNK_EDGES + 7)}
    return {**graphs, **found}


@pytest.mark.parametrize("group", ["", "a"])
@pytest.mark.parametrize("d", [1, 7, 64])
def test_sums_over_hubs(d, group, check, hubs):
    launch = parse(WEIGHTED_SUM.format(d=d, group=group).replace("@\n", "\n"))
    assert supports_edge_balance(launch)
    check(launch, BY_EDGE, hubs)


def test_what_cannot_be_cut_by_edges_says_so():
    text = WEIGHTED_SUM.format(d=4, group="a").replace("for edge@a", "for dst_pair@a")
    launch = parse(
        text.replace("read x[src]", "read x[dst]").replace("buffer a: edge", "buffer a: dst_pair@a")
    )
    assert not supports_edge_balance(launch)
    with pytest.raises(KernelError, match="use balance=node"):
        emit(launch, BY_EDGE)
