"""Generated modules are reviewed as a diff: `pytest --update-goldens` renews them."""

import pytest

from hetune.variants.backends.triton.emit import emit
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused

from ..launches import (
    ACTIVATED,
    ATTEND,
    ATTENTION,
    NARROW,
    RGCN,
    SCORES,
    SOFTMAX,
    TRANSFORM,
    WEIGHTED,
)

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
    "rgcn": (RGCN, GpuSchedule()),
    "rgcn-bf16": (RGCN, GpuSchedule(warps=8, stages=3), "bf16"),
    "transform-odd-width": (TRANSFORM.replace("{d}", "63"), GpuSchedule(), "tf32"),
    "scores": (SCORES, GpuSchedule()),
    "softmax": (SOFTMAX, GpuSchedule()),
    "attend": (ATTEND, GpuSchedule()),
    "attention": (ATTENTION, GpuSchedule()),
    "weighted": (WEIGHTED, GpuSchedule(edges=2)),
    "together": (TOGETHER, GpuSchedule()),
    "narrow": (NARROW, GpuSchedule()),
    "activated": (ACTIVATED.replace("{n}", "128"), GpuSchedule()),
}


@pytest.mark.parametrize("name", KERNELS)
def test_generated_code(name, golden):
    text, *how = KERNELS[name]
    launch = fused(parse(text.format(d=64, h=2, n=6, only=" only=dst fill")), "cuda")
    golden(f"{name}.triton", emit(launch, *how).source.text)


def test_the_same_source_every_time():
    launch = parse(ATTEND.format(d=7, h=2))
    emit.cache_clear()
    first = emit(launch, GpuSchedule())
    emit.cache_clear()
    assert emit(parse(ATTEND.format(d=7, h=2)), GpuSchedule()).source == first.source
