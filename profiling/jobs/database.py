"""A store's database as jobs see it: transactions, the clock of leases, and what moves a job on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select

from hetune.profiling.jobs.records import State
from hetune.profiling.store.job_tables import jobs, log, tasks
from hetune.profiling.store.schema import lock
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import NotFoundError

LARGEST_ID = 2**63 - 1


class Database:
    """The tables of jobs in a store.

    Whoever changes a task and its job locks the task first, then the job, and never two tasks:
    so nobody waits in a circle.

    Args:
        store: Where measurements are; stays the caller's.
        clock: Tells the time in UTC; by default PostgreSQL's, which all workers share, and this
            machine's for SQLite.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime] | None = None) -> None:
        self.store = store
        self._clock = clock

    @contextmanager
    def transaction(self, *, exclusive: bool = False) -> Iterator[Connection]:
        """All of it or nothing; SQLite lets in one at a time.

        Args:
            exclusive: Measurements or tasks are added: PostgreSQL,
                too, lets in one of those at a time.
        """
        with self.store.transaction() as connection:
            if exclusive or connection.dialect.name == "sqlite":
                lock(connection)
            yield connection

    def now(self, connection: Connection) -> datetime:
        """The time by which leases end."""
        if self._clock is not None:
            return self._clock()
        if connection.dialect.name == "sqlite":
            return datetime.now(UTC)
        found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return found.astimezone(UTC)


def one_job(connection: Connection, id: int, *, locked: bool = False) -> Row[Any]:
    """The row of a job; locked until the transaction ends, if asked.

    Raises:
        NotFoundError: There is none.
    """
    row = None
    if 0 < id <= LARGEST_ID:
        statement = select(jobs).where(jobs.c.id == id)
        row = connection.execute(statement.with_for_update() if locked else statement).first()
    if row is None:
        raise NotFoundError(f"there is no profiling job {id}: list the jobs to see which there are")
    return row


def members_of(task: Row[Any]) -> tuple[Unit, ...]:
    """The variants on the problem that a task of a job asks for; not those of a training."""
    problem = ProblemSpec.from_dict(task.problem)
    return tuple(Unit(problem, variant, plan) for variant, plan in task.variants)


def add_log_line(connection: Connection, job: int, now: datetime, text: str) -> None:
    """Adds a line to the log of a job, which is locked."""
    connection.execute(log.insert().values(job=job, moment=now, line=text))


def update_state(connection: Connection, job: Row[Any], now: datetime) -> None:
    """Makes a job final if nothing of it runs, or can: call after each change of its tasks.

    Args:
        connection: Of a transaction.
        job: The job's row, locked.
        now: For `finished`.
    """
    columns = (tasks.c.is_training, tasks.c.state)
    counted = select(*columns, func.count()).where(tasks.c.job == job.id).group_by(*columns)
    counts = {
        (training, State(state)): count for training, state, count in connection.execute(counted)
    }
    at = {state: counts.get((False, state), 0) for state in State}
    training = next((state for is_training, state in counts if is_training), None)
    if at[State.RUNNING] or training is State.RUNNING:
        return
    error = ""
    if job.cancel_requested:
        state = State.CANCELLED
    elif at[State.QUEUED]:
        return
    elif at[State.FAILED] or training is State.FAILED:
        state = State.FAILED
        failed = select(tasks.c.error).where(tasks.c.job == job.id, tasks.c.state == State.FAILED)
        error = connection.execute(failed.order_by(tasks.c.id).limit(1)).scalar_one()
    elif training is State.QUEUED:
        return
    else:
        state = State.SUCCEEDED
    change = jobs.update().where(jobs.c.id == job.id)
    connection.execute(change.values(state=state.value, finished=now, error=error))
    add_log_line(connection, job.id, now, f"{state.value}: {error}" if error else state.value)
