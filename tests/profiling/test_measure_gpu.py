"""Problems of GPUs, measured by Triton's interpreter and events of a made-up card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from tests.profiling._fake_gpu import FakeGpu
from torch import Tensor

from hetune.profiling.corpus import build, recipe
from hetune.profiling.measure import bench as benches
from hetune.profiling.measure.bench import Bench, answers, bench_of, devices_here, place_of
from hetune.profiling.measure.limits import Limits, usable_gpu_memory
from hetune.profiling.measure.problem import measure_problem, promoted_for
from hetune.profiling.measure.record import GraphFacts, Stamp
from hetune.profiling.measure.reference import Reference, product
from hetune.profiling.process.heartbeat import Heartbeat
from hetune.profiling.process.measuring import MeasuringProcess
from hetune.profiling.process.memory_limit import limit_memory
from hetune.profiling.process.messages import Order
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.backends.base import Place, Runner
from hetune.variants.backends.triton.ahead import triton_version
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.errors import CompileError, VariantError, WorkerError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.kernel.nodes import Launch
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.table import CandidateTable

GRAPH = recipe("tiny", "typed", options={"nodes": 20, "edges": 60})
PROBLEM = ProblemSpec(GRAPH, labeled_preset("rgcn", 6, 8, 1), 1, "cuda")
STAMP = Stamp("campaign", "machine", "1.0")
LIMITS = Limits(memory_bytes=2 << 30)


class Steady:
    """A yardstick that never moves."""

    def read(self) -> float:
        return 1.0

    def drift(self, before: float, after: float) -> float:
        return 0.0


class Rig(TritonBackend):
    """Interprets launches, each of which takes 2 ms of the card's time.

    Attributes:
        card: What runs them.
        spoil: Does something after a launch, or raises; by the number of its binding.
        compiled: How many variants were compiled ahead.
    """

    def __init__(self) -> None:
        super().__init__()
        self.card = FakeGpu()
        self.spoil: dict[int, Callable[[], None]] = {}
        self.bound = 0
        self.compiled = 0

    def bind(self, launch: Launch, schedule: object, place: Place) -> Runner:
        run, number = super().bind(launch, schedule, place), self.bound
        self.bound += 1

        def runner(buffers: Mapping[str, Tensor]) -> None:
            run(buffers)
            self.card.work(2.0)
            self.spoil.get(number, lambda: None)()

        return runner

    def compile(self, variants: object, told: Callable[[int, int, str], None]) -> None:
        self.compiled += len(variants)
        told(1, 1, "kernel")

    def bench(self, **changes: object) -> Bench:
        made = Bench(
            self,
            self.card.stopwatch(),
            Steady(),
            torch.device("cpu"),
            self.compile,
            compiles_late=True,
            free_bytes=lambda: 1 << 30,
            clocks=iter([(1980.0, 2619.0), (1755.0, 2619.0)]).__next__,
        )
        return replace(made, **changes)


@pytest.fixture
def variants() -> tuple[Variant, ...]:
    """The first two with a single launch."""
    single = [v for v in promoted_for(PROBLEM) if len(v.plan.launches) == 1]
    return tuple(single[:2])


@pytest.fixture
def rig() -> Rig:
    return Rig()


def measure(rig: Rig, variants: tuple[Variant, ...], **changes: object) -> list[Measurement]:
    return measure_problem(
        PROBLEM, build(GRAPH), variants, STAMP, limits=LIMITS, bench=rig.bench(**changes)
    )


@pytest.mark.parametrize(("layer", "heads"), [("rgcn", 1), ("rgat", 2), ("hgt", 1)])
def test_what_runs_on_a_card_is_timed_by_its_events(rig, layer, heads):
    problem = replace(PROBLEM, program=labeled_preset(layer, 6, 8, heads))
    variant = promoted_for(problem)[-1]
    graph = build(GRAPH)
    [found] = measure_problem(problem, graph, [variant], STAMP, limits=LIMITS, bench=rig.bench())
    domain = Domain(graph)
    table = CandidateTable.of(promoted_for(problem), domain.side)
    rows = table.rows_on(domain)[table.place_of[variant.id]]
    count = len(rows)
    assert (found.status, found.error) == (Status.OK, "")
    assert found.samples == (pytest.approx(2e-3 * count),) * 7
    assert [launch.samples for launch in found.launches] == [(pytest.approx(2e-3),) * 7] * count
    assert 0 <= found.relative_error < 1e-5
    assert found.clocks == (1980.0, 2619.0, 1755.0, 2619.0)
    assert (found.device, found.unit) == ("cuda", Unit(problem, variant.id, variant.key).key)
    columns = table.columns(domain)
    assert [launch.columns for launch in found.launches] == [tuple(columns[row]) for row in rows]
    assert rig.compiled == 1


def test_a_first_run_compiles_and_is_not_timed(rig, variants):
    rig.spoil[0] = lambda: None
    runs = []
    rig.spoil[0] = lambda: runs.append(rig.card.said[-3:])
    measure(rig, variants[:1])
    # The first begins with no mark; each of the others stands between two.
    assert runs[0] == ["work"]
    assert len(runs) == 1 + 2 + 7
    assert runs[1] == ["record", "record", "work"]


def test_a_clock_that_nothing_tells_is_left_away(rig, variants):
    once = iter([(1980.0, 2619.0), ()])
    [found] = measure(rig, variants[:1], clocks=once.__next__)
    assert (found.status, found.clocks) == (Status.OK, ())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), Status.MEMORY),
        (RuntimeError("Triton Error [CUDA]: invalid argument"), Status.FAILED),
    ],
)
def test_what_fails_on_the_card_is_that_candidate_s_record(rig, variants, error, status):
    def fail() -> None:
        raise error

    rig.spoil[0] = fail
    lost, other = measure(rig, variants)
    assert (lost.status, lost.samples) == (status, ())
    assert lost.error == f"{type(error).__name__}: {error}"
    assert other.status is Status.OK


def test_what_needs_more_than_the_card_has_never_runs(rig, variants):
    found = measure_problem(
        PROBLEM, build(GRAPH), variants, STAMP, bench=rig.bench(free_bytes=lambda: 100)
    )
    assert [m.status for m in found] == [Status.MEMORY] * 2
    assert "work" not in rig.card.said


def lost() -> None:
    raise WorkerError("the GPU is lost to this process: illegal address")


@pytest.mark.parametrize("run", [0, 5], ids=["first", "later"])
def test_a_process_that_lost_its_card_measures_nothing_more(rig, variants, run):
    runs = []

    def fail() -> None:
        runs.append(1)
        if len(runs) > run:
            raise RuntimeError("an illegal memory access was encountered")

    rig.spoil[0] = fail
    with pytest.raises(WorkerError, match="the GPU is lost"):
        measure(rig, variants, check=lost)
    assert len(runs) == run + 1


def test_a_card_that_does_not_answer_is_lost():
    def wait() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    answers(lambda: None)
    with pytest.raises(WorkerError, match="lost to this process: an illegal memory access"):
        answers(wait)


# The process that measures.


@pytest.fixture
def heartbeat():
    made = Heartbeat.create()
    yield made
    made.close()


def test_a_worker_takes_the_bench_of_the_problem_s_device(rig, variants, heartbeat, monkeypatch):
    limits, sent, made = [], [], []
    monkeypatch.setattr("hetune.profiling.process.measuring.limit_memory", limits.append)
    monkeypatch.setattr(
        "hetune.profiling.process.measuring.lift_memory_limit", lambda: limits.append(0)
    )

    def bench(device: str) -> Bench:
        made.append(device)
        clocks = (1.0, 2.0)
        return rig.bench(clocks=lambda: clocks) if device == "cuda" else benches.cpu_bench()

    worker = MeasuringProcess(heartbeat, sent.append, bench_of=bench)
    for device in ("cuda", "cpu", "cuda"):
        problem = replace(PROBLEM, device=device)
        chosen = [v for v in promoted_for(problem) if len(v.plan.launches) == 1][:1]
        worker.answer(Order(problem, tuple(v.id for v in chosen), STAMP, LIMITS, 0))
    found = [answer[0] for answer in sent if isinstance(answer, list)]
    assert [m.device for m in found] == ["cuda", "cpu", "cuda"]
    assert [m.status for m in found] == ["ok"] * 3
    assert made == ["cuda", "cpu"]
    assert limits == [0, LIMITS.memory_bytes, 0]


@pytest.mark.parametrize("bound", [0, None], ids=["a variant", "before variants"])
def test_a_worker_without_its_card_ends(rig, variants, heartbeat, monkeypatch, bound):
    monkeypatch.setattr("hetune.profiling.process.measuring.lift_memory_limit", lambda: None)

    def fail(*_: object) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    if bound is None:
        rig.compile = fail
    else:
        rig.spoil[bound] = fail
    sent: list[object] = []
    worker = MeasuringProcess(heartbeat, sent.append, bench_of=lambda device: rig.bench(check=lost))
    with pytest.raises(WorkerError, match="the GPU is lost"):
        worker.answer(Order(PROBLEM, (variants[0].id,), STAMP, LIMITS, 0))
    assert all(isinstance(answer, GraphFacts) for answer in sent)


def test_the_bound_on_addresses_can_be_taken_away(monkeypatch):
    set_to = []
    monkeypatch.setattr("resource.setrlimit", lambda which, pair: set_to.append(pair))
    monkeypatch.setattr("resource.getrlimit", lambda which: (5, 2**60))
    from hetune.profiling.process.memory_limit import lift_memory_limit

    limit_memory(1000)
    lift_memory_limit()
    assert set_to[0][0] > 1000
    assert set_to[1] == (2**60, 2**60)


# This machine.


def test_without_a_gpu_nothing_is_measured(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert devices_here() == ("cpu",)
    for ask in (
        lambda: bench_of("cuda"),
        lambda: measure_problem(PROBLEM, build(GRAPH), (), STAMP),
        lambda: Supervisor().measure([Unit(PROBLEM, "v", "p")], STAMP),
    ):
        with pytest.raises(VariantError, match="no GPU: torch sees none here"):
            ask()


@pytest.mark.parametrize(
    ("place", "version", "message"),
    [
        ("cuda", "3.6.0", "TRITON_INTERPRET is set"),
        ("cpu", None, "compiling for GPUs needs triton: pip install"),
    ],
)
def test_a_gpu_without_its_triton_is_none(monkeypatch, place, version, message):
    def found(package: str) -> str:
        if version is None:
            raise PackageNotFoundError(package)
        return version

    triton_version.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", found)
    monkeypatch.setattr(benches, "torch_device", lambda device: torch.device(place))
    try:
        with pytest.raises((VariantError, CompileError), match=message):
            place_of("cuda")
        assert devices_here() == ("cpu",)
    finally:
        triton_version.cache_clear()


def test_a_worker_without_a_gpu_begins_nothing(heartbeat, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    before, sent = heartbeat.read(), []
    with pytest.raises(VariantError, match="no GPU"):
        MeasuringProcess(heartbeat, sent.append).answer(Order(PROBLEM, (), STAMP, LIMITS, 0))
    assert (heartbeat.read(), sent) == (before, [])


def test_a_card_s_bench(monkeypatch):
    """Made of what torch says of the card, none of which is asked before."""
    properties = type("Properties", (), {"major": 9, "minor": 0, "uuid": "0-1"})
    card = torch.device("cpu")
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: properties)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (700, 1000))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 400)
    monkeypatch.setattr("torch.cuda.memory_allocated", lambda device: 100)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr(benches, "torch_device", lambda device: card)
    monkeypatch.setattr(benches, "read_gpu_clocks", lambda gpu: (len(gpu),))
    found = bench_of("cuda")
    assert devices_here() == ("cpu", "cuda")
    assert (found.device, found.compiles_late) == (card, True)
    assert found.free_bytes() == usable_gpu_memory(card) == 700
    assert found.clocks() == (len("GPU-0-1"),)
    found.check()
    assert bench_of("cpu").device is None


def test_what_is_compiled_ahead_is_what_runs(monkeypatch, variants):
    built = []

    class Registry:
        def build(self, sources: tuple[object, ...], progress: object) -> None:
            built.extend(sources)

    capabilities = []
    monkeypatch.setattr(
        benches, "gpu_registry", lambda capability: capabilities.append(capability) or Registry()
    )
    properties = type("Properties", (), {"major": 8, "minor": 6, "uuid": "0"})
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: properties)
    bench = benches.gpu_bench(torch.device("cpu"))
    bench.compile(variants, lambda done, total, name: None)
    assert capabilities == [86]
    pairs = [pair for v in variants for pair in zip(v.plan.launches, v.schedules, strict=True)]
    assert built == list(dict.fromkeys(bench.backend.source(*pair) for pair in pairs))


def test_a_card_s_yardstick_is_a_product_by_its_events():
    card = FakeGpu()
    reference = Reference(lambda: card.work(1.5), card.stopwatch())
    assert reference.read() == pytest.approx(1.5e-3)
    assert card.said.count("work") == 8
    product(torch.device("cpu"))()
