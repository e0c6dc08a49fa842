"""All candidates of a problem: what is recorded, and what goes wrong with some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from hetune.costmodel.features.graph import NAMES, graph_features
from hetune.profiling.campaign.workloads import gradient_stages
from hetune.profiling.measure.bench import Bench
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import SETUP, measure_problem, promoted_for, units_of
from hetune.profiling.measure.record import Stamp, kernel_digest
from hetune.profiling.measure.stopwatch import WallStopwatch
from hetune.profiling.records import PROTOCOLS, Measurement, Status
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.variants.backends.base import Place, Runner
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.errors import CampaignError, CompileError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.kernel.nodes import Launch, Schedule
from hetune.variants.plan.sides import run_on
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.table import PREPARATION, CandidateTable
from hetune.variants.testing.graphs import typed_graph

TINY = GraphRecipe("tiny", "drawn", "any", ())
PROBLEM = ProblemSpec(TINY, labeled_preset("rgcn", 6, 8), 1)
STAMP = Stamp("campaign", "machine", "1.0")
BLOCKS = (256, 1024, 4096)


@dataclass(frozen=True)
class Drifting:
    """A yardstick that always moves by as much."""

    by: float = 0.0

    def read(self) -> float:
        return 1.0

    def drift(self, before: float, after: float) -> float:
        return self.by


@dataclass
class Rig:
    """A backend without a compiler, whose launches take and do what the test says, by block size.

    Attributes:
        seconds: What a launch takes, on a clock of the rig's own.
        spoil: Changes the buffers after a launch, or raises; by block size.
        bound: Block sizes of the launches that were bound.
        runs: Those of the launches that ran.
    """

    seconds: Mapping[int, float] = field(default_factory=dict)
    spoil: Mapping[int, Callable[[dict[str, Tensor]], None]] = field(default_factory=dict)
    refuse: Mapping[int, Exception] = field(default_factory=dict)
    bound: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    yardstick: Drifting = Drifting()
    now: float = 0.0
    name: str = "rig"
    keeps_indexes: bool = False

    def bind(self, launch: Launch, schedule: Schedule, place: Place) -> Runner:
        block = schedule.block_nodes
        if block in self.refuse:
            raise self.refuse[block]
        self.bound.append(block)
        run = TorchBackend().bind(launch, schedule, place)

        def runner(buffers: Mapping[str, Tensor]) -> None:
            self.now += self.seconds.get(block, 0.01)
            self.runs.append(block)
            self.threads.add(torch.get_num_threads())
            run(buffers)
            if block in self.spoil:
                self.spoil[block](dict(buffers))

        return runner

    def bench(self) -> Bench:
        return Bench(self, WallStopwatch(lambda: self.now), self.yardstick)


@pytest.fixture(scope="module")
def graph() -> HeteroGraph:
    """So many nodes that all sizes of blocks make cuts of their own."""
    return typed_graph((30_000, 20_000), [(0, 1, 60), (1, 0, 50), (0, 0, 40)])


@pytest.fixture(scope="module")
def small() -> HeteroGraph:
    return typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40)])


@pytest.fixture(scope="module")
def variants() -> tuple[Variant, ...]:
    """Those of one plan with a single launch, by block size."""
    plans: dict[int, list[Variant]] = {}
    for variant in promoted_for(PROBLEM):
        plans.setdefault(id(variant.plan), []).append(variant)
    chosen = next(vs for vs in plans.values() if len(vs[0].plan.launches) == 1)
    assert [v.schedules[0].block_nodes for v in chosen] == list(BLOCKS)
    return tuple(chosen)


@pytest.fixture
def measure(graph, variants):
    def run(rig: Rig, limits: Limits | None = None, **options) -> dict[int, Measurement]:
        found = measure_problem(
            PROBLEM, graph, variants, STAMP,
            limits=limits, bench=rig.bench(), **options,
        )  # fmt: skip
        assert [m.variant for m in found] == [v.id for v in variants]
        return dict(zip(BLOCKS, found, strict=True))

    return run


def test_records_say_what_was_measured(graph, variants, measure):
    rig = Rig(seconds={256: 0.02, 1024: 0.05, 4096: 0.05})
    found = measure(rig)[256]
    variant = variants[0]
    [unit] = [u for u in units_of(PROBLEM) if u.variant == variant.id]
    table = CandidateTable.of(promoted_for(PROBLEM))
    [row] = table.rows_of[table.variants.index(variant)]
    assert replace(found, launches=(), measured_at=STAMP, relative_error=0.0) == Measurement(
        unit=unit.key,
        campaign="campaign",
        machine="machine",
        graph="tiny",
        graph_fingerprint=graph.fingerprint,
        family="drawn",
        graph_features=tuple(graph_features(graph)),
        program=PROBLEM.program,
        threads=1,
        variant=variant.id,
        plan=variant.key,
        status=Status.OK,
        error="",
        samples=(pytest.approx(0.02),) * 7,
        launches=(),
        prepare_seconds=0.0,
        preparation=tuple(table.preparation(Domain(graph))[table.variants.index(variant)]),
        relative_error=0.0,
        peak_bytes=found.peak_bytes,
        drift=0.0,
        protocol=PROTOCOLS["cpu"],
        code_version="1.0",
        measured_at=STAMP,
    )
    [launch] = found.launches
    assert (launch.family, launch.columns) == (
        table.families[row],
        tuple(table.columns(Domain(graph))[row]),
    )
    assert launch.kernel == kernel_digest(*table.launches[row])
    assert len(launch.samples) == 7
    assert all(seconds > 0 for seconds in launch.samples)
    assert found.peak_bytes >= 50_000 * 8 * 4
    assert 0 <= found.relative_error < 1e-6
    assert len(found.graph_features) == len(NAMES)
    assert found.measured_at.utcoffset().total_seconds() == 0


def test_variants_that_run_the_same_are_measured_once(small, variants):
    rig = Rig(seconds={256: 0.02, 1024: 0.05, 4096: 0.05})
    found = measure_problem(PROBLEM, small, variants, STAMP, bench=rig.bench())
    assert set(rig.runs) == {256}
    assert [m.variant for m in found] == [v.id for v in variants]
    assert len({m.unit for m in found}) == 3
    for one in found:
        assert one.status is Status.OK
        assert one.samples == found[0].samples == (pytest.approx(0.02),) * 7
        assert [la.samples for la in one.launches] == [la.samples for la in found[0].launches]
    assert len({one.launches[0].kernel for one in found}) == 3


def test_a_brief_run_is_timed_right_after_another_one(graph, variants):
    rig = Rig(seconds={256: 0.01, 1024: 0.05, 4096: 0.05})
    bench = replace(rig.bench(), short_seconds=0.02)
    found = measure_problem(PROBLEM, graph, variants, STAMP, bench=bench)
    # One run is checked, one warms up; the brief variant's rounds have two each.
    expected = {256: 2 + 2 * 7, 1024: 2 + 7, 4096: 2 + 7}
    assert {block: rig.runs.count(block) for block in BLOCKS} == expected
    assert [m.samples for m in found] == [(pytest.approx(s),) * 7 for s in (0.01, 0.05, 0.05)]
    rounds = rig.runs[len(BLOCKS) * 2 :]
    first = [place for place, block in enumerate(rounds) if block == 256][::2]
    assert len(first) == 7
    assert all(rounds[place + 1] == 256 for place in first)


def test_runs_that_warm_up_spend_a_candidate_s_time(graph, variants):
    rig = Rig(seconds={256: 0.01, 1024: 0.01, 4096: 0.01})
    bench, limits = replace(rig.bench(), short_seconds=0.02), Limits(unit_seconds=0.205)
    found = measure_problem(PROBLEM, graph, variants, STAMP, bench=bench, limits=limits)
    # Two runs before the rounds, and two in each.
    assert [len(m.samples) for m in found] == [9, 9, 9]
    assert rig.now == pytest.approx(3 * 0.2)


def test_what_goes_wrong_with_one_goes_wrong_with_those_that_run_the_same(small, variants):
    rig = Rig(spoil={256: fail(ValueError("odd"))})
    found = measure_problem(PROBLEM, small, variants, STAMP, bench=rig.bench())
    assert {(m.status, m.error) for m in found} == {(Status.FAILED, "ValueError: odd")}
    assert rig.runs == [256]


@pytest.mark.parametrize(("layer", "heads"), [("rgcn", 1), ("rgat", 2), ("hgt", 1)])
def test_every_compiled_variant_has_times(layer, heads, graph):
    problem = replace(PROBLEM, program=labeled_preset(layer, 6, 8, heads))
    variants = promoted_for(problem)[:: 4 if layer == "rgcn" else 24]
    found = measure_problem(problem, graph, variants, STAMP)
    assert [m.status for m in found] == [Status.OK] * len(variants), found[0].error
    for measurement, variant in zip(found, variants, strict=True):
        assert 7 <= len(measurement.samples) <= 15
        assert len(measurement.launches) == len(launches_on(graph, variant))
        parts = zip(*(launch.samples for launch in measurement.launches), strict=True)
        for whole, launches in zip(measurement.samples, parts, strict=True):
            assert 0 < sum(launches) < whole
        assert measurement.prepare_seconds > 0


def test_stages_of_gradients_have_times(graph):
    layer = labeled_preset("rgcn", 6, 8)
    for stage in gradient_stages(layer):
        problem = replace(PROBLEM, program=stage.program)
        turned = reversed_graph(graph) if stage.is_reversed else graph
        [found] = measure_problem(problem, turned, promoted_for(problem)[:1], STAMP)
        assert found.status is Status.OK, found.error


def launches_on(graph: HeteroGraph, variant: Variant) -> list[Launch]:
    """Those that the graph has rows for."""
    return [launch for launch in variant.plan.launches if Domain(graph).runs(launch)]


def test_a_launch_without_rows_is_neither_run_nor_recorded(graph):
    """One relation has one side: nothing is left to do for the other."""
    variants = promoted_for(PROBLEM)
    hybrid = next(v for v in variants if v.id == "hybrid+separate-products/b256")
    assert Domain(graph).side == "dst"
    [found] = measure_problem(PROBLEM, graph, [hybrid], STAMP)
    assert found.status is Status.OK
    ran = len(launches_on(graph, hybrid))
    assert len(found.launches) == ran < len(hybrid.plan.launches)
    assert found.preparation[PREPARATION.index("launches")] == ran


def test_on_a_graph_of_one_side_a_hybrid_variant_is_measured_as_what_it_runs(graph):
    by_id = {v.id: v for v in promoted_for(PROBLEM)}
    asked, runs = by_id["hybrid/b1024"], by_id["dst/b1024"]
    rig = Rig()
    found, same = measure_problem(PROBLEM, graph, [asked, runs], STAMP, bench=rig.bench())
    assert [found.variant, same.variant] == [asked.id, runs.id]
    assert found.unit != same.unit
    assert (found.samples, found.launches) == (same.samples, same.launches)
    assert (found.preparation, found.peak_bytes) == (same.preparation, same.peak_bytes)
    launches = len(launches_on(graph, runs))
    assert len(found.launches) == launches
    assert len(rig.runs) == launches * (2 + len(found.samples))
    [alone] = measure_problem(PROBLEM, graph, [asked], STAMP, bench=Rig().bench())
    assert [launch.kernel for launch in alone.launches] == [la.kernel for la in same.launches]


@pytest.mark.parametrize(
    ("kernel", "heads", "family"),
    [
        ("linear", 1, "product"),
        ("aggregate", 1, "traversal"),
        ("attention", 2, "traversal"),
        ("transh", 1, "traversal"),
    ],
)
def test_a_single_kernel_has_times_of_its_own(kernel, heads, family, graph):
    problem = replace(PROBLEM, program=labeled_preset(kernel, 8, 8, heads))
    found = measure_problem(problem, graph, promoted_for(problem), STAMP)
    assert [m.status for m in found] == [Status.OK] * len(BLOCKS), found[0].error
    assert {m.program for m in found} == {problem.program}
    assert [[launch.family for launch in m.launches] for m in found] == [[family]] * len(BLOCKS)


def fill(value: float) -> Callable[[dict[str, Tensor]], None]:
    def spoil(buffers: dict[str, Tensor]) -> None:
        for name, buffer in buffers.items():
            if name.startswith("v") or buffer.shape == (50_000, 8):
                buffer.fill_(value)

    return spoil


def fail(error: Exception) -> Callable[[dict[str, Tensor]], None]:
    def spoil(buffers: dict[str, Tensor]) -> None:
        raise error

    return spoil


ALLOCATOR = "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"


@pytest.mark.parametrize(
    ("rig", "status", "error"),
    [
        (Rig(spoil={1024: fill(1.0)}), Status.WRONG, "relative error "),
        (Rig(spoil={1024: fill(torch.nan)}), Status.WRONG, "relative error inf, more than 1e-05"),
        (Rig(spoil={1024: fail(ValueError("odd"))}), Status.FAILED, "ValueError: odd"),
        (Rig(spoil={1024: fail(MemoryError("full"))}), Status.MEMORY, "MemoryError: full"),
        (Rig(spoil={1024: fail(RuntimeError(ALLOCATOR))}), Status.MEMORY, "RuntimeError: ["),
        (Rig(refuse={1024: CompileError("no")}), Status.FAILED, "CompileError: no"),
    ],
)
def test_what_goes_wrong_with_one_candidate_is_its_record_and_no_other_s(
    rig, status, error, measure
):
    found = measure(rig)
    lost = found.pop(1024)
    assert (lost.status, lost.samples, lost.launches, lost.drift) == (status, (), (), 0.0)
    assert lost.error.startswith(error)
    assert {m.status for m in found.values()} == {Status.OK}
    assert rig.runs.count(1024) <= 1


def test_a_candidate_that_fails_late_has_no_times_either(measure):
    runs = []

    def spoil(buffers: dict[str, Tensor]) -> None:
        runs.append(1)
        if len(runs) == 5:
            raise MemoryError("late")

    found = measure(Rig(spoil={256: spoil}))
    assert (found[256].status, found[256].samples) == (Status.MEMORY, ())
    assert len(runs) == 5
    assert len(found[1024].samples) >= 7


def test_what_needs_more_memory_than_allowed_never_runs(measure):
    rig = Rig()
    found = measure(rig, Limits(memory_bytes=1000))
    assert {m.status for m in found.values()} == {Status.MEMORY}
    assert found[256].error == (
        f"temporaries, scratch and result of a run take {found[256].peak_bytes} bytes, more than "
        "the limit of 1000: raise memory_bytes"
    )
    assert rig.runs == []


def test_what_cannot_be_prepared_has_no_times_either(graph, measure):
    rig = Rig()
    real = rig.bind

    def bind(launch: Launch, schedule: Schedule, place: Place) -> Runner:
        if place.graph is not graph and schedule.block_nodes < 4096:
            raise MemoryError("indexes")
        return real(launch, schedule, place)

    rig.bind = bind
    found = measure(rig)
    assert [m.status for m in found.values()] == ["memory", "memory", "ok"]
    assert found[256].error == "MemoryError: indexes"


def test_nearly_as_fast_as_the_fastest_means_more_rounds(measure):
    found = measure(Rig(seconds={256: 1.0, 1024: 1.1, 4096: 1.3}))
    assert [len(m.samples) for m in found.values()] == [15, 15, 7]
    assert found[1024].samples == (pytest.approx(1.1),) * 15
    assert len(found[1024].launches[0].samples) == 15


def test_there_are_no_more_rounds_than_time(measure):
    limits = Limits(problem_seconds=7 * 3.4 + 3 * 2.1 + 1)
    found = measure(Rig(seconds={256: 1.0, 1024: 1.1, 4096: 1.3}), limits)
    assert [len(m.samples) for m in found.values()] == [10, 10, 7]


def test_who_takes_longer_than_a_unit_may_has_no_times(measure):
    limits = Limits(unit_seconds=30.0, problem_seconds=1000.0)
    rig = Rig(seconds={256: 1.0, 1024: 4.0, 4096: 3.4})
    found = measure(rig, limits)
    assert [m.status for m in found.values()] == ["ok", "timeout", "timeout"]
    assert found[1024].error == ("a run takes 4 s: 7 rounds take longer than the limit of 30 s")
    # Two runs of 3.4 s before the rounds leave room for 6 more.
    assert found[4096].error == ("a run takes 3.4 s: 7 rounds take longer than the limit of 30 s")
    assert rig.runs.count(1024) == 2
    rig = Rig(seconds={256: 1.0, 1024: 40.0, 4096: 1.0})
    assert measure(rig, limits)[1024].status is Status.TIMEOUT
    assert rig.runs.count(1024) == 1


def test_who_becomes_slow_is_ended_within_the_limit(measure):
    rig = Rig(seconds=dict.fromkeys(BLOCKS, 1.0))

    def slow_down(buffers: dict[str, Tensor]) -> None:
        if rig.runs.count(256) > 3:
            rig.now += 20.0

    rig.spoil = {256: slow_down}
    found = measure(rig)
    assert found[256].error == "its runs take longer than the limit of 30 s"
    assert found[256].status is Status.TIMEOUT
    assert found[1024].status is Status.OK


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_rounds_beyond_those_of_all_end_before_a_unit_s_seconds_do(drift, measure):
    # Two runs come before the rounds: there is room for 11 of 2.2 s, and for 8 of 3 s.
    for seconds, rounds in ((2.2, 11), (3.0, 8)):
        rig = Rig(seconds=dict.fromkeys(BLOCKS, seconds), yardstick=Drifting(drift))
        found = measure(rig, Limits(problem_seconds=1000.0))
        assert {m.status for m in found.values()} == {Status.OK}
        assert rig.runs.count(256) == 2 + rounds
        assert [len(m.samples) for m in found.values()] == [7 if drift else rounds] * 3


def test_who_becomes_slow_after_the_rounds_of_all_keeps_their_times(measure):
    rig = Rig(seconds=dict.fromkeys(BLOCKS, 1.0))

    def slow_down(buffers: dict[str, Tensor]) -> None:
        if rig.runs.count(256) > 10:
            rig.now += 20.0

    rig.spoil = {256: slow_down}
    found = measure(rig)
    assert [len(m.samples) for m in found.values()] == [7, 15, 15]
    assert found[256].status is Status.OK


def test_the_hopeless_are_given_up_where_time_is_short_the_slowest_first(measure):
    seconds = {256: 1.0, 1024: 6.0, 4096: 10.0}
    everyone = Limits(problem_seconds=7 * 17 + 1, unit_seconds=1000.0)
    assert {m.status for m in measure(Rig(seconds), everyone).values()} == {Status.OK}
    without_one = replace(everyone, problem_seconds=7 * 7 + 1)
    found = measure(Rig(seconds), without_one)
    assert [m.status for m in found.values()] == ["ok", "ok", "timeout"]
    assert found[4096].error == (
        "a run takes 10 s, 10.0 times the fastest one's: 7 rounds of all do not fit into 50 s"
    )
    # Who is less than five times slower is measured whatever it takes.
    found = measure(Rig(seconds | {1024: 4.0}), replace(everyone, problem_seconds=1.0))
    assert [m.status for m in found.values()] == ["ok", "ok", "timeout"]
    assert len(found[1024].samples) == 7


def test_threads_are_the_problem_s_while_it_runs(graph, variants):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        problem = replace(PROBLEM, threads=2)
        rig = Rig()
        measure_problem(problem, graph, variants[:1], STAMP, bench=rig.bench())
        assert rig.threads == {2}
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_every_step_is_announced(measure, variants):
    rig, steps = Rig(), []
    measure(rig, beat=lambda variant: steps.append((variant, len(rig.runs))))
    names = [variant for variant, _ in steps]
    assert names[0] == names[-1] == SETUP
    assert set(names) == {SETUP, *(v.id for v in variants)}
    block_of = dict(zip((v.id for v in variants), BLOCKS, strict=True))
    for (variant, runs), (_, later) in pairwise(steps):
        ran = set(rig.runs[runs:later])
        assert ran <= ({block_of[variant]} if variant else set())


def test_a_step_is_announced_by_the_variant_that_was_asked_for():
    """On a graph of one side, a hybrid variant runs another one's plan."""
    one_way = typed_graph((30, 2), [(0, 1, 60), (0, 1, 50)])
    hybrid = {v.id: v for v in promoted_for(PROBLEM)}["hybrid/b1024"]
    steps: list[str] = []
    measure_problem(PROBLEM, one_way, [hybrid], STAMP, bench=Rig().bench(), beat=steps.append)
    assert set(steps) == {SETUP, hybrid.id}


