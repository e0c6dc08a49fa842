"""Scores that are single numbers: their exponentials for all edges of a block, then the sums."""

import pytest
import torch

from hetune.variants.backends.cpp.flat_softmax import softmax_across_edges
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

from .test_one_pass import DEGREES, immoderate, moderate, with_degrees

ADDITIVE = """
launch
  buffer near: dst_pair[{h}] in scratch near
  buffer q: dst_pair[{h}]
  buffer far: src_pair[{h}]
  buffer slope: shared[{h}]
  buffer x: node[{h},{d}]
  buffer v: src_pair@a[{h},{d}]
  buffer c: node[{h},{d}]
  buffer room: edge[{h}] in scratch room
  buffer z: dst_pair@b[{h},{d}] in scratch z
  buffer y: node[{h},{d}]
  buffer out: dst_pair@b[{h},{d}]
  traverse dst_pair
    own: [{h}] = read q
    store near = own
  traverse node
    init acc: [{h},{d}] sum
    softmax share: [{h}] over edge to room
      scores edge
        to: [{h}] = read near
        of: [{h}] = read far
        both: [{h}] = add(to, of)
        active: [{h}] = leaky_relu(both, const=0.2)
        times: [{h}] = read slope
        s: [{h}] = mul(active, times)
        score s
      for dst_pair@b
        init sum: [{h},{d}] sum
        for edge@b
          row: [{h},{d}] = read x[src]
          m: [{h},{d}] = mul(share, row)
          update sum m
        store z = sum
      for edge@a
        row: [{h},{d}] = read v
        m: [{h},{d}] = mul(share, row)
        update acc m
    old: [{h},{d}] = read c
    both: [{h},{d}] = add(old, acc)
    store y = both
  traverse dst_pair@b
    row: [{h},{d}] = read z
    store out = row
"""
"""Scores of all edges; sums of one group of edges at nodes, and of the other at pairs."""


def is_flat(launch, lanes):
    return softmax_across_edges(launch.kernels[1], launch, lanes) is not None


@pytest.mark.parametrize("of", [moderate, immoderate])
@pytest.mark.parametrize(
    ("h", "d", "lanes"), [(1, 64, 16), (1, 7, 16), (4, 16, 16), (8, 8, 16), (4, 24, 8), (2, 6, 4)]
)
def test_heads_and_vectors(h, d, lanes, of, check, graphs):
    launch = parse(ADDITIVE.format(h=h, d=d))
    assert is_flat(launch, lanes)
    check(launch, Schedule(lanes=lanes), only={**graphs, **DEGREES}, of=of)


@pytest.mark.parametrize(("h", "lanes"), [(3, 16), (16, 16), (4, 4)])
def test_three_passes_where_vectors_do_not_suit(h, lanes, check):
    launch = parse(ADDITIVE.format(h=h, d=8))
    assert not is_flat(launch, lanes)
    check(launch, Schedule(lanes=lanes), only=DEGREES, of=moderate)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_scores_that_are_no_numbers(value, check):
    """What becomes of them is what three passes make of them."""

    def one(rows):
        rows = moderate(rows)
        if rows.shape[1:] == (1,) and len(rows) > 1:
            rows[0] = value
        return rows

    check(parse(ADDITIVE.format(h=1, d=16)), only={"graph": with_degrees(3, 20, 0, 5)}, of=one)


def test_scores_that_are_no_numbers_hide_no_small_ones(check):
    """One node's scores are far below 0; in the same lanes behind are another's, no numbers."""

    def of(rows):
        if rows.shape == (1, 1):
            return torch.ones_like(rows)
        rows = moderate(rows)
        if rows.shape == (40, 1):
            rows[:2], rows[16:18] = -2000, torch.nan
        return rows

    edges = torch.arange(40)
    graph = HeteroGraph(
        edges, (edges > 1).long(), torch.zeros_like(edges), num_nodes=40, num_etypes=3
    )
    check(parse(ADDITIVE.format(h=1, d=16)), only={"graph": graph}, of=of)
