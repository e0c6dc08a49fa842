"""What came of a job: the measurements of its problems, in short."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from hetune.profiling.jobs.database import members_of, one_job
from hetune.profiling.jobs.records import State
from hetune.profiling.records import Measurement, Status
from hetune.profiling.store.job_tables import tasks
from hetune.profiling.store.reading import PAGE, records
from hetune.profiling.store.schema import measurements
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec

MOST_RESULTS = 100


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """A variant on a problem.

    Attributes:
        variant: Its id.
        status: How its measurement ended.
        seconds: Median of the rounds; None if there are no times.
        rounds: How many rounds count.
        peak_bytes: Of a run's temporaries, scratch and result.
        drift: How far the machine's speed moved over the rounds, as a share.
        error: What went wrong; empty if all went well.
    """

    variant: str
    status: Status
    seconds: float | None
    rounds: int
    peak_bytes: int
    drift: float | None
    error: str


@dataclass(frozen=True, slots=True)
class Result:
    """A problem of a job.

    Attributes:
        task: Number of the job's task.
        problem: What was measured.
        state: Where the task is.
        variants: Those that are measured, the fastest first, those without times last.
    """

    task: int
    problem: ProblemSpec
    state: State
    variants: tuple[MeasuredVariant, ...]


def results(store: Store, job: int, *, after: int = 0, limit: int = 20) -> tuple[Result, ...]:
    """What is known of a job's problems, in the order in which they are measured.

    Measurements that the job's machine had before the job count, too.

    Args:
        store: With jobs.
        job: Its number.
        after: Only tasks with larger numbers: the last one of the page before.
        limit: Most that are given, `MOST_RESULTS` at most.

    Raises:
        NotFoundError: There is no such job.
    """
    wanted = (
        select(tasks)
        .where(tasks.c.job == job, tasks.c.is_training.is_(False), tasks.c.id > after)
        .order_by(tasks.c.id)
        .limit(min(limit, MOST_RESULTS))
    )
    with store.reading() as connection:
        owner = one_job(connection, job)
        rows = connection.execute(wanted).all()
        keys = {row.id: [member.key for member in members_of(row)] for row in rows}
        wanted_keys = [key for members in keys.values() for key in members]
        known = _known(connection, owner.machine, wanted_keys)
    is_final = State(owner.state).is_final
    return tuple(
        Result(
            task=row.id,
            problem=ProblemSpec.from_dict(row.problem),
            state=_state(row, is_final),
            variants=tuple(
                sorted((known[key] for key in keys[row.id] if key in known), key=_order)
            ),
        )
        for row in rows
    )


def _known(
    connection: Connection, machine: str | None, keys: Sequence[str]
) -> dict[str, MeasuredVariant]:
    """Measurements of a machine by their units' keys; none where no machine has begun."""
    column, found = measurements.c, dict[str, MeasuredVariant]()
    for start in range(0, len(keys) if machine is not None else 0, PAGE):
        limits = [column.machine == machine, column.unit.in_(keys[start : start + PAGE])]
        for record in records(lambda: nullcontext(connection), limits):
            if (known := record.measurement) is not None:
                found[known.unit] = _measured(known)
    return found


def _measured(known: Measurement) -> MeasuredVariant:
    return MeasuredVariant(
        variant=known.variant,
        status=known.status,
        seconds=statistics.median(known.samples) if known.samples else None,
        rounds=len(known.samples),
        peak_bytes=known.peak_bytes,
        drift=None if math.isnan(known.drift) else known.drift,
        error=known.error,
    )


def _state(row: Row[Any], is_final: bool) -> State:
    state = State(row.state)
    return State.CANCELLED if is_final and not state.is_final else state


def _order(measured: MeasuredVariant) -> tuple[bool, float, str]:
    return measured.seconds is None, measured.seconds or 0.0, measured.variant
