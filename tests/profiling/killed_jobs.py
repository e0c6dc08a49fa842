"""Workers of jobs that are killed: ``python killed_jobs.py``.

A process of its own. ``complete URL before`` claims a unit and kills itself in `complete`, before
or ``after`` its commit. ``loop URL N`` lets so many workers be killed at random points while they
measure, and then one that is not: all must be measured in the end, and nothing twice.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, event

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.store import Store
from hetune.profiling.testing.jobs import measured, some_units
from hetune.profiling.testing.records import MACHINE

_PROBLEMS = 60
_LONGEST_SECONDS = 0.03


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
            event.listen(store._engine, "commit", die)
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
        _kill_one(url, turn, draw.randrange(6), draw.uniform(0, _LONGEST_SECONDS))
        _check(url, job)
    with Store.open(url) as store:
        _work(store, kills, lambda: None)
        if JobQueue(store).get(job).state is not State.SUCCEEDED:
            raise SystemExit(f"the job is not done: {JobQueue(store).get(job)}")
    done = _check(url, job)
    print(f"{kills} workers killed, {done} problems measured")


def _work(store: Store, turn: int, said: Callable[[], object]) -> None:
    """Measures until there is nothing to do, each turn a day later: earlier leases have ended."""
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=turn)
    leases = Leases(store, attempts=1000, clock=lambda: now)
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
            with Store.open(url) as store:
                _work(store, turn, lambda: os.write(writing, b"."))
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
        found = [measurement.unit for measurement in store.measurements()]
        if len(found) != len({*found}):
            raise SystemExit("a unit was counted twice")
        done = [u for u in JobQueue(store).units(job) if u.state is State.SUCCEEDED]
        if len(found) != sum(unit.variants for unit in done):
            raise SystemExit(f"{len(found)} measurements, but {len(done)} problems are done")
        return len(done)


if __name__ == "__main__":
    if sys.argv[1] == "complete":
        complete(sys.argv[2], sys.argv[3])
    else:
        loop(sys.argv[2], int(sys.argv[3]))
