"""Softmaxes with a running maximum: as exact as in several walks, whatever the scores."""

import pytest

from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.kernel.passes.phases import phased
from hetune.variants.testing.graphs import typed_graph

from ..launches import ATTENTION

SCHEDULES = {
    "default": GpuSchedule(),
    "one edge at once": GpuSchedule(edges=1, elements=128),
    "parts of 8": GpuSchedule(part_edges=8, elements=64),
    "parts of 2": GpuSchedule(part_edges=2, edges=2),
}
FACTORS = {"usual": 1.0, "steep": 30.0, "far": 1e4, "extreme": 1e37}
"""What scores are multiplied by. Their sum stays exact: they are read, not computed."""


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_it_is_exact(schedule, factor, check, small):
    scores = dict.fromkeys("ab", FACTORS[factor])
    check(parse(ATTENTION.format(d=5, h=2)), small, SCHEDULES[schedule], scores)


@pytest.mark.parametrize("sign", [-1e30, 1e30])
def test_all_scores_of_one_group_are_far_away(sign, check, small):
    check(parse(ATTENTION.format(d=3, h=1)), small, factors={"a": sign})


@pytest.mark.parametrize("d", [1, 16])
@pytest.mark.parametrize("h", [1, 3])
def test_widths_and_heads(d, h, check, small):
    check(parse(ATTENTION.format(d=d, h=h)), small)


def test_groups_without_edges(check, empty):
    check(parse(ATTENTION.format(d=5, h=2)), empty)
    for relations in ([(0, 0, 0), (1, 1, 9), (0, 1, 0)], [(0, 0, 9), (1, 1, 0), (0, 1, 5)]):
        check(parse(ATTENTION.format(d=5, h=2)), typed_graph((6, 5), relations))


def test_it_is_one_kernel_without_scratch():
    launch = fused(parse(ATTENTION.format(d=5, h=2)), "cuda")
    (kernel,) = phased(launch).kernels
    assert sum("ForEach" in type(s).__name__ for s in kernel.body) == 2
    assert not any(buffer.scratch for buffer in launch.buffers)
