"""Processes that use one store in a drawn order: ``python store_lives.py URL STEPS SEED``.

A process of its own, which forks and opens no store itself. Each fork has the store open, as a
service or a worker has, and does what it is told: submit a job, measure, train, back up, open a
second store. In between it is told to stop, or is killed, also in the middle. After every step
another fork looks: the file is whole, and what was acknowledged is there, once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _made_up import MACHINE, measured, some_units

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import MeasureTask, State
from hetune.profiling.store.backup import backup
from hetune.profiling.store.connect import find
from hetune.profiling.store.store import Store
from hetune.variants.errors import LeaseError

_PROBLEMS = 2
_MOST_USERS = 4
_LEASE_SECONDS = 1.0
_LONGEST_SECONDS = 0.03
_DEADLINE_SECONDS = 60


class User:
    """What a process does that has a store open; each answers with what it acknowledges."""

    def __init__(self, url: str) -> None:
        self.url, self.store = url, Store.open(url)
        self.queue = JobQueue(self.store)
        self.leases = Leases(self.store, seconds=_LEASE_SECONDS, attempts=1000)

    def submit(self, number: int) -> dict[str, Any]:
        """A job, with a training if its number is odd."""
        start = 1000 * number
        units = some_units(_PROBLEMS, start=start)
        job = self.queue.submit_units(f"c{number}", units, retrain=bool(number % 2))
        return {"jobs": [job.id]}

    def work(self, _: int) -> dict[str, Any]:
        """Measures what is to be measured next, or trains."""
        lease = self.leases.claim(f"worker {os.getpid()}", MACHINE.digest)
        if lease is None:
            return {}
        with suppress(LeaseError):  # it is short, and the machine may be busy
            if isinstance(lease.work, MeasureTask):
                found = measured(lease)
                self.leases.complete(lease, found, MACHINE)
                return {"units": [measurement.unit for measurement in found]}
            assert len(list(self.store.measurements())) >= _PROBLEMS
            self.leases.complete_training(lease, f"model-{lease.job}")
            return {"models": [lease.job]}
        return {}

    def back_up(self, number: int) -> dict[str, Any]:
        """Writes a backup, over that of before, and looks at it."""
        if "://" in self.url:
            return {}
        file = Path(f"{self.url}.backup{number % 2}")
        count = backup(self.url, file)
        with Store.open(file) as copy:
            assert len(list(copy.measurements())) == count
        return {}

    def open_again(self, _: int) -> dict[str, Any]:
        """Opens a second store beside the first, as a service's trainer does."""
        with Store.open(self.url) as second:
            JobQueue(second).counts()
        return {}


DOES: dict[str, Callable[[User, int], dict[str, Any]]] = {
    "submit": User.submit,
    "work": User.work,
    "back_up": User.back_up,
    "open_again": User.open_again,
}


@dataclass
class Child:
    """A fork that does what it reads, a line each, and answers with a line."""

    url: str
    process: int = field(init=False)

    def __post_init__(self) -> None:
        told, answers = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            ours = {0, 1, 2, told[0], answers[1]}
            for other in {int(file.name) for file in Path("/proc/self/fd").iterdir()} - ours:
                with suppress(OSError):
                    os.close(other)  # or the others would not notice that they are told to end
            self._live(told[0], answers[1])
        os.close(told[0])
        os.close(answers[1])
        self._tell = os.fdopen(told[1], "w", buffering=1)
        self._hear = os.fdopen(answers[0])

    def _live(self, told: int, answers: int) -> None:
        status = 1
        try:
            user = User(self.url)
            with os.fdopen(told) as lines, os.fdopen(answers, "w", buffering=1) as says:
                for line in lines:
                    what, number = line.split()
                    says.write(json.dumps(DOES[what](user, int(number))) + "\n")
            user.store.close()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)

    def tell(self, what: str, number: int) -> None:
        """Lets it do something."""
        self._tell.write(f"{what} {number}\n")

    def hear(self) -> dict[str, Any]:
        """What it acknowledges."""
        line = self._hear.readline()
        if not line:
            raise SystemExit("a process ended unasked")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self, *, kill: bool) -> list[dict[str, Any]]:
        """Ends it; what it acknowledged before that."""
        if kill:
            os.kill(self.process, signal.SIGKILL)
        with suppress(BrokenPipeError):
            self._tell.close()
        with self._hear:
            found = [json.loads(line) for line in self._hear if line.endswith("\n")]
        _, status = os.waitpid(self.process, 0)
        if os.waitstatus_to_exitcode(status) != (-signal.SIGKILL if kill else 0):
            raise SystemExit("a process ended otherwise than it was told")
        return found


