"""Workers of jobs that are killed: ``python killed_jobs.py``.

A process of its own. ``complete URL before`` claims a unit and kills itself in `complete`, before
or ``after`` its commit. ``loop URL N`` lets so many workers be killed at random points while they
measure, and then one that is not: all must be measured in the end, and nothing twice. ``sleep
URL`` lets one sleep over the end of its lease, holding what it measured.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from _made_up import MACHINE, measured, some_units, tasks_of_job
from sqlalchemy import Connection, Row, event

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.store import Store
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


def loop(url: str, kills: int, seed: int = 0) -> None:
    """Kills so many workers.

    Raises:
        SystemExit: Something was lost, or counted twice.
    """
    draw = random.Random(seed)
    with Store.open(url) as store:
        job = JobQueue(store).submit_units("mine", some_units(_PROBLEMS)).id
    for turn in range(kills):
        problems, seconds = draw.randrange(6), draw.uniform(0, _LONGEST_SECONDS)
        _kill_one(url, turn, problems, seconds)
        _check(url, job)
    _work(url, kills, lambda: None)
    with Store.open(url) as store:
        found = JobQueue(store).get(job)
        if found.state is not State.SUCCEEDED:
            raise SystemExit(f"the job is not done: {found}")
    done = _check(url, job)
    print(f"{kills} workers killed, {done} problems measured")


def sleep(url: str) -> None:
    """Stops a worker, lets another one do what it had, and lets it go on.

    Raises:
        SystemExit: It was let in, or something was counted twice.
    """
    with Store.open(url) as store:
        job = JobQueue(store).submit_units("mine", some_units(1)).id
    child = os.fork()
    if child == 0:
        _sleep(url)
    os.waitpid(child, os.WUNTRACED)
    _work(url, 1, lambda: None)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != _REFUSED:
        raise SystemExit("a worker that slept over its lease's end was not refused")
    if _check(url, job) != 1:
        raise SystemExit("the problem is not done")
    print("refused")


def _sleep(url: str) -> None:
    """A worker that is stopped before it gives back what it measured."""
    try:
        with _leases(url, 0) as leases:
            lease = leases.claim("sleeper", MACHINE.digest)
            if lease is not None:
                os.kill(os.getpid(), signal.SIGSTOP)
                leases.complete(lease, measured(lease, samples=(9.0,)), MACHINE)
    except LeaseError:
        os._exit(_REFUSED)
    finally:
        os._exit(1)


@contextmanager
def _leases(url: str, turn: int) -> Iterator[Leases]:
    """Those of a worker; each turn is a day later than the last."""
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=turn)
    with Store.open(url) as store:
        yield Leases(store, attempts=1000, clock=lambda: now)


def _work(url: str, turn: int, said: Callable[[], object]) -> None:
    """Measures until there is nothing to do."""
    with _leases(url, turn) as leases:
        while lease := leases.claim(f"worker {turn}", MACHINE.digest):
            leases.complete(lease, measured(lease), MACHINE)
            said()


def _kill_one(url: str, turn: int, problems: int, seconds: float) -> None:
    """Kills a worker some time after it has completed so many problems."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _work(url, turn, lambda: os.write(writing, b"."))
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
        done = _done(store, job)
        found = [measurement.unit for measurement in store.measurements()]
        if len(found) != len({*found}):
            raise SystemExit("a unit was counted twice")
        if len(found) != sum(unit.size for unit in done):
            raise SystemExit(f"{len(found)} measurements, but {len(done)} problems are done")
        return len(done)


def _done(store: Store, job: int) -> list[Row[Any]]:
    return [unit for unit in tasks_of_job(JobQueue(store), job) if unit.state == State.SUCCEEDED]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["complete", url, when]:
            complete(url, when)
        case ["sleep", url]:
            sleep(url)
        case ["loop", url, kills]:
            loop(url, int(kills))
