"""Workers of jobs: what they measure, and what becomes of it whatever happens."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from filelock import FileLock
from tests.profiling._made_up import (
    MACHINE,
    measurement,
    measurements_of,
    some_units,
    tasks_of_job,
    tiny_units,
)

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Status
from hetune.profiling.store.store import Store
from hetune.profiling.workers.job_worker import JobWorker
from hetune.variants.errors import FolderError, InputError, StoreError, WorkerError


class Fake:
    """Measures nothing, and remembers what it was asked.

    Attributes:
        meanwhile: Called while it would measure.
    """

    def __init__(self):
        self.limits = Limits()
        self.asked = []
        self.meanwhile = lambda: None

    def measure(self, members, stamp):
        self.asked.append([unit.key for unit in members])
        self.meanwhile()
        return measurements_of(members, stamp)


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def worker(store, fake, tmp_path):
    return JobWorker(
        Leases(store),
        fake,
        train=lambda machine, device: f"model-of-{machine}-for-{device}",
        lock=tmp_path / "lock",
        machine=MACHINE,
        owner="me",
    )


@pytest.mark.parametrize("has_gpu", [False, True])
def test_units_for_gpus_are_for_machines_with_one(queue, fake, worker, monkeypatch, has_gpu):
    devices = ("cpu", "cuda") if has_gpu else ("cpu",)
    monkeypatch.setattr("hetune.profiling.workers.job_worker.devices_here", lambda: devices)
    wanted = units_of(replace(tiny_units(1)[0].problem, device="cuda"))[:2]
    job = queue.submit_units("mine", wanted)
    assert worker.step() is has_gpu
    assert queue.get(job.id).state is (State.SUCCEEDED if has_gpu else State.QUEUED)
    assert fake.asked == [[unit.key for unit in wanted]] * has_gpu


def test_it_measures_what_is_not_known(store, queue, fake, worker):
    wanted = tiny_units(2)
    store.add([measurement(unit=wanted[0].key)], MACHINE)
    job = queue.submit_units("mine", wanted, limits=Limits(rounds=9))
    assert [worker.step(), worker.step(), worker.step()] == [True, True, False]
    assert fake.asked == [[wanted[1].key], [wanted[2].key, wanted[3].key]]
    assert fake.limits == Limits(rounds=9)
    assert queue.get(job.id).state is State.SUCCEEDED
    assert {m.campaign for m in store.measurements()} == {"smoke", "mine"}


def test_who_works_until_idle_waits_for_others_who_measure(queue, worker, tmp_path):
    job = queue.submit_units("mine", tiny_units())
    with ThreadPoolExecutor(1) as pool:
        with measuring_lock(tmp_path / "lock"):
            assert not worker.step()
            done = pool.submit(worker.run, lambda _: False, until_idle=True)
            with pytest.raises(TimeoutError):
                done.result(0.3)
        done.result(60)
    assert queue.get(job.id).state is State.SUCCEEDED


def test_what_is_known_whole_is_not_measured(store, queue, fake, worker):
    wanted = tiny_units()
    store.add([measurement(unit=unit.key) for unit in wanted], MACHINE)
    job = queue.submit_units("mine", wanted)
    assert worker.step()
    assert fake.asked == []
    assert queue.get(job.id).state is State.SUCCEEDED


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_is_trained_in_the_end(queue, worker, monkeypatch, device):
    monkeypatch.setattr("hetune.profiling.workers.job_worker.devices_here", lambda: ("cpu", "cuda"))
    problem = replace(tiny_units(1)[0].problem, device=device)
    job = queue.submit_units("mine", units_of(problem)[:2], retrain=True)
    worker.run(lambda _: False, until_idle=True)
    found = queue.get(job.id)
    model = f"model-of-{MACHINE.digest}-for-{device}"
    assert (found.state, found.model) == (State.SUCCEEDED, model)


def test_what_cannot_be_trained_is_a_failure(store, queue, fake, tmp_path):
    def train(*_):
        raise InputError("too few families")

    lock = tmp_path / "lock"
    worker = JobWorker(Leases(store), fake, train=train, lock=lock, machine=MACHINE)
    job = queue.submit_units("mine", tiny_units(), retrain=True)
    worker.run(lambda _: False, until_idle=True)
    found = queue.get(job.id)
    assert (found.state, found.error, found.model) == (State.FAILED, "too few families", None)
    assert found.progress.problems_done == 1


def test_units_of_another_release_are_not_measured(queue, fake, worker):
    job = queue.submit_units("mine", [*tiny_units(), *some_units(1)])
    worker.run(lambda _: False, until_idle=True)
    assert len(fake.asked) == 1
    found = queue.get(job.id)
    assert found.state is State.FAILED
    assert "hetune has changed since" in found.error


def test_what_may_pass_is_tried_again(queue, fake, worker):
    def fail():
        raise RuntimeError("a bug")

    fake.meanwhile = fail
    job = queue.submit_units("mine", tiny_units())
    assert [worker.step() for _ in range(4)] == [True, True, True, False]
    found = queue.get(job.id)
    assert found.state is State.FAILED
    assert "a bug" in found.error


def raising(*errors):
    """Raises one after the other, and then nothing."""
    left = list(errors)

    def call(*_, **__):
        if left:
            raise left.pop(0)

    return call


FULL = [WorkerError("no process"), FolderError("no space"), OSError(28, "no space")] * 2


def test_faults_of_the_machine_are_no_attempts(queue, fake, worker):
    fake.meanwhile = raising(*FULL)
    job = queue.submit_units("mine", tiny_units())
    waited = []
    worker.run(lambda seconds: bool(waited.append(seconds)) or queue.get(job.id).state.is_final)
    [unit] = tasks_of_job(queue, job.id)
    assert (unit.state, unit.attempt, unit.token) == (State.SUCCEEDED, 1, 1 + len(FULL))
    assert [seconds for seconds in waited if seconds] == [1, 2, 4, 8, 16, 32]
    assert sum("given back: no space" in line.text for line in queue.log(job.id)) == 2


def test_who_works_until_idle_says_what_the_machine_cannot_do(queue, fake, worker):
    fake.meanwhile = raising(*FULL)
    job = queue.submit_units("mine", tiny_units())
    with pytest.raises(WorkerError, match="no process"):
        worker.run(lambda _: False, until_idle=True)
    assert tasks_of_job(queue, job.id)[0].attempt == 0


def away():
    error = StoreError("it is away")
    error.may_pass = True
    return error


def failing(monkeypatch, name, *errors):
    """Lets a method of `Leases` raise errors first."""
    real, fail = getattr(Leases, name), raising(*errors)

    def call(self, *arguments, **options):
        fail()
        return real(self, *arguments, **options)

    monkeypatch.setattr(Leases, name, call)


def outcome(fake, name):
    """What has to happen so that a worker calls a method of its lender."""
    error = {"fail": InputError("never"), "release": WorkerError("not now")}.get(name)
    fake.meanwhile = raising(*[error] if error else [])


@pytest.mark.parametrize("name", ["complete", "complete_training", "fail", "release"])
def test_what_comes_of_a_unit_is_kept_while_the_database_is_away(
    queue, fake, worker, monkeypatch, caplog, name
):
    outcome(fake, name)
    failing(monkeypatch, name, *[away() for _ in range(7)])
    job = queue.submit_units("mine", tiny_units(), retrain=name == "complete_training")
    waited = []
    worker.run(lambda seconds: bool(waited.append(seconds)) or queue.get(job.id).state.is_final)
    assert [seconds for seconds in waited if seconds][:7] == [1, 2, 4, 8, 16, 32, 60]
    assert {unit.attempt for unit in tasks_of_job(queue, job.id)} == {1}
    assert queue.get(job.id).state is (State.FAILED if name == "fail" else State.SUCCEEDED)
    assert "it is away; tried again in 60 s" in caplog.text
    assert len(fake.asked) == (2 if name == "release" else 1)


def test_a_stop_says_what_is_lost(queue, worker, monkeypatch, caplog):
    failing(monkeypatch, "complete", away(), away())
    job = queue.submit_units("mine", tiny_units())
    waited = []
    worker.run(lambda seconds: bool(seconds and not waited.append(seconds)))
    assert f"2 measurements of task 1 of job {job.id} are lost" in caplog.text
    [unit] = tasks_of_job(queue, job.id)
    assert (unit.state, unit.token) == (State.RUNNING, 1)


def test_leases_that_end_while_the_database_is_away_are_prolonged(store, queue, monkeypatch):
    """Whoever measured meanwhile brings it back; who does not come has lost the unit then."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    queue.submit_units("mine", some_units(1))
    one, other = (Leases(store, clock=lambda: now[0]) for _ in range(2))
    lease = one.claim("one", MACHINE.digest)
    assert other.claim("other", MACHINE.digest) is None
    with monkeypatch.context() as patch:
        patch.setattr(Store, "transaction", raising(away()))
        with pytest.raises(StoreError):
            other.claim("other", MACHINE.digest)
    now[0] += timedelta(hours=1)
    assert other.claim("other", MACHINE.digest) is None
    now[0] += timedelta(seconds=59)
    assert one.heartbeat(lease)
    now[0] += timedelta(seconds=60)
    assert other.claim("other", MACHINE.digest).attempt == 2


