"""Leases on units of jobs, for workers. A lease that has ended writes nothing (ADR 15)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, or_, select

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.jobs.database import Database, one_job, settle, tell
from hetune.profiling.jobs.records import Lease, Measure, State, Train
from hetune.profiling.jobs.schema import jobs, units
from hetune.profiling.measure.limits import Limits
from hetune.profiling.records import Measurement
from hetune.profiling.store.rows import clean
from hetune.profiling.store.store import Added, Store
from hetune.profiling.units import Unit
from hetune.profiling.wire import problem_from_json
from hetune.variants.errors import InputError, LeaseError

LEASE_SECONDS = 60.0
"""How long a worker may be silent."""
ATTEMPTS = 3
"""How often a unit is lent before it is given up."""
_OPEN = (State.QUEUED.value, State.RUNNING.value)


class Leases:
    """Lends units of jobs, and takes back what they gave. Safe with many threads and processes.

    A worker claims, says every now and then that it lives, and completes or fails what it has.
    Whose lease has ended, by time or because another has the unit now, gets a `LeaseError` and
    has written nothing.

    Args:
        store: Where measurements and jobs are; stays the caller's.
        seconds: How long a lease lasts from the last heartbeat.
        attempts: How often a unit is lent before it is given up.
        clock: Tells the time in UTC; by default the database's.

    Raises:
        InputError: The seconds or the attempts are too few.
        StoreError: The tables of jobs are those of another version, or the database fails.
    """

    def __init__(
        self,
        store: Store,
        *,
        seconds: float = LEASE_SECONDS,
        attempts: int = ATTEMPTS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if not 0 <= seconds < math.inf or attempts < 1:
            raise InputError(f"seconds={seconds:g} and attempts={attempts}: take 0 and 1, or more")
        self._database = Database(store, clock)
        self._length = timedelta(seconds=seconds)
        self._attempts = attempts

    def claim(self, owner: str, machine: str) -> Lease | None:
        """Takes a unit: of the oldest job that this machine may measure, the next one.

        Units whose worker was silent for too long are taken before new ones; those that were lent
        too often are given up on the way. Training comes when all else of its job succeeded.

        Args:
            owner: Who takes it, for readers.
            machine: Digest of the fingerprint of its machine.

        Returns:
            None if there is nothing to do now.
        """
        owner = clean(owner)
        while True:
            with self._database.transaction() as connection:
                now = self._database.now(connection)
                unit = connection.execute(_claimable(machine, now)).first()
                if unit is None:
                    return None
                job = one_job(connection, unit.job, locked=True)
                if job.state not in _OPEN or job.machine not in (None, machine):
                    continue  # somebody was faster
                if unit.state == State.RUNNING and not self._taken_back(connection, unit, job, now):
                    continue
                if job.cancel_requested:
                    continue
                return self._lent(connection, unit, job, now, owner, machine)

    def heartbeat(self, lease: Lease) -> bool:
        """Prolongs a lease.

        Returns:
            Whether the work is still wanted; if not, the worker should `release` it.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, _, now):
            change = units.update().where(units.c.id == lease.unit)
            connection.execute(change.values(heartbeat=now, lease_expires=now + self._length))
            wanted = select(jobs.c.cancel_requested).where(jobs.c.id == lease.job)
            return not connection.execute(wanted).scalar_one()

    def complete(
        self, lease: Lease, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> Added:
        """Stores what was measured, and that the unit is done: both or neither.

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
        if not isinstance(lease.work, Measure) or fingerprint.digest != lease.machine:
            raise InputError("the lease is not one to measure something on this machine")
        batch, store = list(measurements), self._database.store
        wanted = [unit.key for unit in lease.work.units]
        if not {found.unit for found in batch} <= set(wanted):
            raise InputError("measurements of other units than those that were lent: send these")
        with self._held(lease, measuring=True, or_completed=True) as (connection, unit, now):
            if unit.state == State.SUCCEEDED:
                return Added(0, len(batch))
            added = store.add_within(connection, batch, fingerprint)
            if missing := set(wanted) - store.done_within(connection, lease.machine, wanted):
                raise InputError(
                    f"{len(missing)} of {len(wanted)} variants were not measured: measure them all"
                )
            endings = Counter(found.status.value for found in batch)
            said = ", ".join(f"{count} {status}" for status, count in sorted(endings.items()))
            known = len(wanted) - len(batch)
            said += f"{', ' if said else ''}{known} known before" if known else ""
            ended = {"state": State.SUCCEEDED.value, "endings": dict(endings), "error": ""}
            self._end(connection, lease, now, ended, f"unit {lease.unit} measured: {said}")
            return added

    def complete_training(self, lease: Lease, model: str) -> None:
        """Says that a cost model was trained. Saying it again changes nothing.

        Args:
            lease: To train.
            model: The model's id on the shelf.

        Raises:
            LeaseError: The lease has ended.
            InputError: It is no lease to train.
        """
        if not isinstance(lease.work, Train):
            raise InputError("the lease is not one to train a cost model")
        with self._held(lease, or_completed=True) as (connection, unit, now):
            if unit.state != State.SUCCEEDED:
                one_job(connection, lease.job, locked=True)
                change = jobs.update().where(jobs.c.id == lease.job)
                connection.execute(change.values(model=model))
                ended = {"state": State.SUCCEEDED.value, "error": ""}
                self._end(connection, lease, now, ended, f"trained: {model}")

    def fail(self, lease: Lease, error: str, *, final: bool = False) -> None:
        """Gives a unit back that could not be done; it is lent again unless it was too often.

        Args:
            lease: What could not be done.
            error: What went wrong, for a reader.
            final: It would go wrong again: the unit is given up at once.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, unit, now):
            given_up = final or unit.attempt >= self._attempts
            error = clean(error)
            state = State.FAILED if given_up else State.QUEUED
            text = f"unit {lease.unit} {'given up' if given_up else 'failed'}: {error}"
            self._end(connection, lease, now, {"state": state.value, "error": error}, text)

    def release(self, lease: Lease, why: str = "") -> None:
        """Gives a unit back that was not done; this does not count as an attempt.

        Args:
            lease: What was not done.
            why: For the job's log.

        Raises:
            LeaseError: The lease has ended.
        """
        with self._held(lease) as (connection, unit, now):
            given = {"state": State.QUEUED.value, "attempt": unit.attempt - 1}
            text = f"unit {lease.unit} given back{why and ': '}{clean(why)}"
            self._end(connection, lease, now, given, text)

    @contextmanager
    def _held(
        self, lease: Lease, *, measuring: bool = False, or_completed: bool = False
    ) -> Iterator[tuple[Connection, Row[Any], datetime]]:
        """A transaction with the unit of a lease that holds, locked.

        Args:
            lease: The lease.
            measuring: As in `Database.transaction`.
            or_completed: A lease that ended with its unit's success will do, too.
        """
        with self._database.transaction(measuring=measuring) as connection:
            wanted = select(units).where(units.c.id == lease.unit, units.c.token == lease.token)
            unit = connection.execute(wanted.with_for_update()).first()
            now = self._database.now(connection)
            if unit is None:
                raise _ended(lease)
            holds = unit.state == State.RUNNING and now < unit.lease_expires
            if not holds and not (or_completed and unit.state == State.SUCCEEDED):
                raise _ended(lease)
            yield connection, unit, now

    def _lent(
        self,
        connection: Connection,
        unit: Row[Any],
        job: Row[Any],
        now: datetime,
        owner: str,
        machine: str,
    ) -> Lease:
        """Lends a unit, which is locked, as its job is."""
        attempt, token, expires = unit.attempt + 1, unit.token + 1, now + self._length
        change = units.update().where(units.c.id == unit.id)
        connection.execute(
            change.values(
                state=State.RUNNING.value,
                attempt=attempt,
                token=token,
                owner=owner,
                machine=machine,
                heartbeat=now,
                lease_expires=expires,
            )
        )
        started = jobs.update().where(jobs.c.id == job.id)
        connection.execute(
            started.values(state=State.RUNNING.value, machine=machine, started=job.started or now)
        )
        text = f"unit {unit.id} lent to {owner}, attempt {attempt}"
        tell(connection, job.id, now, text)
        work = Train() if unit.is_training else _measure(unit, job)
        return Lease(unit.id, job.id, job.campaign, token, owner, machine, attempt, expires, work)

    def _taken_back(
        self, connection: Connection, unit: Row[Any], job: Row[Any], now: datetime
    ) -> bool:
        """Ends the lease of a silent worker; whether the unit may be lent again."""
        text = f"unit {unit.id}: {unit.owner} was silent for too long"
        tell(connection, job.id, now, text)
        if not job.cancel_requested and unit.attempt < self._attempts:
            return True
        given_up = State.CANCELLED if job.cancel_requested else State.FAILED
        error = (
            f"its workers were silent for too long, {unit.attempt} times; the last was {unit.owner}"
        )
        change = units.update().where(units.c.id == unit.id)
        connection.execute(change.values(state=given_up.value, error=error))
        settle(connection, job, now)
        return False

    def _end(
        self, connection: Connection, lease: Lease, now: datetime, values: dict[str, Any], text: str
    ) -> None:
        """Ends a lease that holds."""
        change = units.update().where(units.c.id == lease.unit)
        connection.execute(change.values(**values))
        job = one_job(connection, lease.job, locked=True)
        tell(connection, lease.job, now, text)
        settle(connection, job, now)


