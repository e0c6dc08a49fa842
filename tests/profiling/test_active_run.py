"""A campaign of which some units are measured: as many as asked for, and none twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.features.devices import default_rates, roofline_of
from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.active import planner
from hetune.profiling.active import run as module
from hetune.profiling.active.launch_sums import LaunchSums
from hetune.profiling.active.planner import Planner
from hetune.profiling.active.run import run_active
from hetune.profiling.campaign.run import CampaignProgress, run_units
from hetune.profiling.corpus import build, recipe
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import graph_facts, promoted_for, units_of
from hetune.profiling.measure.record import Stamp, record
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import LaunchRecord, Measurement
from hetune.profiling.store.problems import problems
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import CampaignError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.roofline import MachineModel
from hetune.variants.runtime.table import CandidateTable

from ._launch_sums import of_measured

LIMITS = Limits(most_rounds=7)
MACHINE = MachineModel()


def specs() -> list[ProblemSpec]:
    found = []
    for seed in range(3):
        graph = recipe(f"g{seed}", "typed", options={"nodes": 30, "edges": 90, "seed": seed})
        found += [ProblemSpec(graph, labeled_preset("rgcn", 4, d_out, 1), 1) for d_out in (4, 8)]
    return found


def units() -> list[Unit]:
    return [unit for spec in specs() for unit in units_of(spec)[:6]]


@pytest.fixture(scope="module")
def supervisor():
    """One process measures in all tests: starting it takes the most time."""
    with Supervisor(LIMITS) as shared:
        yield shared


@pytest.fixture(autouse=True)
def quick(monkeypatch, supervisor):
    """Small batches, and a process that is there already."""
    monkeypatch.setattr(planner, "_FIRST", 8)
    monkeypatch.setattr(module, "Supervisor", lambda limits, seed: nullcontext(supervisor))


def kernel_units(name: str) -> tuple[Unit, ...]:
    return units_of(replace(specs()[0], program=labeled_preset(name, 4, 4)))


def done(store: Store) -> set[str]:
    return set(store.done(this_machine().digest))


def run(store: Store, most: int, **options) -> int:
    return run_active(units(), "try", store, most, **options)


def test_as_many_units_are_measured_as_asked_for(store):
    seen: list[CampaignProgress] = []
    assert run(store, 20, progress=seen.append) == 20
    assert len(done(store)) == 20
    assert done(store) <= {unit.key for unit in units()}
    assert seen[0] == CampaignProgress(0, 20, None, None)
    counts = [now.done for now in seen]
    assert counts == sorted(set(counts))
    assert {now.total for now in seen} == {20}
    assert (seen[-1].done, seen[-1].seconds_left) == (20, 0)


def test_what_was_measured_before_counts(store):
    first = run(store, 10)
    known = done(store)
    assert (first, run(store, 10), run(store, 3)) == (10, 0, 0)
    assert run(store, 14) == 4
    assert known < done(store)
    assert run(store, 1000) == len(units()) - 14
    assert done(store) == {unit.key for unit in units()}


def test_nobody_measures_while_units_are_chosen(store, monkeypatch):
    free, following = [], Planner.next

    def watched(*args):
        with measuring_lock(wait=False) as is_free:
            free.append(is_free)
        return following(*args)

    monkeypatch.setattr(Planner, "next", watched)
    run(store, 10)
    assert free == [False] * len(free) != []


def test_what_others_measure_meanwhile_counts(store, supervisor):
    seen: list[CampaignProgress] = []

    def measure_all(now: CampaignProgress) -> None:
        seen.append(now)
        if now.problem is not None and len(done(store)) < len(units()):
            run_units(units(), "other", store, supervisor=supervisor)

    most = len(units()) - 1
    assert 0 < run(store, most, progress=measure_all) < most
    assert (seen[-1].done, seen[-1].seconds_left) == (most, 0)
    assert done(store) == {unit.key for unit in units()}


def test_an_interrupt_loses_at_most_a_problem(store):
    def interrupt(now: CampaignProgress) -> None:
        if now.done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, 20, progress=interrupt)
    before = len(done(store))
    assert 8 < before < 20
    assert run(store, 20) == 20 - before


class Foretold:
    """Measures without a GPU: times are what the roofline model of the device says."""

    limits = LIMITS
    restarts = 0

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        problem = units[0].problem
        graph, promoted = build(problem.graph), promoted_for(problem)
        table = CandidateTable.of(promoted)
        columns = table.columns(Domain(graph))
        seconds = roofline_of(columns, default_rates(problem.device), problem.threads)
        rows_of = {
            v.id: rows for v, rows in zip(promoted, table.rows_on(Domain(graph)), strict=True)
        }
        found = []
        for unit in units:
            launches = tuple(
                LaunchRecord("k", table.families[row], tuple(columns[row]), (seconds[row],) * 7)
                for row in rows_of[unit.variant]
            )
            total = sum(launch.samples[0] for launch in launches)
            facts, samples = graph_facts(graph), (total,) * 7
            found.append(record(unit, stamp, facts, samples=samples, launches=launches))
        return found


def test_units_for_gpus_are_chosen_by_models_of_gpus(store, monkeypatch):
    monkeypatch.setattr(module, "Supervisor", lambda limits, seed: nullcontext(Foretold()))
    wanted = [unit for spec in specs() for unit in units_of(replace(spec, device="cuda"))]
    assert run(store, 6) == 6  # those for CPUs teach nothing
    assert run_active(wanted, "try", store, 40) == 40
    assert len(done(store) & {unit.key for unit in wanted}) == 40
    assert sum(len(p.candidates) for p in problems(store, device="cuda")) == 40
    with pytest.raises(CampaignError, match="units for cpu, cuda: choose among those for one"):
        run_active([*wanted, *units()], "try", store, 50)


def test_a_problem_of_a_gpu_looks_the_same_before_and_after_it_is_measured(store):
    spec = replace(specs()[0], device="cuda")
    run_units(units_of(spec), "all", store, supervisor=Foretold())
    before = LaunchSums.of(spec, build(spec.graph), GpuModel())
    [problem] = problems(store, device="cuda")
    after = of_measured(problem, GpuModel())
    order = [unit.variant for unit in units_of(spec)]
    places = [order.index(candidate.variant) for candidate in problem.candidates]
    np.testing.assert_allclose(
        before.totals(before.roofline, 1e-6)[places], after.totals(after.roofline, 1e-6)
    )


def test_other_campaigns_teach_models_but_do_not_count(store, supervisor):
    other = [
        replace(spec, program=labeled_preset("rgcn", 8, spec.program.d_out)) for spec in specs()
    ]
    wanted = [unit for spec in other for unit in units_of(spec)[:2]]
    run_units(wanted, "other", store, supervisor=supervisor)
    assert run(store, 4) == 4
    names = Counter(measurement.campaign for measurement in store.measurements())
    assert names == {"other": 12, "try": 4}


@pytest.mark.parametrize(("kernel", "taught"), [("rgcn", {"rgcn"}), ("linear", {"linear", "rgcn"})])
def test_single_kernels_teach_campaigns_that_have_them(
    kernel, taught, store, supervisor, monkeypatch
):
    seen: list[set[str]] = []
    choose = Planner.next

    def next_units(planner, measured, known, left, count):
        seen.append({problem.program.label for problem in measured})
        return choose(planner, measured, known, left, count)

    known = [unit for name in ("rgcn", "linear") for unit in kernel_units(name)[:1]]
    run_units(known, "before", store, supervisor=supervisor)
    monkeypatch.setattr(Planner, "next", next_units)
    assert run_active(kernel_units(kernel), "try", store, 3) == 2
    assert seen == [taught]


def test_a_problem_looks_the_same_before_and_after_it_is_measured(store, supervisor):
    spec = specs()[0]
    run_units(units_of(spec), "all", store, supervisor=supervisor)
    before = LaunchSums.of(spec, build(spec.graph), MACHINE)
    [problem] = problems(store)
    after = of_measured(problem, MACHINE)
    order = [unit.variant for unit in units_of(spec)]
    places = [order.index(candidate.variant) for candidate in problem.candidates]
    assert before.variants == after.variants == len(order)
    np.testing.assert_allclose(
        before.totals(before.roofline, 1e-6)[places], after.totals(after.roofline, 1e-6)
    )
