"""What becomes of a launch under a schedule, before a backend lowers it."""

from __future__ import annotations

import functools

from hetune.variants.kernel.fuse_rows import fuse_rows
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.one_pass import one_pass


@functools.lru_cache(maxsize=4096)
def as_run(launch: Launch, schedule: AnySchedule) -> Launch:
    """The launch that runs: by `fuse_rows`, and on a GPU by what its schedule asks for."""
    if isinstance(schedule, GpuSchedule):
        launch = one_pass(launch) if schedule.one_pass else launch
        return fuse_rows(launch) if schedule.fuse_rows else launch
    return _fused(launch)


@functools.lru_cache(maxsize=1024)
def _fused(launch: Launch) -> Launch:
    """For CPUs, all of whose schedules have the same run."""
    return fuse_rows(launch)
