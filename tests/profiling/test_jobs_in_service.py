"""The worker of a service: it measures while that is idle, and gives back what it has."""

import sys
import threading
import time
from contextlib import contextmanager, nullcontext

import pytest
from tests.profiling._made_up import MACHINE, tasks_of_job, tiny_units
from tests.profiling.test_jobs_worker import Fake

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.record import Stamp
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers import service_worker
from hetune.profiling.workers.activity import Activity, IdleGate, InterferenceError
from hetune.profiling.workers.job_worker import JobWorker
from hetune.profiling.workers.service_worker import ServiceWorker

SECONDS = 120
STAYS = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def activity():
    return Activity()


def waiting(*during):
    """Stands for a wait: does what is given, one after the other, and tells how long it was."""
    turns = list(during)

    def stopped(seconds):
        stopped.waited.append(seconds)
        if not turns:
            return True
        turns.pop(0)()
        return False

    stopped.waited = []
    return stopped


def nothing():
    pass


def until(condition):
    """Waits for something that another process or thread does."""
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_what_is_done_can_be_seen(activity):
    before = activity.read()
    with activity.marked(), activity.marked():
        assert activity.read().running == 2
    assert activity.read().running == 0
    assert activity.read() != before


def test_quiet_is_waited_for(activity):
    idle = IdleGate(activity, seconds=1)

    def compute():
        with activity.marked():
            pass

    stopped = waiting(compute, nothing)
    assert idle.wait(stopped)
    assert stopped.waited == [1, 1]
    idle.check()
    # It lasts: nobody has to wait again.
    assert idle.wait(waiting())
    with activity.marked():
        with pytest.raises(InterferenceError):
            idle.check()
        assert not idle.wait(waiting(nothing, nothing))


def test_who_is_disturbed_waits_twice_as_long(activity):
    idle = IdleGate(activity, seconds=1, most=3)
    found = []
    for disturbed in (True, True, True, False):
        assert idle.wait(waiting(nothing))
        with nullcontext() if not disturbed else pytest.raises(InterferenceError), idle.measuring():
            if disturbed:
                with activity.marked():
                    pass
        found.append(idle.seconds)
    assert found == [2, 3, 3, 1]


def test_a_problem_that_was_disturbed_is_measured_again(activity, tmp_path):
    fake, turns = Fake(), [1, 2]

    def disturb():
        if turns.pop():
            with activity.marked():
                pass

    with Store.open(tmp_path / "store.db") as store:
        queue = JobQueue(store)
        job = queue.submit_units("mine", tiny_units())
        idle, lock = IdleGate(activity, seconds=1), tmp_path / "lock"
        worker = JobWorker(Leases(store), fake, lock=lock, machine=MACHINE, idle=idle)
        fake.meanwhile = lambda: turns and disturb()
        stopped = waiting(*[nothing] * 20)
        worker.run(lambda seconds: stopped(seconds) if seconds else False, until_idle=True)
        assert len(fake.asked) == 3
        assert queue.get(job.id).state is State.SUCCEEDED
        assert len(list(store.measurements())) == 2
        [unit] = tasks_of_job(queue, job.id)
        assert unit.attempt == 1
        assert sum("the service computed meanwhile" in line.text for line in queue.log(job.id)) == 2
    assert stopped.waited == [1, 2, 4]


def test_measuring_ends_at_once(activity):
    """The process that measures would answer nothing for ever."""

    def look():
        raise InterferenceError

    with Supervisor(command=STAYS) as supervisor:
        supervisor.look = look
        with pytest.raises(InterferenceError):
            supervisor.measure(tiny_units(), Stamp("mine", MACHINE.digest, "1"))


@pytest.fixture
def worker(activity, tmp_path):
    def worker(fake, **options):
        given = {"supervisor": lambda: nullcontext(fake), "lock": tmp_path / "lock"} | options
        return ServiceWorker(tmp_path / "store.db", activity, poll_seconds=0.01, **given)

    return worker


def test_it_measures_what_jobs_ask_for(store, queue, worker):
    job = queue.submit_units("mine", tiny_units())
    with worker(Fake()):
        until(lambda: queue.get(job.id).state.is_final)
    assert queue.get(job.id).state is State.SUCCEEDED
    assert len(list(store.measurements())) == 2


def test_it_measures_nothing_while_the_service_computes(queue, activity, worker):
    job, fake = queue.submit_units("mine", tiny_units()), Fake()
    with activity.marked(), worker(fake):
        time.sleep(1.5)
        assert queue.get(job.id).state is State.QUEUED
    assert fake.asked == []


def test_what_is_measured_in_the_end_is_given_back(queue, worker):
    job, fake = queue.submit_units("mine", tiny_units()), Fake()
    begun = threading.Event()

    def meanwhile():
        begun.set()
        until(lambda: fake.look() or False)

    fake.meanwhile = meanwhile
    with worker(fake):
        assert begun.wait(SECONDS)
    [unit] = tasks_of_job(queue, job.id)
    assert (unit.state, unit.attempt) == (State.QUEUED, 0)


def test_what_hangs_is_not_waited_for(queue, worker, monkeypatch, caplog):
    queue.submit_units("mine", tiny_units())
    begun, released, fake = threading.Event(), threading.Event(), Fake()
    fake.meanwhile = lambda: begun.set() or released.wait(SECONDS)
    monkeypatch.setattr(service_worker, "_CLOSE_SECONDS", 0.1)
    with worker(fake) as hanging:
        assert begun.wait(SECONDS)
    assert "hetune-worker has not ended within 0.1 s" in caplog.messages
    released.set()
    hanging._thread.join(SECONDS)


def test_what_nobody_foresaw_is_tried_again(queue, worker, caplog):
    job, fake, troubles = queue.submit_units("mine", tiny_units()), Fake(), [ZeroDivisionError]

    @contextmanager
    def supervisor():
        if troubles:
            raise troubles.pop()
        yield fake

    with worker(fake, supervisor=supervisor):
        until(lambda: queue.get(job.id).state.is_final)
    assert "ZeroDivisionError" in caplog.text
    assert "it is tried in 1 s" in caplog.text
