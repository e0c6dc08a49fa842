"""Sums of many edges are as exact as short ones, and come in parts where parts add up."""

from itertools import pairwise

import pytest
import torch

from hetune.variants.backends.triton.arguments import Tiling
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.tiles import tiles_of
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Rows
from hetune.variants.kernel.parse import parse
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.graphs import typed_graph

from ..launches import PAIRS, RGCN, WALK

CPU = torch.device("cpu")
WHOLE = """
launch
  buffer x: node[2]
  buffer w: etype[2,2]
  buffer y: dst_pair[2]
  gemm y[dst_pair] = sum(x[src]) @ w heads=1 k=2 n=2
"""
"""Rows that are not scattered have all edges of their pairs."""


def hub(edges: int):
    """All edges lead to one node."""
    return typed_graph((8,), [(0, 0, edges)], ends=lambda src, dst: (src, torch.zeros_like(dst)))


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_long_rows_come_in_parts(small, most):
    index = DeviceIndex.on(small, CPU)
    tiling = Tiling(Rows(Space.DST_PAIR), True, 4, by_length=True, most_edges=most)
    tiles = tiles_of(tiling, small, index)
    parts = sorted(zip(*(t.tolist() for t in (tiles.rows, tiles.begin, tiles.end)), strict=True))
    bounds = index.dst_pair_indptr.tolist()
    expected = [
        (row, begin, min(begin + (most or end), end))
        for row, (start, end) in enumerate(pairwise(bounds))
        for begin in range(start, end, most or end)
    ]
    assert parts == expected
    lengths = (tiles.end - tiles.begin).tolist()
    for first, last, kind in zip(tiles.first, tiles.last, tiles.type, strict=True):
        assert lengths[first:last] == sorted(lengths[first:last], reverse=True)
        assert set(index.dst_pair_etype[tiles.rows[first:last].long()].tolist()) == {int(kind)}


def test_products_of_parts_add_up(check, small):
    for text in (RGCN.format(d=7), PAIRS.format(k=2, n=2)):
        check(parse(text), small, GpuSchedule(part_edges=4, edges=2))


@pytest.mark.parametrize(
    ("text", "limit"),
    [(WALK.format(d=2), 1e-6), (PAIRS.format(k=2, n=2), 1e-6), (WHOLE, 2e-7)],
    ids=["walk", "product", "whole rows"],
)
def test_equal_terms_lose_little(text, limit):
    """Whose roundings all go one way: summed one by one they were wrong by 4e-5."""
    pytest.importorskip("triton", minversion="3.7.1")
    graph, launch = hub(4000), parse(text)
    values = {
        "x": torch.full((8, 2), 0.1),
        "w": torch.eye(2)[None],
        "y": torch.zeros(8, 2),
    }
    TritonBackend().bind(launch, GpuSchedule(), Domain(graph, CPU))(values)
    expected = 4000 * values["x"][0].double()
    assert float((values["y"][0].double() / expected - 1).abs().max()) < limit
