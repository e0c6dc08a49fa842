"""What becomes of a launch under a schedule, before a backend lowers it."""

from __future__ import annotations

import functools

from hetune.variants.kernel.fuse_rows import fuse_rows
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.one_pass import one_pass


@functools.lru_cache(maxsize=4096)
def as_run(launch: Launch, schedule: AnySchedule) -> Launch:
    """The launch that runs: a GPU's schedule may ask for `one_pass` and `fuse_rows`."""
    if not isinstance(schedule, GpuSchedule):
        return launch
    if schedule.one_pass:
        launch = one_pass(launch)
    return fuse_rows(launch) if schedule.fuse_rows else launch
