"""Generated modules are reviewed as a diff: `pytest --update-goldens` renews them."""

import pytest

from hetune.variants.backends.triton.emit import emit
from hetune.variants.backends.triton.schedule import TritonSchedule
from hetune.variants.kernel.parse import parse

from ..launches import ATTEND, ATTENTION, NARROW, RGCN, SCORES, SOFTMAX, TRANSFORM

TOGETHER = """
launch
  buffer x: node[{d}]
  buffer t: node[{d}]
  buffer c: edge[]
  buffer s: src_pair[]
  buffer y: node[{d}]
  traverse node
    init acc: [{d}] sum
    for edge
      share: [] = read c
      row: [{d}] = read x[src]
      m: [{d}] = mul(share, row)
      update acc m
    store y = acc
  traverse node
    for edge
      score: [] = read s
      store c = score
    row: [{d}] = read t
    store y += row
"""
"""Two Traversals that become one kernel: what one loads, and stores, the other overwrites."""

KERNELS = {
    "rgcn": (RGCN, TritonSchedule()),
    "rgcn-bf16": (RGCN, TritonSchedule(precision="bf16", warps=8, stages=3)),
    "transform-odd-width": (TRANSFORM.replace("{d}", "63"), TritonSchedule(precision="tf32")),
    "scores": (SCORES, TritonSchedule()),
    "softmax": (SOFTMAX, TritonSchedule()),
    "softmax-in-order": (SOFTMAX, TritonSchedule(degree_order=False, nodes=1, edges=1)),
    "attend": (ATTEND, TritonSchedule(hub_edges=0)),
    "attention": (ATTENTION, TritonSchedule()),
    "attention-several-passes": (ATTENTION, TritonSchedule(one_pass=False, hub_edges=0)),
    "together": (TOGETHER, TritonSchedule(hub_edges=0)),
    "narrow": (NARROW, TritonSchedule()),
}


@pytest.mark.parametrize("name", KERNELS)
def test_generated_code(name, golden):
    text, schedule = KERNELS[name]
    golden(f"{name}.triton", emit(parse(text.format(d=64, h=2, n=6)), schedule).source.text)


def test_the_same_source_every_time():
    launch = parse(ATTEND.format(d=7, h=2))
    emit.cache_clear()
    first = emit(launch, TritonSchedule())
    emit.cache_clear()
    assert emit(parse(ATTEND.format(d=7, h=2)), TritonSchedule()).source == first.source
