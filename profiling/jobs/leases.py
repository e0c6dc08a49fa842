"""Leases on tasks of jobs, for workers. A lease that has ended writes nothing (ADR 21)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.jobs.claim_query import OPEN, claimable, device_of
from hetune.profiling.jobs.database import (
    Database,
    add_log_line,
    members_of,
    one_job,
    update_state,
)
from hetune.profiling.jobs.outage import Outage
from hetune.profiling.jobs.records import Lease, MeasureTask, State, Trains, TrainTask
from hetune.profiling.measure.limits import Limits
from hetune.profiling.records import Measurement
from hetune.profiling.store.job_tables import jobs, tasks
from hetune.profiling.store.rows import clean
from hetune.profiling.store.store import AddedCounts, Store
from hetune.variants.errors import InputError, LeaseError
from hetune.variants.kernel.device import Device

LEASE_SECONDS = 60.0
"""How long a worker may be silent."""
ATTEMPTS = 3
"""How often a task is leased before it is given up."""


class Leases:
    """Lends tasks of jobs, and takes back what they gave. Safe with many threads and processes.

    A worker claims, says every now and then that it lives, and completes or fails what it has.
    Who is silent for too long may lose its task to another; then it gets a `LeaseError` and has
    written nothing. Leases that ended while the database was away are prolonged once.

    Args:
        store: Where measurements and jobs are; stays the caller's.
        seconds: How long a lease lasts from the last heartbeat.
        attempts: How often a task is leased before it is given up.
        trains: Which trainings are leased, and whether anything else is.
        clock: Tells the time in UTC; by default the database's.

    Raises:
        InputError: The seconds or the attempts are too few.
    """

    def __init__(
        self,
        store: Store,
        *,
        seconds: float = LEASE_SECONDS,
        attempts: int = ATTEMPTS,
        trains: Trains = Trains.OWN,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if not 0 <= seconds < math.inf or attempts < 1:
            raise InputError(f"seconds={seconds:g} and attempts={attempts}: take 0 and 1, or more")
        self._database = Database(store, clock)
        self._length = timedelta(seconds=seconds)
        self._attempts = attempts
        self._trains = trains
        self._outage = Outage(self._length)

    def claim(
        self,
        owner: str,
        machine: str,
        *,
        devices: Sequence[Device] = ("cpu",),
    ) -> Lease | None:
        """Takes a task: of the oldest job that this machine may measure, the next one.

        Tasks whose worker was silent for too long are taken before new ones; those that were leased
        too often, or whose job was cancelled, are given up on the way. Training comes when all else
        of its job succeeded.

        Args:
            owner: Who takes it, for readers.
            machine: Digest of the fingerprint of its machine.
            devices: What its machine can measure on, of "cpu" and "cuda".

        Returns:
            None if there is nothing to do now.
        """
        owner = clean(owner)
        while True:
            with self._asking() as (connection, now):
                task = connection.execute(claimable(machine, devices, self._trains, now)).first()
                if task is None:
                    return None
                job = one_job(connection, task.job, locked=True)
                anywhere = task.is_training and self._trains in (Trains.ALL, Trains.ONLY)
                is_its = anywhere or job.machine in (None, machine)
                if job.state not in OPEN or not (is_its or job.cancel_requested):
                    continue  # somebody was faster
                if task.state == State.RUNNING and not self._taken_back(connection, task, job, now):
                    continue
                if job.cancel_requested:
                    continue
                return self._leased(connection, task, job, now, owner, machine)

    def heartbeat(self, lease: Lease) -> bool:
        """Prolongs a lease.

        Returns:
            Whether the work is still wanted; if not, the worker should `release` it.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, task, now):
            change = tasks.update().where(tasks.c.id == task.id)
            connection.execute(change.values(heartbeat=now, lease_expires=now + self._length))
            wanted = select(jobs.c.cancel_requested).where(jobs.c.id == task.job)
            return not connection.execute(wanted).scalar_one()

    def complete(
        self, lease: Lease, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> AddedCounts:
        """Stores what was measured, and that the task is done: both or neither.

        What was known of some variants before need not be given. Completing again what was
        completed under the same lease changes nothing, so that a worker that heard no answer may
        ask again.

        Args:
            lease: To measure.
            measurements: As `Store.add` takes them.
            fingerprint: That of the machine.

        Raises:
            LeaseError: The lease has ended.
            InputError: Measurements are of something else, or some are missing.
            StoreError: A measurement contradicts itself, or the database fails.
        """
        batch, store = list(measurements), self._database.store
        with self._held(lease, measuring=True, or_completed=True) as (connection, task, now):
            if task.is_training or fingerprint.digest != task.machine:
                raise InputError("the lease is not one to measure something on this machine")
            wanted = [member.key for member in members_of(task)]
            if not {found.unit for found in batch} <= set(wanted):
                raise InputError("measurements of other units than those that were leased")
            if task.state == State.SUCCEEDED:
                return AddedCounts(0, len(batch))
            added = store.add_within(connection, batch, fingerprint)
            if missing := set(wanted) - store.done_within(connection, task.machine, wanted):
                raise InputError(
                    f"{len(missing)} of {len(wanted)} variants were not measured: measure them all"
                )
            endings = Counter(found.status.value for found in batch)
            said = ", ".join(f"{count} {status}" for status, count in sorted(endings.items()))
            known = len(wanted) - len(batch)
            said += f"{', ' if said else ''}{known} known before" if known else ""
            ended = {"state": State.SUCCEEDED.value, "endings": dict(endings), "error": ""}
            self._end(connection, task, now, ended, f"task {task.id} measured: {said}")
            return added

    def complete_training(self, lease: Lease, model: str) -> None:
        """Says that a cost model was trained. Saying it again changes nothing.

        Args:
            lease: To train.
            model: The model's id in the model registry.

        Raises:
            LeaseError: The lease has ended.
            InputError: It is no lease to train.
        """
        with self._held(lease, or_completed=True) as (connection, task, now):
            if not task.is_training:
                raise InputError("the lease is not one to train a cost model")
            if task.state != State.SUCCEEDED:
                one_job(connection, task.job, locked=True)
                change = jobs.update().where(jobs.c.id == task.job)
                connection.execute(change.values(model=model))
                ended = {"state": State.SUCCEEDED.value, "error": ""}
                self._end(connection, task, now, ended, f"trained: {model}")

    def fail(self, lease: Lease, error: str, *, final: bool = False) -> None:
        """Gives a task back that could not be done; it is leased again unless it was too often.

        Args:
            lease: What could not be done.
            error: What went wrong, for a reader.
            final: It would go wrong again: the task is given up at once.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, task, now):
            given_up = final or task.attempt >= self._attempts
            error = clean(error)
            state = State.FAILED if given_up else State.QUEUED
            text = f"task {task.id} {'given up' if given_up else 'failed'}: {error}"
            self._end(connection, task, now, {"state": state.value, "error": error}, text)

    def release(self, lease: Lease, why: str = "") -> None:
        """Gives a task back that was not done; this does not count as an attempt.

        Args:
            lease: What was not done.
            why: For the job's log.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, task, now):
            given = {"state": State.QUEUED.value, "attempt": task.attempt - 1}
            text = f"task {task.id} given back{why and ': '}{clean(why)}"
            self._end(connection, task, now, given, text)

    @contextmanager
    def _asking(self, *, exclusive: bool = False) -> Iterator[tuple[Connection, datetime]]:
        """A transaction, and its time; outages are noticed."""
        with self._outage.watched():
            self._outage.end(self._database)
            with self._database.transaction(exclusive=exclusive) as connection:
                now = self._database.now(connection)
                self._outage.heard(now)
                yield connection, now

    @contextmanager
    def _held(
        self, lease: Lease, *, measuring: bool = False, or_completed: bool = False
    ) -> Iterator[tuple[Connection, Row[Any], datetime]]:
        """A transaction with the task of a lease that has not ended, locked.

        Args:
            lease: The lease.
            measuring: Measurements are added, too.
            or_completed: A lease that ended with its task's success will do, too.
        """
        with self._asking(exclusive=measuring) as (connection, now):
            wanted = select(tasks).where(tasks.c.id == lease.task, tasks.c.token == lease.token)
            task = connection.execute(wanted.with_for_update()).first()
            if task is None:
                raise _ended(lease)
            # Whose time is over has its task still, as long as nobody else has taken it.
            if task.state != State.RUNNING and not (or_completed and task.state == State.SUCCEEDED):
                raise _ended(lease)
            yield connection, task, now

    def _leased(
        self,
        connection: Connection,
        task: Row[Any],
        job: Row[Any],
        now: datetime,
        owner: str,
        machine: str,
    ) -> Lease:
        """Lends a task, which is locked, as its job is."""
        values = {
            "state": State.RUNNING.value,
            "attempt": task.attempt + 1,
            "token": task.token + 1,
            "owner": owner,
            "machine": machine,
            "heartbeat": now,
            "lease_expires": now + self._length,
        }
        leased = tasks.update().where(tasks.c.id == task.id).values(**values).returning(tasks)
        row = connection.execute(leased).one()
        measured_on = (job.machine or machine) if task.is_training else machine
        begun = {"state": State.RUNNING.value, "machine": measured_on}
        started = jobs.update().where(jobs.c.id == job.id)
        connection.execute(started.values(started=job.started or now, **begun))
        add_log_line(
            connection, job.id, now, f"task {row.id} leased to {owner}, attempt {row.attempt}"
        )
        return self._lease(connection, row, one_job(connection, job.id))

    def _lease(self, connection: Connection, task: Row[Any], job: Row[Any]) -> Lease:
        """The last lease of a task that was leased."""
        if task.is_training:
            work: MeasureTask | TrainTask = TrainTask(device_of(connection, job.id))
        else:
            members = members_of(task)
            keys = [member.key for member in members]
            known = self._database.store.done_within(connection, task.machine, keys)
            work = MeasureTask(members, Limits(**job.limits), frozenset(known))
        return Lease(
            task=task.id,
            job=job.id,
            campaign=job.campaign,
            token=task.token,
            owner=task.owner,
            machine=job.machine if task.is_training else task.machine,
            attempt=task.attempt,
            expires=task.lease_expires,
            work=work,
        )

    def _taken_back(
        self, connection: Connection, task: Row[Any], job: Row[Any], now: datetime
    ) -> bool:
        """Ends the lease of a silent worker; whether the task may be leased again."""
        text = f"task {task.id}: {task.owner} was silent for too long"
        add_log_line(connection, job.id, now, text)
        if not job.cancel_requested and task.attempt < self._attempts:
            return True
        given_up = State.CANCELLED if job.cancel_requested else State.FAILED
        error = (
            f"its workers were silent for too long, {task.attempt} times; the last was {task.owner}"
        )
        change = tasks.update().where(tasks.c.id == task.id)
        connection.execute(change.values(state=given_up.value, error=error))
        update_state(connection, job, now)
        return False

    def _end(
        self,
        connection: Connection,
        task: Row[Any],
        now: datetime,
        values: dict[str, Any],
        text: str,
    ) -> None:
        """Ends a lease that holds."""
        change = tasks.update().where(tasks.c.id == task.id)
        connection.execute(change.values(**values))
        job = one_job(connection, task.job, locked=True)
        add_log_line(connection, job.id, now, text)
        update_state(connection, job, now)


def _ended(lease: Lease) -> LeaseError:
    """The error of who comes with a lease that has ended."""
    return LeaseError(
        f"the lease of {lease.owner} on task {lease.task} of job {lease.job} has ended, and "
        "nothing was written: claim another task"
    )
