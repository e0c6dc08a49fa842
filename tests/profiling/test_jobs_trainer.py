"""Training in a process of its own, and the service's trainer, who looks for it."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from filelock import FileLock
from tests.profiling._made_up import MACHINE, lease_of, measured, some_units, tasks_of_job
from tests.profiling.test_jobs_in_service import until

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import State, Trains
from hetune.profiling.store.store import Store
from hetune.profiling.workers.failures import ProcessLostError
from hetune.profiling.workers.service_worker import ServiceWorker
from hetune.profiling.workers.train_main import answer
from hetune.profiling.workers.training_process import TrainingProcess
from hetune.variants.errors import (
    FolderError,
    InputError,
    LeaseError,
    ModelError,
    StoreError,
    WorkerError,
)

FAKE = (sys.executable, str(Path(__file__).with_name("fake_training.py")))
ONE = '"model-of-" + sys.argv[-1]'


def script(*lines):
    """A command that runs lines of Python; the digest of the machine is the last argument."""
    return (sys.executable, "-c", "\n".join(("import json, os, sys, time", *lines)))


def answers(text):
    return f"print(json.dumps({text}))"


TRAINS = script(answers(f'{{"model": {ONE}}}'))
FAILS = script(answers('{"error": "too few families", "fault": "data"}'))
HANGS = "time.sleep(600)"


def caused(error, cause):
    error.__cause__ = cause
    return error


# A process of its own.


def test_it_gives_the_model():
    assert TrainingProcess(command=TRAINS)("abc") == "model-of-abc"
    arguments = script(answers('{"model": " ".join(sys.argv[1:])}'))
    assert TrainingProcess(command=arguments)("abc") == "cpu abc"


@pytest.mark.parametrize(
    ("lines", "error", "says"),
    [
        ([answers('{"error": "never", "fault": "data"}')], ModelError, "^never$"),
        ([answers('{"error": "not now", "fault": "machine"}')], WorkerError, "^not now$"),
        ([answers('{"error": "a bug", "fault": "unknown"}')], ProcessLostError, "^a bug$"),
        (["os.kill(os.getpid(), 15)"], WorkerError, r"was told to stop \(SIGTERM\)"),
        (["os.kill(os.getpid(), 9)"], ProcessLostError, "was killed, as the system does"),
        (["os.abort()"], ProcessLostError, "signal SIGABRT"),
        (["sys.exit('its last words')"], ProcessLostError, "exit status 1: its last words$"),
        ([HANGS], ModelError, "longer than the limit of 0.01 s"),
    ],
    ids=range(8),
)
def test_there_is_no_model(lines, error, says):
    with pytest.raises(error, match=says):
        TrainingProcess(command=script(*lines), seconds=0.01 if lines == [HANGS] else 60)("abc")


def test_a_process_that_cannot_be_started():
    with pytest.raises(WorkerError, match="cannot be started"):
        TrainingProcess(command=("no-such-program",))("abc")


def test_who_looks_may_end_it(tmp_path):
    class StopError(BaseException):
        pass

    path = tmp_path / "pid"
    command = script(f"open({str(path)!r}, 'w').write(str(os.getpid()))", HANGS)

    def look():
        if path.exists() and path.read_text():
            raise StopError

    with pytest.raises(StopError):
        TrainingProcess(command=command, look=look)("abc")
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


def test_a_real_one_tells_why_there_is_no_model(tmp_path):
    with Store.open(tmp_path / "store.db"):
        pass
    with pytest.raises(ModelError, match=r"store\.db holds no measurements"):
        TrainingProcess(tmp_path / "store.db")("abc")


@pytest.mark.parametrize(
    ("error", "says", "fault"),
    [
        (InputError("too few families"), "too few families", "data"),
        (StoreError("it is away"), "it is away", "machine"),
        (FolderError("no space"), "no space", "machine"),
        (caused(ModelError("no card"), OSError(28, "no space")), "no card", "machine"),
        (OSError(28, "no space"), "OSError: [Errno 28] no space", "machine"),
        (RuntimeError("a bug"), "RuntimeError: a bug", "unknown"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_pass_is_told_apart(tmp_path, monkeypatch, error, says, fault):
    def fail(store, machine, registry):
        raise error

    monkeypatch.setenv("HETUNE_STORE", str(tmp_path / "store.db"))
    assert answer("cpu", "abc", fail) == {"error": says, "fault": fault}


def test_it_gives_way_to_all_others(tmp_path):
    train = TrainingProcess(tmp_path / "store.db", command=FAKE)
    assert train("abc", "cuda") == "cuda, nice 19, limited True"


def test_it_ends_with_its_parent(tmp_path):
    process = subprocess.Popen(
        [*FAKE, "cpu", "hang"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"HETUNE_STORE": str(tmp_path / "store.db")},
    )
    with process:
        while b"hangs" not in process.stderr.readline():
            assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 1


# Beside a service.


@pytest.fixture
def job(store, queue):
    """The number of a job where all is measured, and a model has to be trained."""
    id = queue.submit_units("mine", some_units(1), retrain=True).id
    leases = Leases(store, trains=Trains.NOTHING)
    lease = leases.claim("elsewhere", MACHINE.digest)
    leases.complete(lease, measured(lease), MACHINE)
    assert leases.claim("elsewhere", MACHINE.digest) is None
    return id


@pytest.fixture
def trainer(tmp_path):
    def trainer(command, **options):
        given = {"poll_seconds": 0.01, "rest_seconds": 0.01, "lock": tmp_path / "lock"} | options
        return ServiceWorker(tmp_path / "store.db", train_command=command, **given)

    return trainer


def runs(pid):
    """Whether a process does; one that has ended may wait for its parent to notice."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def training(queue, job):
    return tasks_of_job(queue, job)[-1]


