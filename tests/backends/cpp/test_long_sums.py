"""Sums of hundreds of thousands of edges keep their digits, in every kind of loop."""

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.parse import parse

from ..launches import WALK

TWO_LOOPS = """
launch
  buffer x: node[{d}]
  buffer y: node[{d}]
  traverse node
    init acc: [{d}] sum
    for edge@a
      h: [{d}] = read x[src]
      update acc h
    for edge@b
      g: [{d}] = read x[src]
      update acc g
    store y = acc
"""

NESTED = """
launch
  buffer x: node[{d}]
  buffer y: node[{d}]
  buffer p: dst_pair[{d}]
  traverse node
    init acc: [{d}] sum
    for dst_pair
      init part: [{d}] sum
      for edge
        h: [{d}] = read x[src]
        update part h
        update acc h
      store p = part
    store y = acc
"""

SEGMENTS = """
launch
  buffer x: node[{d}]
  buffer w: etype[{d},3]
  buffer t: dst_pair[3]
  gemm t[dst_pair] = sum(x[src]) @ w heads=1 k={d} n=3
"""

WEIGHTED_SEGMENTS = """
launch
  buffer x: node[2,{d}]
  buffer a: edge[2]
  buffer w: etype[2,{d},3]
  buffer t: dst_pair[6]
  gemm t[dst_pair] = sum(a * x[src]) @ w heads=2 k={d} n=3
"""

LOOPS = {
    "sum": WALK,
    "two loops": TWO_LOOPS,
    "nested": NESTED,
    "segments": SEGMENTS,
    "weighted segments": WEIGHTED_SEGMENTS,
}


@pytest.fixture(scope="module")
def hub() -> dict[str, HeteroGraph]:
    """Nine tenths of the edges lead to one node, and of those most are of one type."""
    draw, edges, nodes = torch.Generator().manual_seed(0), 300_000, 50
    dst = torch.where(
        torch.rand(edges, generator=draw) < 0.9, 1, torch.randint(nodes, (edges,), generator=draw)
    )
    src = torch.randint(nodes, (edges,), generator=draw)
    etype = (torch.rand(edges, generator=draw) * 1.2).long() + 1
    etype[::50] = 0
    ntype = torch.zeros(nodes, dtype=torch.int64)
    return {"hub": HeteroGraph(src, dst, etype, ntype, num_etypes=3, num_ntypes=3)}


@pytest.mark.parametrize("d", [1, 7])
@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_hub(text, d, check, hub):
    check(parse(text.format(d=d)), only=hub, of=torch.abs)


@pytest.mark.parametrize("text", [WALK, NESTED], ids=["sum", "nested"])
def test_rows_wider_than_the_registers(text, check, hub):
    check(parse(text.format(d=350)), only={"hub": _first_edges(hub["hub"])}, of=torch.abs)


@pytest.mark.parametrize("d", [1, 7])
@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_the_same_number_again_and_again(text, d, check, hub):
    """All roundings of a sum go one way then."""
    check(parse(text.format(d=d)), only=hub, of=lambda rows: torch.full_like(rows, 0.7))


@pytest.mark.parametrize("edges", [511, 512, 513, 1024, 1025])
def test_ends_of_parts(edges, check):
    dst = torch.cat((torch.zeros(edges), torch.ones(3))).long()
    src = torch.arange(edges + 3) % 4
    graph = HeteroGraph(src, dst, src % 3, torch.zeros(4, dtype=torch.int64), num_ntypes=3)
    check(parse(WALK.format(d=3)), only={"row": graph})
    check(parse(TWO_LOOPS.format(d=3)), only={"row": graph})


def _first_edges(graph: HeteroGraph) -> HeteroGraph:
    few = slice(0, 3000)
    ends = graph.src[few], graph.dst[few], graph.etype[few]
    return HeteroGraph(*ends, graph.ntype, num_etypes=3, num_ntypes=3)
