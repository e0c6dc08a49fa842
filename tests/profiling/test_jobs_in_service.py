"""The worker beside a service: idle, disturbed, started again, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import pytest
from tests.profiling._made_up import MACHINE, some_units, units_of_job
from tests.profiling.test_jobs_worker import Fake, units

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.record import Stamp
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers import background_thread
from hetune.profiling.workers.activity import Activity, IdleGate, InterferenceError
from hetune.profiling.workers.worker import JobWorker
from hetune.profiling.workers.worker_process import WorkerProcess

SECONDS = 120
ENDS = (sys.executable, "-c", "import sys; sys.stderr.write('why\\n'); sys.exit(3)")
STAYS = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def activity():
    found = Activity.create()
    yield found
    found.close()


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


def test_what_is_done_can_be_seen_by_another(activity):
    other = Activity.inherited(os.dup(activity.descriptor))
    before = other.read()
    with activity.marked(), activity.marked():
        assert other.read().running == 2
    assert other.read().running == 0
    assert other.read() != before
    other.close()


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
        job = queue.submit_units("mine", units())
        idle, lock = IdleGate(activity, seconds=1), tmp_path / "lock"
        worker = JobWorker(Leases(store), fake, lock=lock, machine=MACHINE, idle=idle)
        fake.meanwhile = lambda: turns and disturb()
        stopped = waiting(*[nothing] * 20)
        worker.run(lambda seconds: stopped(seconds) if seconds else False, until_idle=True)
        assert len(fake.asked) == 3
        assert queue.get(job.id).state is State.SUCCEEDED
        assert len(list(store.measurements())) == 2
        [unit] = units_of_job(queue, job.id)
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
            supervisor.measure(units(), Stamp("mine", MACHINE.digest, "1"))


def test_a_worker_that_ends_is_started_again(activity, caplog):
    with WorkerProcess(activity, command=ENDS, pause=0.01, most=0.02) as keeper:
        until(lambda: keeper.starts >= 3)
    assert "the worker of jobs says: why" in caplog.text
    assert "ended with status 3; it is started again in 0.01 s" in caplog.text
    assert "it is started again in 0.02 s" in caplog.text


def test_a_worker_that_cannot_be_started_is_tried_again(activity, caplog):
    with WorkerProcess(activity, command=("no-such-program",), pause=0.01) as keeper:
        until(lambda: keeper.starts >= 2)
    assert "cannot be started" in caplog.text


def test_a_keeper_leaves_nobody_behind(activity, tmp_path):
    store = tmp_path / "store.db"
    code = f"import os, pathlib; p = pathlib.Path({str(tmp_path / 'told')!r}); "
    code += "p.write_text(f'{os.getpid()} {os.environ[\"HETUNE_STORE\"]}'); input()"
    with WorkerProcess(activity, store, command=(sys.executable, "-c", code)) as keeper:
        until(lambda: (tmp_path / "told").exists() and (tmp_path / "told").read_text())
        pid, told = (tmp_path / "told").read_text().split()
    assert (keeper.starts, told) == (1, str(store))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_keeper_does_not_wait_for_what_its_worker_started(activity, tmp_path):
    told = tmp_path / "told"
    code = (
        "import pathlib, subprocess, sys; sleeper = subprocess.Popen(['sleep', '3600']); "
        f"pathlib.Path({str(told)!r}).write_text(str(sleeper.pid)); input()"
    )
    with WorkerProcess(activity, command=(sys.executable, "-c", code)):
        until(lambda: told.exists() and told.read_text())
        began = time.monotonic()
    try:
        assert time.monotonic() - began < SECONDS
    finally:
        os.kill(int(told.read_text()), signal.SIGKILL)


def test_what_hangs_is_not_waited_for(monkeypatch, caplog):
    released = threading.Event()

    class Hanging(background_thread.BackgroundThread):
        def _keep(self):
            released.wait(SECONDS)

    monkeypatch.setattr(background_thread, "_PATIENCE_SECONDS", 0.1)
    with Hanging("hetune-hanging"):
        pass
    assert not released.is_set()
    assert caplog.messages == ["hetune-hanging has not ended within 0.1 s"]
    released.set()


def test_the_worker_works_and_ends_with_its_parent(activity, tmp_path):
    environment = os.environ | {
        "HETUNE_STORE": str(tmp_path / "store.db"),
        "XDG_DATA_HOME": str(tmp_path),
    }
    with Store.open(tmp_path / "store.db") as store:
        queue = JobQueue(store)
        job = queue.submit_units("mine", some_units(1))
        process = subprocess.Popen(
            (
                sys.executable,
                "-m",
                "hetune.profiling.workers.worker_main",
                str(activity.descriptor),
            ),
            stdin=subprocess.PIPE,
            pass_fds=(activity.descriptor,),
            env=environment,
        )
        stop = threading.Timer(SECONDS, process.kill)
        stop.start()
        with process:
            # No hetune has such variants.
            until(lambda: queue.get(job.id).state is State.FAILED)
            assert process.stdin
            process.stdin.close()
            assert process.wait(SECONDS) == 0
        stop.cancel()