def test_measurements_that_are_refused_are_the_unit_s_fault(queue, fake, worker, monkeypatch):
    failing(monkeypatch, "complete", *[StoreError("it contradicts itself") for _ in range(3)])
    job = queue.submit_units("mine", tiny_units())
    worker.run(lambda _: False, until_idle=True)
    assert (queue.get(job.id).state, len(fake.asked)) == (State.FAILED, 3)


def test_who_is_interrupted_gives_back_what_it_has(queue, fake, worker):
    def interrupt():
        raise KeyboardInterrupt

    fake.meanwhile = interrupt
    job = queue.submit_units("mine", tiny_units())
    with pytest.raises(KeyboardInterrupt):
        worker.step()
    [unit] = tasks_of_job(queue, job.id)
    assert (unit.state, unit.attempt) == (State.QUEUED, 0)


def test_who_wakes_up_late_writes_nothing(store, queue, fake, worker, tmp_path):
    def sleep():
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert Leases(store, clock=lambda: tomorrow).claim("other", MACHINE.digest)

    fake.meanwhile = sleep
    job = queue.submit_units("mine", tiny_units())
    assert worker.step()
    assert list(store.measurements()) == []
    [unit] = tasks_of_job(queue, job.id)
    assert (unit.state, unit.owner, unit.attempt) == (State.RUNNING, "other", 2)


