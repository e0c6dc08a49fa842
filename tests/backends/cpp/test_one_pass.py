"""Scores, their softmax and the sums that it weights in one pass, tile by tile."""

import pytest
import torch

from hetune.variants.backends.cpp.one_pass import softmax_in_one_pass
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule, Traversal
from hetune.variants.kernel.parse import parse

ATTENTION = """
launch
  buffer q: dst_pair@b[{h},{d}]
  buffer bias: dst_pair@b[{h}]
  buffer k: src_pair@a[{h},{d}]
  buffer x: node[{h},{d}]
  buffer v: src_pair@a[{h},{d}]
  buffer c: node[{h},{d}]
  buffer room: edge[{h}] in scratch room
  buffer z: dst_pair@b[{h},{d}] in scratch z
  buffer total: dst_pair@b[{h}]
  buffer y: node[{h},{d}]
  buffer out: dst_pair@b[{h},{d}]
  traverse node
    init acc: [{h},{d}] sum
    softmax share: [{h}] over edge to room
      scores edge@b
        query: [{h},{d}] = read q
        key: [{h},{d}] = read x[src]
        product: [{h}] = dot(query, key)
        shift: [{h}] = read bias
        s: [{h}] = add(product, shift)
        score s
      scores edge@a
        near: [{h},{d}] = read k
        own: [{h},{d}] = read x[dst]
        t: [{h}] = dot(near, own)
        score t
      for dst_pair@b
        init sum: [{h},{d}] sum
        init shares: [{h}] sum
        for edge@b
          row: [{h},{d}] = read x[src]
          m: [{h},{d}] = mul(share, row)
          update sum m
          update shares share
        store z = sum
        store total = shares
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
"""Sums of one group of edges at nodes, and of the other at pairs."""

ONE_HEAD = """
launch
  buffer a: etype[{d}]
  buffer x: node[{d}]
  buffer b: edge[]
  buffer room: edge[] in scratch room
  buffer z: dst_pair[{d}] in scratch z
  buffer out: dst_pair[{d}]
  traverse node
    softmax share: [] over edge to room
      scores edge
        to: [{d}] = read x[dst]
        row: [{d}] = read x[src]
        sum: [{d}] = add(to, row)
        active: [{d}] = leaky_relu(sum, const=0.2)
        of_type: [{d}] = read a
        product: [] = dot(active, of_type)
        shift: [] = read b
        s: [] = mul(product, shift)
        score s
      for dst_pair
        init sum_z: [{d}] sum
        for edge
          row: [{d}] = read x[src]
          m: [{d}] = mul(share, row)
          update sum_z m
        store z = sum_z
  traverse dst_pair
    row: [{d}] = read z
    store out = row
"""
"""Sums at pairs alone; rows go through functions before they are multiplied."""


def with_degrees(*degrees: int) -> HeteroGraph:
    """Nodes with so many incoming edges each, of three types."""
    dst = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees))
    draw = torch.Generator().manual_seed(0)
    src, etype = (torch.randint(n, dst.shape, generator=draw) for n in (len(degrees), 3))
    ntype = torch.zeros(len(degrees), dtype=torch.int64)
    return HeteroGraph(src, dst, etype, ntype, num_etypes=3, num_ntypes=3)


DEGREES = {
    "few edges": with_degrees(0, 0, 1, 1, 0, 2, 3, 0),
    "about a tile": with_degrees(15, 16, 17, 0, 31, 32, 33, 1, 0),
    "hub": with_degrees(1, 3000, 0, 2, 1536, 7),
}


def in_one_pass(launch, lanes):
    (kernel,) = (k for k in launch.kernels if isinstance(k, Traversal) and k.rows.space == "node")
    return softmax_in_one_pass(kernel, lanes) is not None


def moderate(rows):
    return rows * 0.3


def immoderate(rows):
    return rows * 2


@pytest.mark.parametrize("of", [moderate, immoderate])
@pytest.mark.parametrize(("h", "d"), [(1, 64), (2, 16), (4, 32), (8, 16)])
def test_heads(h, d, of, check, graphs):
    launch = parse(ATTENTION.format(h=h, d=d))
    assert in_one_pass(launch, 16)
    check(launch, only={**graphs, **DEGREES}, of=of)


@pytest.mark.parametrize(("lanes", "d", "h"), [(8, 8, 2), (8, 64, 1), (4, 16, 2), (4, 4, 1)])
def test_narrower_vectors(lanes, d, h, check, graphs):
    launch = parse(ATTENTION.format(h=h, d=d))
    assert in_one_pass(launch, lanes)
    check(launch, Schedule(lanes=lanes), only={**graphs, **DEGREES}, of=moderate)


@pytest.mark.parametrize("of", [moderate, immoderate])
def test_pairs_alone(of, check, graphs):
    launch = parse(ONE_HEAD.format(d=48))
    assert in_one_pass(launch, 16)
    check(launch, only={**graphs, **DEGREES}, of=of)


@pytest.mark.parametrize(("h", "d"), [(1, 7), (1, 63), (3, 16), (16, 16), (4, 128)])
def test_three_passes_where_tiles_do_not_suit(h, d, check, graphs):
    launch = parse(ATTENTION.format(h=h, d=d))
    assert not in_one_pass(launch, 16)
    check(launch, only={**graphs, **DEGREES}, of=moderate)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers(value, check):
    """What becomes of them is what three passes make of them."""
    graph = with_degrees(3, 20, 0, 5)

    def one(rows):
        rows = moderate(rows)
        if rows.shape[1:] == (1,) and len(rows):
            rows[0] = value
        return rows

    launch = parse(ATTENTION.format(h=1, d=16))
    check(launch, only={"graph": graph}, of=one)
