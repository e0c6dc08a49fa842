"""What queues of jobs promise, whatever the database: subclass it, and give it a fixture `url`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from tests.profiling._forked import run
from tests.profiling._made_up import (
    MACHINE,
    OTHER_MACHINE,
    measured,
    measurement,
    some_units,
    tasks_of_job,
)

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import Job, Lease, MeasureTask, State, Trains, TrainTask
from hetune.profiling.jobs.results import results
from hetune.profiling.measure.limits import Limits
from hetune.profiling.records import Status
from hetune.profiling.store.store import AddedCounts, Store
from hetune.variants.errors import (
    CampaignError,
    ConflictError,
    InputError,
    LeaseError,
    NotFoundError,
    StoreError,
)

_WORKERS = 4
_KILLS = 8
_START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


class Bench:
    """A queue and its leases in one store, by a clock that stands still.

    Attributes:
        now: What the clock shows.
    """

    def __init__(self, store: Store) -> None:
        self.now = _START
        self.store = store
        self.queue = JobQueue(store, clock=lambda: self.now)
        self.leases = Leases(store, seconds=60, attempts=3, clock=lambda: self.now)

    def submit(self, problems: int = 2, **options: Any) -> Job:
        """A job of so many problems with two variants each."""
        return self.queue.submit_units("mine", some_units(problems), **options)

    def wait(self, seconds: float) -> None:
        """Sets the clock forward."""
        self.now += timedelta(seconds=seconds)

    def claim(self, owner: str = "a") -> Lease:
        """A lease, which there must be."""
        found = self.leases.claim(owner, MACHINE.digest)
        assert found is not None
        return found

    def complete(self, lease: Lease) -> AddedCounts:
        """What a good worker does in the end."""
        return self.leases.complete(lease, measured(lease), MACHINE)

    def state(self, job: Job) -> State:
        """Where a job is now."""
        return self.queue.get(job.id).state

    def states(self, job: Job) -> list[State]:
        """Where its units are, that of a training last."""
        measured = [result.state for result in results(self.store, job.id)]
        return measured + [
            State(unit.state) for unit in tasks_of_job(self.queue, job.id) if unit.is_training
        ]

    def log(self, job: Job) -> list[str]:
        """What happened to it."""
        return [line.text for line in self.queue.log(job.id)]


class JobsConformance:
    """What queues of jobs do, whichever database they are in."""

    @contextmanager
    def open(self, url: str) -> Iterator[Bench]:
        """A bench over a database."""
        with Store.open(url) as store:
            yield Bench(store)

    def test_a_job_from_beginning_to_end(self, url: str) -> None:
        """States, progress, times and the log."""
        with self.open(url) as bench:
            job = bench.submit(2, limits=Limits(rounds=9))
            assert (job.state, job.machine, job.started, job.finished) == (
                State.QUEUED,
                None,
                None,
                None,
            )
            assert (job.progress.problems, job.progress.variants) == (2, 4)
            bench.wait(1)
            first = bench.claim()
            assert (first.token, first.attempt, first.campaign) == (1, 1, "mine")
            assert first.work == MeasureTask(some_units(1), Limits(rounds=9))
            assert bench.complete(first) == AddedCounts(2, 0)
            found = bench.queue.get(job.id)
            assert (found.state, found.machine) == (State.RUNNING, MACHINE.digest)
            assert (found.progress.problems_done, found.progress.variants_done) == (1, 2)
            second = bench.claim("b")
            assert second.work == MeasureTask(some_units(2)[2:], Limits(rounds=9))
            assert bench.states(job) == [State.SUCCEEDED, State.RUNNING]
            bench.wait(1)
            bench.complete(second)
            assert bench.leases.claim("a", MACHINE.digest) is None
            found = bench.queue.get(job.id)
            assert (found.state, found.error) == (State.SUCCEEDED, "")
            assert (found.created, found.started, found.finished) == (
                _START,
                _START + timedelta(seconds=1),
                _START + timedelta(seconds=2),
            )
            assert bench.store.done(MACHINE.digest) == {unit.key for unit in some_units(2)}
            assert bench.log(job) == [
                "submitted: 4 variants of 2 problems",
                f"task {first.task} leased to a, attempt 1",
                f"task {first.task} measured: 2 ok",
                f"task {second.task} leased to b, attempt 1",
                f"task {second.task} measured: 2 ok",
                "succeeded",
            ]
            lines = bench.queue.log(job.id)
            assert bench.queue.log(job.id, after=lines[3].number) == lines[4:]
            assert bench.queue.log(job.id, limit=2) == lines[:2]
            assert bench.queue.log_end(job.id, limit=2) == (lines[-2:], 4)
            assert bench.queue.log_end(job.id) == (lines, 0)
            [unit, _] = tasks_of_job(bench.queue, job.id)
            assert unit.endings == {"ok": 2}

    def test_jobs_wait_in_line(self, url: str) -> None:
        """The oldest comes first; the list begins with the latest."""
        with self.open(url) as bench:
            jobs = [bench.submit(1) for _ in range(3)]
            assert [bench.claim().job for _ in range(2)] == [jobs[0].id, jobs[1].id]
            numbers = [job.id for job in bench.queue.list()]
            assert numbers == [job.id for job in reversed(jobs)]
            assert [job.id for job in bench.queue.list(limit=1)] == numbers[:1]
            assert [job.id for job in bench.queue.list(before=numbers[0])] == numbers[1:]
            assert [job.id for job in bench.queue.list(state=State.QUEUED)] == numbers[:1]

    def test_units_for_gpus_are_lent_to_who_has_one(self, url: str) -> None:
        """Other workers find nothing, or what there is for CPUs."""
        with self.open(url) as bench:
            units = [
                replace(unit, problem=replace(unit.problem, device="cuda"))
                for unit in some_units(1)
            ]
            job = bench.queue.submit_units("mine", units)
            assert bench.leases.claim("a", MACHINE.digest) is None
            assert bench.queue.get(job.id).machine is None
            other = bench.submit(1)
            assert bench.claim().job == other.id
            lease = bench.leases.claim("b", MACHINE.digest, devices=("cpu", "cuda"))
            assert lease is not None
            assert (lease.job, lease.work) == (job.id, MeasureTask(tuple(units), Limits()))
            [shown] = tasks_of_job(bench.queue, job.id)
            assert shown.problem["device"] == "cuda"
            bench.complete(lease)
            assert bench.state(job) is State.SUCCEEDED
            with pytest.raises(CampaignError, match="a cost model is for one"):
                bench.queue.submit_units("mine", [*units, *some_units(1)], retrain=True)

    def test_a_job_is_measured_on_one_kind_of_machine(self, url: str) -> None:
        """The one that it names, or else that of the first worker."""
        with self.open(url) as bench:
            bench.submit(2)
            other = bench.submit(1, machine=OTHER_MACHINE.digest)
            bench.claim()
            found = bench.leases.claim("b", OTHER_MACHINE.digest)
            assert found is not None
            assert found.job == other.id
            assert bench.leases.claim("b", OTHER_MACHINE.digest) is None
            bench.claim()

    def test_leases_end_with_silence(self, url: str) -> None:
        """Heartbeats prolong them; whoever was silent has lost its unit to the next one."""
        with self.open(url) as bench:
            job = bench.submit(1)
            slow = bench.claim("slow")
            bench.wait(59)
            assert bench.leases.heartbeat(slow)
            bench.wait(59)
            assert bench.leases.claim("fast", MACHINE.digest) is None
            bench.wait(1)
            fast = bench.claim("fast")
            assert (fast.task, fast.token, fast.attempt) == (slow.task, slow.token + 1, 2)
            self._writes_nothing(bench, slow)
            assert bench.complete(fast) == AddedCounts(2, 0)
            self._writes_nothing(bench, slow)
            assert f"task {slow.task}: slow was silent for too long" in bench.log(job)
            assert len(bench.store.done(MACHINE.digest)) == 2

    def test_who_was_silent_may_come_back_before_another_one(self, url: str) -> None:
        """What was measured counts, as long as nobody else has the unit."""
        with self.open(url) as bench:
            job = bench.submit(1)
            lease = bench.claim()
            bench.wait(3600)
            assert bench.leases.heartbeat(lease)
            assert bench.leases.claim("b", MACHINE.digest) is None
            bench.wait(3600)
            assert bench.complete(lease) == AddedCounts(2, 0)
            assert bench.states(job) == [State.SUCCEEDED]

    def test_the_database_s_clock_counts(self, url: str) -> None:
        """Unless another one is given."""
        with Store.open(url) as store:
            job = JobQueue(store).submit_units("mine", some_units(1))
            assert abs(job.created - datetime.now(UTC)) < timedelta(hours=1)
            at_once, later = (Leases(store, seconds=seconds) for seconds in (0, 3600))
            stale = at_once.claim("a", MACHINE.digest)
            held = later.claim("b", MACHINE.digest)
            assert stale is not None
            assert held is not None
            assert at_once.claim("c", MACHINE.digest) is None
            with pytest.raises(LeaseError):
                at_once.heartbeat(stale)
            assert later.heartbeat(held)

    def test_completing_twice_is_once(self, url: str) -> None:
        """A worker that heard no answer asks again."""
        with self.open(url) as bench:
            job = bench.submit(1)
            lease = bench.claim()
            bench.complete(lease)
            bench.wait(100)
            assert bench.complete(lease) == AddedCounts(0, 2)
            assert bench.log(job)[-1] == "succeeded"
            assert len(bench.log(job)) == 4
            assert len(list(bench.store.measurements())) == 2
            for call in (bench.leases.heartbeat, bench.leases.release):
                with pytest.raises(LeaseError):
                    call(lease)

    def test_what_was_known_need_not_be_measured(self, url: str) -> None:
        """All must be known in the end, or nothing is done."""
        with self.open(url) as bench:
            job = bench.submit(1)
            lease = bench.claim()
            one, two = measured(lease)
            with pytest.raises(InputError, match="1 of 2 variants were not measured"):
                bench.leases.complete(lease, [one], MACHINE)
            assert bench.store.done(MACHINE.digest) == set()
            bench.store.add([two], MACHINE)
            assert bench.leases.complete(lease, [one], MACHINE) == AddedCounts(1, 0)
            assert bench.log(job)[-2] == f"task {lease.task} measured: 1 ok, 1 known before"
            assert bench.state(job) == State.SUCCEEDED

    def test_bad_measurements_leave_the_lease(self, url: str) -> None:
        """Those of other units or machines, and those that contradict themselves."""
        with self.open(url) as bench:
            bench.submit(1)
            lease = bench.claim()
            good = measured(lease)
            with pytest.raises(InputError, match="other units"):
                bench.leases.complete(lease, [*good, measurement(7)], MACHINE)
            with pytest.raises(InputError, match="on this machine"):
                bench.leases.complete(lease, good, OTHER_MACHINE)
            with pytest.raises((StoreError, InputError), match="0 samples"):
                bench.leases.complete(lease, measured(lease, samples=()), MACHINE)
            with pytest.raises(InputError, match="not one to train"):
                bench.leases.complete_training(lease, "m")
            assert bench.store.done(MACHINE.digest) == set()
            assert bench.complete(lease) == AddedCounts(2, 0)

    def test_units_that_fail_are_lent_again(self, url: str) -> None:
        """So often; the others are measured all the same, and the job has failed."""
        with self.open(url) as bench:
            job = bench.submit(2, retrain=True)
            task = 0
            for attempt in (1, 2, 3):
                lease = bench.claim()
                assert (lease.attempt, lease.token) == (attempt, attempt)
                task = lease.task
                bench.leases.fail(lease, f"bad luck {attempt}\0")
                self._writes_nothing(bench, lease)
            assert bench.states(job) == [State.FAILED, State.QUEUED, State.QUEUED]
            assert bench.state(job) is State.RUNNING
            bench.complete(bench.claim())
            assert bench.leases.claim("a", MACHINE.digest) is None  # nothing is trained then
            found = bench.queue.get(job.id)
            assert (found.state, found.error) == (State.FAILED, "bad luck 3\ufffd")
            assert found.progress.problems_failed == 1
            ended = [State.FAILED, State.SUCCEEDED, State.QUEUED]  # the training never began
            assert bench.states(job) == ended
            assert f"task {task} given up: bad luck 3\ufffd" in bench.log(job)

    def test_what_cannot_succeed_is_given_up_at_once(self, url: str) -> None:
        """Where the worker knows."""
        with self.open(url) as bench:
            job = bench.submit(1)
            bench.leases.fail(bench.claim(), "there is no such variant", final=True)
            assert bench.state(job) is State.FAILED

    def test_workers_that_die_again_and_again(self, url: str) -> None:
        """A task that takes its workers down is given up; the next one is taken."""
        with self.open(url) as bench:
            job = bench.submit(2)
            tasks = []
            for _ in range(4):
                tasks.append(bench.claim().task)
                bench.wait(60)
            assert tasks == [tasks[0]] * 3 + [tasks[3]]
            assert tasks[3] != tasks[0]
            assert bench.states(job) == [State.FAILED, State.RUNNING]
            bench.complete(bench.claim())
            found = bench.queue.get(job.id)
            assert found.state is State.FAILED
            assert "silent for too long, 3 times" in found.error

    def test_giving_back_is_no_attempt(self, url: str) -> None:
        """A worker that is told to stop."""
        with self.open(url) as bench:
            bench.submit(1)
            for token in range(1, 6):
                lease = bench.claim()
                assert (lease.attempt, lease.token) == (1, token)
                bench.leases.release(lease)
                self._writes_nothing(bench, lease)

    def test_what_is_known_is_said(self, url: str) -> None:
        """With the lease: it need not be measured."""
        with self.open(url) as bench:
            bench.submit(1)
            one, two = some_units(1)
            bench.store.add([measurement(unit=two.key)], MACHINE)
            lease = bench.claim()
            assert lease.work == MeasureTask((one, two), Limits(), frozenset({two.key}))

    def test_cancelling_what_nobody_works_on(self, url: str) -> None:
        """At once, and only once."""
        with self.open(url) as bench:
            job = bench.submit(2)
            assert bench.queue.cancel(job.id).state is State.CANCELLED
            found = bench.queue.cancel(job.id)
            assert (found.finished, found.cancel_requested) == (_START, True)
            assert bench.states(job) == [State.CANCELLED, State.CANCELLED]
            assert bench.leases.claim("a", MACHINE.digest) is None
            done = bench.submit(1)
            bench.complete(bench.claim())
            assert bench.queue.cancel(done.id).state is State.SUCCEEDED

    @pytest.mark.parametrize("how", ["release", "complete", "fail", "silence"])
    def test_cancelling_what_is_being_measured(self, url: str, how: str) -> None:
        """The worker is told with its next heartbeat; however it ends, the job ends then."""
        with self.open(url) as bench:
            job = bench.submit(2)
            lease = bench.claim()
            found = bench.queue.cancel(job.id)
            assert (found.state, found.cancel_requested) == (State.RUNNING, True)
            assert not bench.leases.heartbeat(lease)
            assert bench.leases.claim("b", MACHINE.digest) is None
            match how:
                case "release":
                    bench.leases.release(lease)
                case "complete":
                    bench.complete(lease)
                case "fail":
                    bench.leases.fail(lease, "bad luck")
                case _:
                    bench.wait(60)
                    assert bench.leases.claim("b", MACHINE.digest) is None
            assert bench.state(job) is State.CANCELLED
            assert len(bench.store.done(MACHINE.digest)) == (2 if how == "complete" else 0)
            self._writes_nothing(bench, lease, completed=how == "complete")

    def test_workers_that_race(self, url: str) -> None:
        """Each unit goes to one of them, and is measured once."""
        with Store.open(url) as store:
            job = JobQueue(store).submit_units("mine", some_units(12), retrain=True)
        barrier = Barrier(_WORKERS)

        def work(number: int, leases: Leases) -> list[int]:
            mine = []
            barrier.wait()
            while lease := leases.claim(f"w{number}", MACHINE.digest):
                mine.append(lease.task)
                if isinstance(lease.work, TrainTask):
                    leases.complete_training(lease, "m")
                else:
                    assert leases.complete(lease, measured(lease), MACHINE) == AddedCounts(2, 0)
            return mine

        with ExitStack() as stack:
            stores = [stack.enter_context(Store.open(url)) for _ in range(_WORKERS)]
            workers = [Leases(store, seconds=3600) for store in stores]
            with ThreadPoolExecutor(_WORKERS) as pool:
                ids = [unit for mine in pool.map(work, range(_WORKERS), workers) for unit in mine]
        with Store.open(url) as store:
            # Training is free once all others have ended: the last of them looks again.
            assert sorted(ids) == sorted(unit.id for unit in tasks_of_job(JobQueue(store), job.id))
            assert JobQueue(store).get(job.id).state is State.SUCCEEDED
            assert len(list(store.measurements())) == 24

    def test_a_race_for_a_lost_unit(self, url: str) -> None:
        """One of many gets it, or the one that wakes up completes it late; never both."""
        with self.open(url) as bench:
            for _ in range(2):
                job = bench.submit(1)
                lost = bench.claim("lost")
                bench.wait(60)
                barrier = Barrier(_WORKERS)

                def claim(number: int, lost: Lease = lost, barrier: Barrier = barrier) -> object:
                    barrier.wait()
                    if number == 0:
                        with suppress(LeaseError):
                            return bench.complete(lost)
                        return None
                    return bench.leases.claim(f"w{number}", MACHINE.digest)

                with ThreadPoolExecutor(_WORKERS) as pool:
                    found = [one for one in pool.map(claim, range(_WORKERS)) if one]
                # The late one may hold the row just then; then nobody gets it for now.
                [one] = found or [bench.claim()]
                if isinstance(one, Lease):
                    self._writes_nothing(bench, lost)
                    bench.complete(one)
                assert bench.state(job) is State.SUCCEEDED

    def test_cancelling_in_a_race(self, url: str) -> None:
        """Whoever comes first: nobody waits for ever, and the job ends cancelled or measured."""
        with Store.open(url) as store:
            queue, leases = JobQueue(store), Leases(store, seconds=3600)
            jobs = [queue.submit_units("mine", some_units(2, start=2 * n)) for n in range(6)]

            def cancel() -> None:
                for job in jobs:
                    queue.cancel(job.id)

            def work(owner: str) -> None:
                while lease := leases.claim(owner, MACHINE.digest):
                    if leases.heartbeat(lease):
                        leases.complete(lease, measured(lease), MACHINE)
                    else:
                        leases.release(lease)

            with ThreadPoolExecutor(3) as pool:
                calls: list[Callable[[], None]] = [cancel, lambda: work("a"), lambda: work("b")]
                for future in [pool.submit(call) for call in calls]:
                    future.result()
            work("c")
            ended = [queue.get(job.id) for job in jobs]
            assert {job.state for job in ended} <= {State.CANCELLED, State.SUCCEEDED}
            done = sum(job.progress.variants_done for job in ended)
            assert len(list(store.measurements())) == done

    def test_a_lost_unit_is_a_result(self, url: str) -> None:
        """Variants that are too slow, or crash, are records, and count as measured."""
        with self.open(url) as bench:
            job = bench.submit(1)
            lease = bench.claim()
            one, two = measured(lease, status=Status.TIMEOUT)[0], measured(lease)[1]
            bench.leases.complete(lease, [one, two], MACHINE)
            assert bench.state(job) is State.SUCCEEDED
            assert tasks_of_job(bench.queue, job.id)[0].endings == {"ok": 1, "timeout": 1}

    def _writes_nothing(self, bench: Bench, lease: Lease, *, completed: bool = False) -> None:
        before = list(bench.store.measurements())
        calls: list[Callable[[], object]] = [
            lambda: bench.leases.heartbeat(lease),
            lambda: bench.leases.fail(lease, "late"),
            lambda: bench.leases.release(lease),
        ]
        if not completed:
            calls.append(lambda: bench.complete(lease))
        units, log = tasks_of_job(bench.queue, lease.job), bench.queue.log(lease.job)
        for call in calls:
            with pytest.raises(
                LeaseError, match=f"the lease of {lease.owner} on task {lease.task}"
            ):
                call()
        assert list(bench.store.measurements()) == before
        assert (tasks_of_job(bench.queue, lease.job), bench.queue.log(lease.job)) == (units, log)

    def test_a_job_that_is_not_there(self, url: str) -> None:
        """Whatever its number."""
        with self.open(url) as bench:
            queue = bench.queue
            calls = (queue.get, queue.log, queue.log_end, queue.cancel)
            for id in (0, -1, 7, 2**63, 2**80):
                for call in calls:
                    with pytest.raises(NotFoundError, match=f"there is no profiling job {id}"):
                        call(id)

    def test_submitting_again_under_a_key(self, url: str) -> None:
        """The same gives the same job; something else is a conflict."""
        with self.open(url) as bench:
            job = bench.submit(2, idempotency_key="k")
            bench.complete(bench.claim())
            assert bench.submit(2, idempotency_key="k") == bench.queue.get(job.id)
            changes: Sequence[dict[str, Any]] = (
                {"problems": 3},
                {"retrain": True},
                {"machine": "x"},
                {"limits": Limits(rounds=8)},
            )
            for change in changes:
                with pytest.raises(ConflictError, match=f"job {job.id} was submitted"):
                    bench.submit(**{"problems": 2, "idempotency_key": "k", **change})
            assert bench.submit(2).id != job.id
            assert len(bench.queue.list()) == 2

    def test_what_is_no_key(self, url: str) -> None:
        """Keys are short words."""
        with self.open(url) as bench:
            for key in ("", "a b", "k" * 201, "\u00e4", "\0"):
                with pytest.raises(CampaignError, match="idempotency key"):
                    bench.submit(1, idempotency_key=key)

    def test_nothing_to_measure_is_no_job(self, url: str) -> None:
        """It would never end."""
        with self.open(url) as bench:
            with pytest.raises(CampaignError, match="nothing to measure"):
                bench.submit(0)
            assert bench.queue.list() == ()

    @pytest.mark.parametrize("text", ["zero\0", "half\ud800"])
    @pytest.mark.parametrize("place", ["name", "family", "options"])
    def test_texts_that_databases_refuse(self, url: str, place: str, text: str) -> None:
        """A row that cannot be read keeps PostgreSQL from lending any other."""
        with self.open(url) as bench:
            value = (("path", text),) if place == "options" else text
            [unit] = some_units(1, variants=1)
            graph = replace(unit.problem.graph, **{place: value})
            unit = replace(unit, problem=replace(unit.problem, graph=graph))
            with pytest.raises(CampaignError, match="leave out zeros and halves of characters"):
                bench.queue.submit_units("mine", [unit])
            with pytest.raises(CampaignError, match="machine has a text that databases refuse"):
                bench.submit(1, machine=text)
            assert bench.queue.list() == ()
            bench.submit(1)
            bench.claim()

    def test_training_comes_last(self, url: str) -> None:
        """When all is measured; its model is the job's."""
        with self.open(url) as bench:
            job = bench.submit(2, retrain=True)
            first, second = bench.claim(), bench.claim()
            bench.complete(first)
            assert bench.leases.claim("a", MACHINE.digest) is None
            bench.complete(second)
            assert bench.state(job) is State.RUNNING
            lease = bench.claim()
            assert lease.work == TrainTask()
            with pytest.raises(InputError, match="not one to measure"):
                bench.leases.complete(lease, [], MACHINE)
            for _ in range(2):
                bench.leases.complete_training(lease, "20260102-0123456789ab")
            found = bench.queue.get(job.id)
            assert (found.state, found.model) == (State.SUCCEEDED, "20260102-0123456789ab")
            assert found.progress.problems == 2
            assert bench.log(job)[-2:] == ["trained: 20260102-0123456789ab", "succeeded"]

    def test_a_model_is_for_the_device_that_was_measured(self, url: str) -> None:
        """Whoever trains it needs no GPU."""
        with self.open(url) as bench:
            units = [
                replace(unit, problem=replace(unit.problem, device="cuda"))
                for unit in some_units(1)
            ]
            bench.queue.submit_units("mine", units, retrain=True)
            lease = bench.leases.claim("a", MACHINE.digest, devices=("cuda",))
            assert lease is not None
            bench.complete(lease)
            assert bench.claim().work == TrainTask("cuda")

    def test_who_trains(self, url: str) -> None:
        """Workers on the machine that was measured, or all, or none."""
        with self.open(url) as bench:
            job = bench.submit(1, retrain=True)
            trainer = Leases(bench.store, trains=Trains.ONLY, clock=lambda: bench.now)
            assert trainer.claim("c", MACHINE.digest) is None
            bench.complete(bench.claim())
            none, own, every, only = (
                Leases(bench.store, trains=trains, clock=lambda: bench.now) for trains in Trains
            )
            assert none.claim("a", MACHINE.digest) is None
            assert own.claim("b", OTHER_MACHINE.digest) is None
            for leases, machine in ((every, OTHER_MACHINE), (only, OTHER_MACHINE), (own, MACHINE)):
                bench.wait(60)
                assert none.claim("a", MACHINE.digest) is None
                lease = leases.claim("c", machine.digest)
                assert lease is not None
                assert (lease.work, lease.machine) == (TrainTask(), MACHINE.digest)
                assert leases.heartbeat(lease)
            own.complete_training(lease, "m")
            found = bench.queue.get(job.id)
            assert (found.state, found.machine, found.model) == (
                State.SUCCEEDED,
                MACHINE.digest,
                "m",
            )

    @pytest.mark.parametrize("trains", list(Trains))
    def test_a_cancelled_job_does_not_wait_for_its_machine(self, url: str, trains: Trains) -> None:
        """Whoever asks for work ends what a worker had leased that is silent by now."""
        with self.open(url) as bench:
            job, kept = bench.submit(1), bench.submit(1)
            bench.claim("gone"), bench.claim("gone")
            bench.queue.cancel(job.id)
            leases = Leases(bench.store, trains=trains, clock=lambda: bench.now)
            assert leases.claim("b", OTHER_MACHINE.digest) is None
            assert bench.state(job) is State.RUNNING
            bench.wait(60)
            assert leases.claim("b", OTHER_MACHINE.digest) is None
            assert (bench.state(job), bench.states(job)) == (State.CANCELLED, [State.CANCELLED])
            assert bench.states(kept) == [State.RUNNING]

    def test_many_submit_under_one_key(self, url: str) -> None:
        """One of them makes the job, and all of them the tables."""
        barrier = Barrier(_WORKERS)

        def submit(_: int) -> int:
            with Store.open(url) as store:
                barrier.wait()
                queue = JobQueue(store)
                return queue.submit_units("mine", some_units(3), idempotency_key="k").id

        with ThreadPoolExecutor(_WORKERS) as pool:
            assert len({*pool.map(submit, range(_WORKERS))}) == 1

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_killed_between_measurement_and_done(self, url: str, when: str) -> None:
        """SIGKILL just before or after the commit: both are there or neither, and work goes on."""
        with self.open(url) as bench:
            job = bench.submit(1)
            done = run("killed_jobs", "complete", url, when)
            assert done.returncode == -9, done.stderr
            is_done = when == "after"
            assert len(list(bench.store.measurements())) == (2 if is_done else 0)
            assert bench.states(job) == [State.SUCCEEDED if is_done else State.RUNNING]
            bench.now = datetime.now(UTC) + timedelta(days=1)
            if not is_done:
                assert bench.complete(bench.claim()) == AddedCounts(2, 0)
            assert bench.state(job) is State.SUCCEEDED

    def test_killed_workers(self, url: str) -> None:
        """SIGKILL at random points: all is measured in the end, and nothing twice."""
        done = run("killed_jobs", "loop", url, str(_KILLS))
        assert done.returncode == 0, done.stderr
        assert f"{_KILLS} workers killed" in done.stdout, done.stdout

    def test_a_worker_that_wakes_up_too_late(self, url: str) -> None:
        """SIGSTOP, and SIGCONT when another one has done its work: its own does not count."""
        done = run("killed_jobs", "sleep", url)
        assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