def look(url: str, acknowledged: dict[str, set[Any]]) -> None:
    """Compares a store with what was acknowledged, in a process that opens it and closes it.

    Raises:
        SystemExit: Something is lost, or there twice, or the file is damaged.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _look(url, acknowledged)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("the store is not what it should be")


def _look(url: str, acknowledged: dict[str, set[Any]]) -> None:
    if "://" not in url:
        with closing(sqlite3.connect(url, timeout=30)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            assert found == [("ok",)], found
    with Store.open(url) as store:
        jobs = JobQueue(store).list(limit=1000)
        units = [measurement.unit for measurement in store.measurements()]
    assert len(units) == len(set(units)), "a measurement is there twice"
    for name, there in (
        ("jobs", {job.id for job in jobs}),
        ("units", set(units)),
        ("models", {job.id for job in jobs if job.model == f"model-{job.id}"}),
    ):
        lost = acknowledged[name] - there
        assert not lost, f"lost {name}: {lost}"


def main(url: str, steps: int, seed: int) -> None:
    """Takes so many steps, and then finishes all jobs.

    Raises:
        SystemExit: As `look`.
    """
    dialect = find(url).url.get_dialect()
    dialect.import_dbapi()  # once, and not in each fork
    draw = random.Random(seed)
    acknowledged: dict[str, set[Any]] = {"jobs": set(), "units": set(), "models": set()}
    children: list[Child] = []

    def note(answer: dict[str, Any]) -> None:
        for name, found in answer.items():
            acknowledged[name].update(found)

    for step in range(steps):
        if len(children) < _MOST_USERS and (not children or draw.random() < 0.3):
            children.append(Child(url))
        child = draw.choice(children)
        what = draw.choices((*DOES, "stop", "kill", "kill meanwhile"), (3, 8, 2, 2, 1, 1, 1), k=1)[
            0
        ]
        if what in DOES:
            child.tell(what, step)
            note(child.hear())
        else:
            if what == "kill meanwhile":
                child.tell(draw.choice(tuple(DOES)), step)
                time.sleep(draw.uniform(0, _LONGEST_SECONDS))
            for answer in child.end(kill=what != "stop"):
                note(answer)
            children.remove(child)
        look(url, acknowledged)
    for child in children:
        for answer in child.end(kill=False):
            note(answer)
    _finish(url, note)
    look(url, acknowledged)
    counts = ", ".join(f"{len(found)} {name}" for name, found in acknowledged.items())
    print(f"{steps} steps: {counts}")


def _finish(url: str, note: Callable[[dict[str, Any]], None]) -> None:
    """Works until every job has succeeded."""
    child, end = Child(url), time.monotonic() + _DEADLINE_SECONDS
    rest = 2
    while rest and time.monotonic() < end:
        child.tell("work", 0)
        answer = child.hear()
        note(answer)
        if not answer:
            time.sleep(_LEASE_SECONDS + 0.1)  # what the killed ones had is leased again
            rest -= 1
    child.end(kill=False)
    reading = os.fork()
    if reading == 0:
        status = 1
        try:
            with Store.open(url) as store:
                states = {job.state for job in JobQueue(store).list(limit=1000)}
                status = 0 if states <= {State.SUCCEEDED} else 2
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(reading, 0)[1]):
        raise SystemExit("a job is not done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
