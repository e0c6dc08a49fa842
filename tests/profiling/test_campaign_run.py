"""Campaigns: what is measured, what is left out, and what is stored when."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.campaign.run import CampaignProgress, run_units
from hetune.profiling.corpus import recipe
from hetune.profiling.measure.candidate import Loss
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measure.record import GraphFacts, Stamp, record
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Measurement, Status
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.frontend.presets import labeled_preset


def problem(name: str, seed: int, d_out: int = 4) -> ProblemSpec:
    graph = recipe(name, "typed", options={"nodes": 40, "edges": 120, "seed": seed})
    return ProblemSpec(graph, labeled_preset("rgcn", 4, d_out, 1), 1)


PROBLEMS = (problem("a", 1), problem("b", 2), problem("a", 1, 8))


def keys(problems: Iterable[ProblemSpec]) -> list[str]:
    return [unit.key for problem in problems for unit in units_of(problem)]


class Shelf:
    """A store that keeps everything that it is given, in batches."""

    def __init__(self) -> None:
        self.batches: list[list[Measurement]] = []

    def done(self, machine: str) -> set[str]:
        return {m.unit for batch in self.batches for m in batch if m.machine == machine}

    def add(self, measurements: Iterable[Measurement], fingerprint: Fingerprint) -> None:
        self.batches.append(list(measurements))
        assert {m.machine for m in self.batches[-1]} == {fingerprint.digest}


class Quick(Supervisor):
    """Measures nothing; the first variant of each problem fails."""

    def __init__(self, interrupt: Callable[[Sequence[Unit]], None] = lambda units: None) -> None:
        super().__init__()
        self.asked: list[list[Unit]] = []
        self.interrupt = interrupt

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        self.interrupt(units)
        self.asked.append(list(units))
        failed = {units_of(units[0].problem)[0].variant: Loss(Status.FAILED, "no")}
        return [
            record(u, stamp, GraphFacts(), failed.get(u.variant), samples=(1.0,) * 7) for u in units
        ]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def run(store: object, problems: Iterable[ProblemSpec] = PROBLEMS, **options) -> Counter[Status]:
    units = [unit for problem in problems for unit in units_of(problem)]
    return run_units(units, "try", store, **{"supervisor": Quick(), **options})


def test_units_of_a_problem_are_measured_and_stored_together(shelf):
    quick = Quick()
    endings = run(shelf, supervisor=quick)
    each = [list(units_of(problem)) for problem in PROBLEMS]
    assert quick.asked == each
    assert [[m.unit for m in batch] for batch in shelf.batches] == [
        [unit.key for unit in units] for units in each
    ]
    total = sum(map(len, each))
    assert endings == {Status.FAILED: 3, Status.OK: total - 3}
    stamp = {(m.campaign, m.machine, m.code_version) for b in shelf.batches for m in b}
    assert stamp == {("try", this_machine().digest, code_version())}


def test_what_is_done_is_not_measured_again_whatever_came_of_it(shelf):
    run(shelf, PROBLEMS[:1])
    quick = Quick()
    endings = run(shelf, supervisor=quick)
    assert [units[0].problem for units in quick.asked] == list(PROBLEMS[1:])
    assert endings.total() == len(keys(PROBLEMS[1:]))
    assert run(shelf) == {}
    assert len(shelf.batches) == 3


def test_only_the_missing_units_of_a_problem_are_measured(shelf):
    units = list(units_of(PROBLEMS[0]))
    run_units(units[:5], "first", shelf, supervisor=Quick())
    run_units(units, "then", shelf, supervisor=Quick())
    assert [[m.campaign for m in batch] for batch in shelf.batches] == [
        ["first"] * 5,
        ["then"] * (len(units) - 5),
    ]


def test_another_machine_s_units_are_not_done_here(shelf):
    run(shelf)
    shelf.batches = [[replace(m, machine="other") for m in batch] for batch in shelf.batches]
    assert run(shelf).total() == len(keys(PROBLEMS))


def test_equal_units_are_measured_once(shelf):
    renamed = replace(PROBLEMS[0], graph=replace(PROBLEMS[0].graph, name="renamed"))
    endings = run(shelf, [PROBLEMS[0], renamed, PROBLEMS[0]])
    assert endings.total() == len(units_of(PROBLEMS[0]))
    assert len(shelf.batches) == 1


def test_units_that_come_scattered_are_measured_by_problem(shelf):
    one, two = units_of(PROBLEMS[0]), units_of(PROBLEMS[1])
    quick = Quick()
    run_units([one[0], two[0], one[1]], "try", shelf, supervisor=quick)
    assert quick.asked == [[one[0], one[1]], [two[0]]]


def test_progress_tells_how_much_is_left(shelf):
    run(shelf, PROBLEMS[:1])
    seen: list[CampaignProgress] = []
    run(shelf, progress=seen.append)
    size = len(units_of(PROBLEMS[0]))
    assert [(p.done, p.total, p.problem) for p in seen] == [
        (size, 3 * size, None),
        (2 * size, 3 * size, PROBLEMS[1]),
        (3 * size, 3 * size, PROBLEMS[2]),
    ]
    assert seen[0].seconds_left is None
    assert seen[1].seconds_left > 0
    assert seen[2].seconds_left == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_campaign_goes_on_where_it_stopped(error, tmp_path):
    def interrupt(units: Sequence[Unit]) -> None:
        if units[0].problem == PROBLEMS[1]:
            raise error

    with Store.open(tmp_path / "store.db") as store:
        with pytest.raises(error):
            run(store, supervisor=Quick(interrupt))
        assert store.done(this_machine().digest) == set(keys(PROBLEMS[:1]))
        endings = run(store)
        assert endings.total() == len(keys(PROBLEMS[1:]))
        assert sorted(m.unit for m in store.measurements()) == sorted(keys(PROBLEMS))


def test_nothing_to_do(shelf):
    endings = run(shelf, [])
    assert (endings, shelf.batches) == ({}, [])


def test_campaigns_measure_one_at_a_time(tmp_path):
    busy, most = threading.Semaphore(1), []

    def measure(units):
        most.append(busy.acquire(blocking=False))
        time.sleep(0.02)
        busy.release()

    def run(name):
        units = [unit for problem in PROBLEMS for unit in units_of(problem)]
        return run_units(units, name, Shelf(), supervisor=Quick(measure), lock=tmp_path / "lock")

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, ("one", "two")))
    assert all(most)
    assert len(most) == 2 * len(PROBLEMS)
    assert all(each.total() == len(keys(PROBLEMS)) for each in found)


def test_what_another_campaign_has_measured_meanwhile_is_left_out(shelf, tmp_path):
    others = units_of(PROBLEMS[1])

    def measure(units: Sequence[Unit]) -> None:
        if units[0].problem == PROBLEMS[0]:
            run_units(others, "other", shelf, supervisor=Quick(), lock=tmp_path / "other lock")

    seen: list[CampaignProgress] = []
    quick = Quick(measure)
    endings = run(shelf, supervisor=quick, lock=tmp_path / "lock", progress=seen.append)
    assert [units[0].problem for units in quick.asked] == [PROBLEMS[0], PROBLEMS[2]]
    assert sorted(m.unit for batch in shelf.batches for m in batch) == sorted(keys(PROBLEMS))
    assert endings.total() == len(keys(PROBLEMS)) - len(others)
    assert (seen[-1].done, seen[-1].seconds_left) == (len(keys(PROBLEMS)), 0)


def test_what_others_have_measured_is_not_left(shelf, tmp_path):
    def measure(units: Sequence[Unit]) -> None:
        if units[0].problem == PROBLEMS[0]:
            others = units_of(PROBLEMS[2])
            run_units(others, "other", shelf, supervisor=Quick(), lock=tmp_path / "other lock")

    seen: list[CampaignProgress] = []
    run(shelf, supervisor=Quick(measure), lock=tmp_path / "lock", progress=seen.append)
    size = len(units_of(PROBLEMS[0]))
    assert [now.done for now in seen] == [0, size, 3 * size, 3 * size]
    assert seen[2].seconds_left == 0


def test_campaigns_of_the_same_units_measure_each_once(tmp_path):
    with Store.open(tmp_path / "store.db") as store, ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: run(store, lock=tmp_path / "lock"), range(2)))
        assert sorted(m.unit for m in store.measurements()) == sorted(keys(PROBLEMS))
    assert sum(each.total() for each in found) == len(keys(PROBLEMS))
