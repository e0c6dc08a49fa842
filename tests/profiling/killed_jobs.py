"""Workers of jobs that are killed: ``python killed_jobs.py``.

A process of its own. ``complete URL before`` claims a unit and kills itself in `complete`, before
or ``after`` its commit. ``loop URL N`` lets so many workers be killed at random points while they
measure, and then one that is not: all must be measured in the end, and nothing twice. ``sleep
URL`` lets one sleep over the end of its lease, holding what it measured. With the URL of a
service in the end they work over HTTP; the service has to have the same database, and short leases.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from _made_up import MACHINE, measured, some_units, units_of_job
from sqlalchemy import Connection, Row, event

from hetune.clients.http.leases import HttpLeases
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.store import Store
from hetune.profiling.workers.work_source import WorkSource
from hetune.variants.errors import LeaseError

_PROBLEMS = 60
_LONGEST_SECONDS = 0.03
_DEADLINE_SECONDS = 120
_REFUSED = 3


def complete(url: str, when: str) -> None:
    """Claims a unit, and dies in `complete`."""
    with Store.open(url) as store:
        leases = Leases(store)
        lease = leases.claim("victim", MACHINE.digest)
        if lease is None:
            raise SystemExit("there is nothing to claim")

        def die(_: Connection) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if when == "before":
            event.listen(store._shared.engine, "commit", die)
        leases.complete(lease, measured(lease), MACHINE)
        os.kill(os.getpid(), signal.SIGKILL)


def loop(url: str, kills: int, service: str | None = None, seed: int = 0) -> None:
    """Kills so many workers.

    Raises:
        SystemExit: Something was lost, or counted twice.
    """
    draw = random.Random(seed)
    with Store.open(url) as store:
        job = JobQueue(store).submit_units("mine", some_units(_PROBLEMS)).id
    for turn in range(kills):
        problems, seconds = draw.randrange(6), draw.uniform(0, _LONGEST_SECONDS)
        _kill_one(_Lending(url, service, turn), problems, seconds)
        _check(url, job)
    end = time.monotonic() + _DEADLINE_SECONDS
    with Store.open(url) as store:
        queue = JobQueue(store)
        while not queue.get(job).state.is_final and time.monotonic() < end:
            _work(_Lending(url, service, kills), lambda: None)
            time.sleep(0.05)
        if queue.get(job).state is not State.SUCCEEDED:
            raise SystemExit(f"the job is not done: {queue.get(job)}")
    done = _check(url, job)
    print(f"{kills} workers killed, {done} problems measured")


def sleep(url: str, service: str | None = None) -> None:
    """Stops a worker, lets another one do what it had, and lets it go on.

    Raises:
        SystemExit: It was let in, or something was counted twice.
    """
    with Store.open(url) as store:
        job = JobQueue(store).submit_units("mine", some_units(1)).id
    child = os.fork()
    if child == 0:
        _sleep(_Lending(url, service, 0))
    os.waitpid(child, os.WUNTRACED)
    end = time.monotonic() + _DEADLINE_SECONDS
    while _check(url, job) == 0 and time.monotonic() < end:
        time.sleep(0.05)
        _work(_Lending(url, service, 1), lambda: None)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != _REFUSED:
        raise SystemExit("a worker that slept over its lease's end was not refused")
    if _check(url, job) != 1:
        raise SystemExit("the problem is not done")
    print("refused")


def _sleep(lending: _Lending) -> None:
    """A worker that is stopped before it gives back what it measured."""
    try:
        with lending.open() as lender:
            lease = lender.claim("sleeper", MACHINE.digest)
            if lease is not None:
                os.kill(os.getpid(), signal.SIGSTOP)
                lender.complete(lease, measured(lease, samples=(9.0,)), MACHINE)
    except LeaseError:
        os._exit(_REFUSED)
    finally:
        os._exit(1)


@dataclass(frozen=True)
class _Lending:
    """Who lends: a service, or the database, where each turn is a day later than the last."""

    url: str
    service: str | None
    turn: int

    @contextmanager
    def open(self) -> Iterator[WorkSource]:
        if self.service is not None:
            with HttpLeases(self.service) as lender:
                yield lender
            return
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.turn)
        with Store.open(self.url) as store:
            yield Leases(store, attempts=1000, clock=lambda: now)


def _work(lending: _Lending, said: Callable[[], object]) -> None:
    """Measures until there is nothing to do."""
    with lending.open() as lender:
        while lease := lender.claim(f"worker {lending.turn}", MACHINE.digest):
            with suppress(LeaseError):  # it is short, and the machine may be busy
                lender.complete(lease, measured(lease), MACHINE)
                said()


def _kill_one(lending: _Lending, problems: int, seconds: float) -> None:
    """Kills a worker some time after it has completed so many problems."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _work(lending, lambda: os.write(writing, b"."))
            time.sleep(_DEADLINE_SECONDS)  # nothing is left to do: it is killed all the same
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        file.read(problems)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit("a worker ended before it was killed")


def _check(url: str, job: int) -> int:
    """Compares what is done with what was measured; how many problems that are."""
    with Store.open(url) as store:
        done, before = _done(store, job), None
        while done != before:  # a service may still do what a killed worker has sent
            found = [measurement.unit for measurement in store.measurements()]
            done, before = _done(store, job), done
        if len(found) != len({*found}):
            raise SystemExit("a unit was counted twice")
        if len(found) != sum(unit.size for unit in done):
            raise SystemExit(f"{len(found)} measurements, but {len(done)} problems are done")
        return len(done)


def _done(store: Store, job: int) -> list[Row[Any]]:
    return [unit for unit in units_of_job(JobQueue(store), job) if unit.state == State.SUCCEEDED]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["complete", url, when]:
            complete(url, when)
        case ["sleep", url, *service]:
            sleep(url, *service)
        case ["loop", url, kills, *service]:
            loop(url, int(kills), *service)
