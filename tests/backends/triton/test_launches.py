"""The launches that layers are made of, at awkward widths, with heads, and random ones."""

import pytest

from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.testing import random_launch

from ..launches import ATTEND, NARROW, RGCN, SCORES, SOFTMAX, TRANSFORM

SMALL = GpuSchedule(tile_rows=16, tile_columns=16, tile_k=16, nodes=8, edges=2)


@pytest.mark.parametrize("d", [1, 7, 16, 63])
@pytest.mark.parametrize("text", [RGCN, TRANSFORM], ids=["rgcn", "transform"])
def test_without_heads(text, d, check, small):
    check(parse(text.format(d=d)), small)


@pytest.mark.parametrize("h", [1, 2])
@pytest.mark.parametrize("d", [1, 7, 16])
@pytest.mark.parametrize(
    "text", [SCORES, SOFTMAX, ATTEND, NARROW], ids=["scores", "softmax", "attend", "narrow"]
)
def test_with_heads(text, d, h, check, small):
    check(parse(text.format(d=d, h=h, n=3 * h)), small)


@pytest.mark.parametrize(
    "schedule",
    [
        SMALL,
        GpuSchedule(nodes=1, edges=8),
        GpuSchedule(nodes=16, edges=1, degree_order=False),
        GpuSchedule(hub_edges=8, hub_elements=512),
    ],
    ids=["small", "wide", "in order", "hubs"],
)
@pytest.mark.parametrize("text", [RGCN, SOFTMAX, ATTEND], ids=["rgcn", "softmax", "attend"])
def test_schedules_do_not_change_results(text, schedule, check, small):
    check(parse(text.format(d=18, h=2)), small, schedule)


@pytest.mark.parametrize("text", [RGCN, SOFTMAX, ATTEND], ids=["rgcn", "softmax", "attend"])
def test_without_edges(text, check, empty):
    check(parse(text.format(d=5, h=2)), empty)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_launch_equals_the_interpreter(seed, check, small):
    check(random_launch(seed, (1, 3, 7, 16)), small, SMALL if seed % 2 else None)
