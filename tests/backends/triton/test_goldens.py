"""Generated modules are reviewed as a diff: `pytest --update-goldens` renews them."""

import pytest

from hetune.variants.backends.triton.emit import emit
from hetune.variants.backends.triton.schedule import TritonSchedule
from hetune.variants.kernel.text import parse

from ..launches import ATTEND, NARROW, RGCN, SCORES, SOFTMAX, TRANSFORM

KERNELS = {
    "rgcn": (RGCN, TritonSchedule()),
    "rgcn-bf16": (RGCN, TritonSchedule(precision="bf16", warps=8, stages=3)),
    "transform-odd-width": (TRANSFORM.replace("{d}", "63"), TritonSchedule(precision="tf32")),
    "scores": (SCORES, TritonSchedule()),
    "softmax": (SOFTMAX, TritonSchedule()),
    "softmax-in-order": (SOFTMAX, TritonSchedule(degree_order=False, nodes=1, edges=1)),
    "attend": (ATTEND, TritonSchedule(hub_edges=0)),
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