def test_preparing_is_from_an_unindexed_graph_and_once_for_each_plan(graph):
    rig = Rig()
    real = rig.bind

    def bind(launch: Launch, schedule: Schedule, place: Place) -> Runner:
        rig.now += 1.0 if place.graph is graph else 100.0
        return real(launch, schedule, place)

    rig.bind = bind
    chosen = promoted_for(PROBLEM)
    found = measure_problem(PROBLEM, graph, chosen, STAMP, bench=rig.bench())
    for measurement, variant in zip(found, chosen, strict=True):
        bound = len(launches_on(graph, variant))
        assert measurement.prepare_seconds == pytest.approx(100.0 * bound)
    run = set(run_on(chosen, Domain(graph).side))
    fresh = {id(v.plan): len(launches_on(graph, v)) for v in run}
    assert len(rig.bound) == sum(len(launches_on(graph, v)) for v in run) + sum(fresh.values())


def test_units_are_the_promoted_variants():
    assert [u.variant for u in units_of(PROBLEM)] == [v.id for v in promoted_for(PROBLEM)]
    assert len({u.key for u in units_of(PROBLEM)}) == len(units_of(PROBLEM))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 6},
        {"most_rounds": 6},
        {"repeats": -1},
        {"unit_seconds": 0.0},
        {"problem_seconds": float("nan")},
        {"problem_seconds": float("inf")},
        {"memory_bytes": 0},
    ],
)
def test_limits_that_measure_nothing(wrong):
    with pytest.raises(CampaignError, match=next(iter(wrong))):
        Limits(**wrong)
