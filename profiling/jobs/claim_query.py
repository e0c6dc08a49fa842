"""Which task a worker is leased next, as a question to the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, exists, func, or_, select

from hetune.profiling.jobs.database import members_of
from hetune.profiling.jobs.records import State, Trains
from hetune.profiling.store.job_tables import jobs, tasks
from hetune.variants.kernel.device import Device

OPEN = (State.QUEUED.value, State.RUNNING.value)
"""States of jobs that have work left."""


def claimable(
    machine: str, devices: Sequence[Device], trains: Trains, now: datetime
) -> Select[Any]:
    """The task to take next, locked; those that others hold locks on are passed over.

    Also one of a cancelled job that was leased to whoever is silent by now, anywhere: to be ended.
    """
    others = tasks.alias()
    undone = exists().where(
        others.c.job == tasks.c.job,
        others.c.is_training.is_(False),
        others.c.state != State.SUCCEEDED.value,
    )
    is_free = and_(
        tasks.c.state == State.QUEUED.value,
        jobs.c.cancel_requested.is_(False),
        or_(tasks.c.is_training.is_(False), ~undone),
    )
    is_lost = and_(tasks.c.state == State.RUNNING.value, tasks.c.lease_expires <= now)
    device = func.coalesce(tasks.c.problem["device"].as_string(), "cpu")
    is_its = and_(
        or_(jobs.c.machine.is_(None), jobs.c.machine == machine),
        or_(tasks.c.is_training.is_(True), device.in_(devices)),
    )
    match trains:
        case Trains.NOTHING:
            is_its = and_(is_its, tasks.c.is_training.is_(False))
        case Trains.ALL:
            is_its = or_(is_its, tasks.c.is_training.is_(True))
        case Trains.ONLY:
            is_its = tasks.c.is_training.is_(True)
    return (
        select(tasks)
        .join(jobs, jobs.c.id == tasks.c.job)
        .where(
            jobs.c.state.in_(OPEN),
            or_(
                and_(is_its, or_(is_free, is_lost)),
                and_(is_lost, jobs.c.cancel_requested),
            ),
        )
        .order_by(jobs.c.id, tasks.c.id)
        .limit(1)
        .with_for_update(of=tasks, skip_locked=True)
    )


def device_of(connection: Connection, job: int) -> Device:
    """The device that all tasks of a job with a training are for."""
    measured = select(tasks).where(tasks.c.job == job, tasks.c.is_training.is_(False)).limit(1)
    return members_of(connection.execute(measured).one())[0].problem.device
