"""Workers of jobs: what they measure, and what becomes of it whatever happens."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from filelock import FileLock

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.alone import alone
from hetune.profiling.corpus import recipe
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import State
from hetune.profiling.jobs.worker import JobWorker
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.records import Status
from hetune.profiling.supervisor import Supervisor
from hetune.profiling.testing.jobs import some_units
from hetune.profiling.testing.records import MACHINE, measurement
from hetune.profiling.units import ProblemSpec
from hetune.variants.errors import InputError, StoreError, WorkerError


def units(problems=1):
    """Two variants on each of some tiny graphs."""
    found = []
    for seed in range(problems):
        graph = recipe(f"g{seed}", "typed", options={"nodes": 30, "edges": 90, "seed": seed})
        found += units_of(ProblemSpec(graph, "rgcn", 4, 4, 1, 1))[:2]
    return found


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
        return [
            measurement(
                unit=unit.key, variant=unit.variant, plan=unit.plan, campaign=stamp.campaign
            )
            for unit in members
        ]


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
    monkeypatch.setattr("hetune.profiling.jobs.worker.devices_here", lambda: devices)
    wanted = units_of(replace(units(1)[0].problem, device="cuda"))[:2]
    job = queue.submit_units("mine", wanted)
    assert worker.step() is has_gpu
    assert queue.get(job.id).state is (State.SUCCEEDED if has_gpu else State.QUEUED)
    assert fake.asked == [[unit.key for unit in wanted]] * has_gpu


def test_it_measures_what_is_not_known(store, queue, fake, worker):
    wanted = units(2)
    store.add([measurement(unit=wanted[0].key)], MACHINE)
    job = queue.submit_units("mine", wanted, limits=Limits(rounds=9))
    assert [worker.step(), worker.step(), worker.step()] == [True, True, False]
    assert fake.asked == [[wanted[1].key], [wanted[2].key, wanted[3].key]]
    assert fake.limits == Limits(rounds=9)
    assert queue.get(job.id).state is State.SUCCEEDED
    assert {m.campaign for m in store.measurements()} == {"smoke", "mine"}


def test_who_works_until_idle_waits_for_others_who_measure(queue, worker, tmp_path):
    job = queue.submit_units("mine", units())
    with ThreadPoolExecutor(1) as pool:
        with alone(tmp_path / "lock"):
            assert not worker.step()
            done = pool.submit(worker.run, lambda _: False, until_idle=True)
            with pytest.raises(TimeoutError):
                done.result(0.3)
        done.result(60)
    assert queue.get(job.id).state is State.SUCCEEDED


def test_what_is_known_whole_is_not_measured(store, queue, fake, worker):
    wanted = units()
    store.add([measurement(unit=unit.key) for unit in wanted], MACHINE)
    job = queue.submit_units("mine", wanted)
    assert worker.step()
    assert fake.asked == []
    assert queue.get(job.id).state is State.SUCCEEDED


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_is_trained_in_the_end(queue, worker, monkeypatch, device):
    monkeypatch.setattr("hetune.profiling.jobs.worker.devices_here", lambda: ("cpu", "cuda"))
    problem = replace(units(1)[0].problem, device=device)
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
    job = queue.submit_units("mine", units(), retrain=True)
    worker.run(lambda _: False, until_idle=True)
    found = queue.get(job.id)
    assert (found.state, found.error, found.model) == (State.FAILED, "too few families", None)
    assert found.progress.problems_done == 1


def test_units_of_another_release_are_not_measured(queue, fake, worker):
    job = queue.submit_units("mine", [*units(), *some_units(1)])
    worker.run(lambda _: False, until_idle=True)
    assert len(fake.asked) == 1
    found = queue.get(job.id)
    assert found.state is State.FAILED
    assert "hetune has changed since" in found.error


@pytest.mark.parametrize("error", [WorkerError("no process"), RuntimeError("a bug")])
def test_what_may_pass_is_tried_again(queue, fake, worker, error):
    def fail():
        raise error

    fake.meanwhile = fail
    job = queue.submit_units("mine", units())
    assert [worker.step() for _ in range(4)] == [True, True, True, False]
    found = queue.get(job.id)
    assert found.state is State.FAILED
    assert str(error) in found.error


def test_who_is_interrupted_gives_back_what_it_has(queue, fake, worker):
    def interrupt():
        raise KeyboardInterrupt

    fake.meanwhile = interrupt
    job = queue.submit_units("mine", units())
    with pytest.raises(KeyboardInterrupt):
        worker.step()
    [unit] = queue.units(job.id)
    assert (unit.state, unit.attempt) == (State.QUEUED, 0)


def test_who_wakes_up_late_writes_nothing(store, queue, fake, worker, tmp_path):
    def sleep():
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert Leases(store, clock=lambda: tomorrow).claim("other", MACHINE.digest)

    fake.meanwhile = sleep
    job = queue.submit_units("mine", units())
    assert worker.step()
    assert list(store.measurements()) == []
    [unit] = queue.units(job.id)
    assert (unit.state, unit.owner, unit.attempt) == (State.RUNNING, "other", 2)


def test_a_cancelled_job_keeps_the_problem_that_was_at_work(store, queue, fake, worker):
    job = queue.submit_units("mine", units(2))
    fake.meanwhile = lambda: queue.cancel(job.id)
    worker.run(lambda _: False, until_idle=True)
    assert queue.get(job.id).state is State.CANCELLED
    assert len(list(store.measurements())) == 2


def test_it_says_that_it_lives(store, queue, fake, tmp_path):
    job = queue.submit_units("mine", units())
    beaten = threading.Event()

    def wait():
        first = queue.units(job.id)[0].heartbeat
        while queue.units(job.id)[0].heartbeat == first and not beaten.wait(0.01):
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
    queue.submit_units("mine", units())
    with FileLock(tmp_path / "lock"):
        assert not worker.step()
    assert fake.asked == []
    assert worker.step()


def test_a_database_that_is_away_is_waited_for(queue, worker, monkeypatch):
    job = queue.submit_units("mine", units())
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
    job = queue.submit_units("mine", units())
    with Supervisor() as supervisor:
        worker = JobWorker(Leases(store), supervisor, lock=tmp_path / "lock")
        worker.run(lambda _: False, until_idle=True)
    assert queue.get(job.id).machine == this_machine().digest
    assert queue.get(job.id).state is State.SUCCEEDED
    assert {m.status for m in store.measurements()} == {Status.OK}