def test_a_cancelled_job_keeps_the_problem_that_was_at_work(store, queue, fake, worker):
    job = queue.submit_units("mine", tiny_units(2))
    fake.meanwhile = lambda: queue.cancel(job.id)
    worker.run(lambda _: False, until_idle=True)
    assert queue.get(job.id).state is State.CANCELLED
    assert len(list(store.measurements())) == 2


def test_it_says_that_it_lives(store, queue, fake, tmp_path):
    job = queue.submit_units("mine", tiny_units())
    beaten = threading.Event()

    def wait():
        first = tasks_of_job(queue, job.id)[0].heartbeat
        while tasks_of_job(queue, job.id)[0].heartbeat == first and not beaten.wait(0.01):
            pass

    fake.meanwhile = wait
    lock = tmp_path / "lock"
    worker = JobWorker(Leases(store), fake, lock=lock, machine=MACHINE, heartbeat_seconds=0.01)
    stop = threading.Timer(30, beaten.set)
    stop.start()
    assert worker.step()
    assert not beaten.is_set()
    stop.cancel()
    assert queue.get(job.id).state is State.SUCCEEDED


def test_one_worker_of_a_machine_works_at_a_time(queue, fake, worker, tmp_path):
    queue.submit_units("mine", tiny_units())
    with FileLock(tmp_path / "lock"):
        assert not worker.step()
    assert fake.asked == []
    assert worker.step()


def test_a_database_that_is_away_is_waited_for(queue, worker, monkeypatch):
    job = queue.submit_units("mine", tiny_units())
    claim, waited = Leases.claim, []

    def fails_once(self, *arguments, **options):
        if not waited:
            raise StoreError("it is away")
        return claim(self, *arguments, **options)

    def stopped(seconds):
        if seconds:
            waited.append(seconds)
        return len(waited) > 1

    monkeypatch.setattr(Leases, "claim", fails_once)
    worker.run(stopped, poll_seconds=7)
    assert waited == [7, 7]
    assert queue.get(job.id).state is State.SUCCEEDED
    waited.clear()
    with pytest.raises(StoreError, match="it is away"):
        worker.run(stopped, until_idle=True)


def test_for_real(store, queue, tmp_path):
    """In a process that measures, with the clock of the machine."""
    job = queue.submit_units("mine", tiny_units())
    with Supervisor() as supervisor:
        worker = JobWorker(Leases(store), supervisor, lock=tmp_path / "lock")
        worker.run(lambda _: False, until_idle=True)
    assert queue.get(job.id).machine == this_machine().digest
    assert queue.get(job.id).state is State.SUCCEEDED
    assert {m.status for m in store.measurements()} == {Status.OK}
