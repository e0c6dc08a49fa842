"""What runs of a launch: elementwise walks are part of the product that they go with."""

import pytest

from hetune.variants.kernel.as_run import as_run
from hetune.variants.kernel.fuse_rows import fuse_rows
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Schedule

from .rows import PRODUCT, RELU, launch_of


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(lanes=8), GpuSchedule()])
def test_rows_are_joined(schedule):
    launch = launch_of(PRODUCT + RELU)
    assert as_run(launch, schedule) == fuse_rows(launch) != launch


def test_unless_a_gpu_s_schedule_says_no():
    launch = launch_of(PRODUCT + RELU)
    assert as_run(launch, GpuSchedule(fuse_rows=False)) == launch