def is_final(queue, job):
    return lambda: queue.get(job).state.is_final


def test_it_trains_for_the_machine_that_was_measured(queue, job, trainer):
    with trainer(TRAINS):
        until(is_final(queue, job))
    found = queue.get(job)
    assert (found.state, found.model) == (State.SUCCEEDED, f"model-of-{MACHINE.digest}")


def test_a_training_that_fails_is_the_job_s_failure(queue, job, trainer):
    with trainer(FAILS):
        until(is_final(queue, job))
    found = queue.get(job)
    assert (found.state, found.error, found.model) == (State.FAILED, "too few families", None)
    assert training(queue, job).attempt == 1


def test_it_measures_nothing(queue, trainer, job):
    other = queue.submit_units("other", some_units(2), retrain=True).id
    with trainer(TRAINS):
        until(is_final(queue, job))
    assert {unit.attempt for unit in tasks_of_job(queue, other)} == {0}


def test_who_is_killed_is_followed_by_another_attempt(queue, job, trainer, tmp_path):
    path = tmp_path / "killed"
    dies = f"os.path.exists({str(path)!r}) or open({str(path)!r}, 'w') and os.kill(os.getpid(), 9)"
    with trainer(script(dies, answers(f'{{"model": {ONE}}}'))):
        until(is_final(queue, job))
    unit = training(queue, job)
    assert (unit.state, unit.attempt, unit.token) == (State.SUCCEEDED, 2, 2)
    assert any("was killed, as the system does" in line.text for line in queue.log(job))


def test_who_is_killed_too_often_is_given_up(queue, job, trainer):
    with trainer(script("os.kill(os.getpid(), 9)")):
        until(is_final(queue, job))
    found = queue.get(job)
    assert found.state is State.FAILED
    assert "the process that trains was killed" in found.error
    assert training(queue, job).attempt == 3


