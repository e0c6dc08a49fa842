"""Databases that go away while workers work: nothing is lost, and nothing counts twice."""

import sqlite3
import threading
import time
from contextlib import contextmanager

import pytest
from tests.profiling._made_up import MACHINE, measurements_of, some_units, tasks_of_job

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.limits import Limits
from hetune.profiling.store.store import Store
from hetune.profiling.workers.job_worker import JobWorker
from hetune.variants.errors import StoreError

from ._server import own_server

PROBLEMS = 30
SECONDS = 120
WORKERS = 2


class Slow:
    """Measures as quickly as a database may just about be stopped in between."""

    def __init__(self):
        self.limits, self.look = Limits(), lambda: None

    def measure(self, members, stamp):
        time.sleep(0.02)
        return measurements_of(members, stamp)


@contextmanager
def working(url, tmp_path, monkeypatch):
    """Workers on a job, each with connections of its own; gives the job and who says what is so."""
    # No hetune has these variants.
    monkeypatch.setattr(
        "hetune.profiling.workers.job_worker.units_of",
        lambda problem: some_units(1, start=dict(problem.graph.options)["seed"]),
    )
    over = threading.Event()
    with Store.open(url) as store:
        job = JobQueue(store).submit_units("mine", some_units(PROBLEMS))

    def work(number):
        with Store.open(url) as own:
            # Short: what was at work when the database went is soon leased again.
            leases = Leases(own, seconds=0.5, attempts=1000)
            lock = tmp_path / f"lock{number}"
            worker = JobWorker(leases, Slow(), lock=lock, machine=MACHINE, heartbeat_seconds=0.1)
            worker.run(over.wait, poll_seconds=0.05)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        yield job
    finally:
        over.set()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)


def progress(url, job):
    with Store.open(url) as store:
        return JobQueue(store).get(job.id)


def wait_for(url, job, problems):
    end = time.monotonic() + SECONDS
    while progress(url, job).progress.problems_done < problems and time.monotonic() < end:
        time.sleep(0.01)
    assert progress(url, job).progress.problems_done >= problems


def check(url, job):
    """Every problem is measured, once."""
    with Store.open(url) as store:
        queue = JobQueue(store)
        assert queue.get(job.id).state is State.SUCCEEDED
        assert {unit.state for unit in tasks_of_job(queue, job.id)} == {State.SUCCEEDED}
        found = sorted(m.unit for m in store.measurements())
        assert found == sorted(unit.key for unit in some_units(PROBLEMS))


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_server_that_crashes_and_comes_back(tmp_path, monkeypatch):
    with own_server() as server:
        with working(server.url, tmp_path, monkeypatch) as job:
            for problems in (3, 12):
                wait_for(server.url, job, problems)
                server.crash()
                with pytest.raises(StoreError):
                    progress(server.url, job)
                server.start()
            wait_for(server.url, job, PROBLEMS)
        check(server.url, job)


def test_a_file_that_is_locked_for_long(tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_STORE_SECONDS", "0.5")
    path = tmp_path / "store.db"
    with working(path, tmp_path, monkeypatch) as job:
        for problems in (3, 12):
            wait_for(path, job, problems)
            other = sqlite3.connect(path, timeout=SECONDS, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            time.sleep(1.5)  # longer than a lease, and than anybody waits
            other.execute("ROLLBACK")
            other.close()
        wait_for(path, job, PROBLEMS)
    check(path, job)