def _claimable(machine: str, now: datetime) -> Select[Any]:
    """The unit to take next, locked; those that others hold locks on are passed over."""
    others = units.alias()
    undone = exists().where(
        others.c.job == units.c.job,
        others.c.is_training.is_(False),
        others.c.state != State.SUCCEEDED.value,
    )
    is_free = and_(
        units.c.state == State.QUEUED.value,
        jobs.c.cancel_requested.is_(False),
        or_(units.c.is_training.is_(False), ~undone),
    )
    is_lost = and_(units.c.state == State.RUNNING.value, units.c.lease_expires <= now)
    return (
        select(units)
        .join(jobs, jobs.c.id == units.c.job)
        .where(
            jobs.c.state.in_(_OPEN),
            or_(jobs.c.machine.is_(None), jobs.c.machine == machine),
            or_(is_free, is_lost),
        )
        .order_by(jobs.c.id, units.c.id)
        .limit(1)
        .with_for_update(of=units, skip_locked=True)
    )


def _measure(unit: Row[Any], job: Row[Any]) -> Measure:
    problem = problem_from_json(unit.problem)
    members = tuple(Unit(problem, variant, plan) for variant, plan in unit.variants)
    return Measure(members, Limits(**job.limits))


def _ended(lease: Lease) -> LeaseError:
    return LeaseError(
        f"the lease of {lease.owner} on unit {lease.unit} of job {lease.job} has ended, and "
        "nothing was written: claim another unit"
    )