def test_stops_are_no_attempts(queue, job, trainer, tmp_path):
    """A stop of all processes reaches the one that trains first."""
    path = tmp_path / "stopped"
    stops = f"open({str(path)!r}, 'a').write('.') > 0 and os.kill(os.getpid(), 15)"
    often = f"os.path.exists({str(path)!r}) and os.path.getsize({str(path)!r}) > 4"
    with trainer(script(f"{often} or {stops}", answers(f'{{"model": {ONE}}}'))):
        until(is_final(queue, job))
    unit = training(queue, job)
    assert (unit.state, unit.attempt, unit.token) == (State.SUCCEEDED, 1, 6)
    assert sum("told to stop (SIGTERM)" in line.text for line in queue.log(job)) == 5


def test_kills_that_follow_each_other_are_one_attempt_each(queue, job, trainer):
    """In between it rests, so that what was short for a moment fails no job."""
    with trainer(script("os.kill(os.getpid(), 9)"), rest_seconds=60.0):
        until(lambda: training(queue, job).attempt == 1 and training(queue, job).error)
        time.sleep(0.1)
    unit = training(queue, job)
    assert (unit.state, unit.attempt, unit.token) == (State.QUEUED, 1, 1)


def test_a_training_is_given_back_in_the_end(queue, job, trainer, tmp_path):
    path = tmp_path / "pid"
    command = script(f"open({str(path)!r}, 'w').write(str(os.getpid()))", HANGS)
    with trainer(command):
        until(lambda: path.exists() and path.read_text())
    unit = training(queue, job)
    assert (unit.state, unit.attempt) == (State.QUEUED, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


def test_it_says_that_it_lives(queue, job, trainer):
    with trainer(script(HANGS), lease_seconds=8.0):  # a heartbeat every two seconds
        until(lambda: training(queue, job).state == State.RUNNING)
        first = training(queue, job).heartbeat
        until(lambda: training(queue, job).heartbeat > first + timedelta(seconds=3))
    assert training(queue, job).token == 1


def test_no_worker_measures_meanwhile(queue, job, trainer, tmp_path):
    with FileLock(tmp_path / "lock"), trainer(TRAINS):
        time.sleep(0.2)
        assert training(queue, job).state == State.QUEUED
    with trainer(TRAINS):
        until(is_final(queue, job))


def test_a_service_that_is_killed_loses_its_lease(store, queue, job, tmp_path):
    """Its training ends with it, another one gets the next token, and it could write no more."""
    path = tmp_path / "pid"
    command = script(
        f"open({str(path)!r}, 'w').write(str(os.getpid()))", "sys.stdin.read()", "os._exit(1)"
    )
    line = (
        "import time; from hetune.profiling.workers.service_worker import ServiceWorker; "
        f"ServiceWorker({str(tmp_path / 'store.db')!r}, train_command={command!r}, "
        f"lock=__import__('pathlib').Path({str(tmp_path / 'lock')!r})).__enter__(); "
        "time.sleep(600)"
    )
    service = subprocess.Popen([sys.executable, "-c", line])
    try:
        until(lambda: path.exists() and path.read_text())
        before = lease_of(Leases(store), training(queue, job).id)
    finally:
        service.send_signal(signal.SIGKILL)
        service.wait()
    until(lambda: not runs(int(path.read_text())))
    later = Leases(
        store, trains=Trains.ONLY, clock=lambda: datetime.now(UTC) + timedelta(minutes=2)
    )
    after = later.claim("another", MACHINE.digest)
    assert (after.task, after.token, after.attempt) == (before.task, 2, 2)
    with pytest.raises(LeaseError, match="has ended"):
        Leases(store).complete_training(before, "late")
    later.complete_training(after, "m")
    assert queue.get(job).model == "m"


def test_a_database_that_is_away_is_tried_again(tmp_path, caplog):
    folder = tmp_path / "store.db"
    folder.mkdir()
    with ServiceWorker(folder, train_command=TRAINS, lock=tmp_path / "lock"):
        until(lambda: "jobs cannot be worked on" in caplog.text)
