"""Calibrating a GPU: made-up times of what runs on the CPU, by Triton's interpreter."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.costmodel._synthetic_gpu import problems, small_model

from hetune.costmodel.registry.calibration import ROOFLINE, Calibration, load_calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.selector import Selector
from hetune.profiling.calibrate import calibration, gpu_probes, observations
from hetune.profiling.calibrate.correction import Observed
from hetune.profiling.calibrate.gpu_rates import GpuProperties, ProbeSizes, gpu_of, measure_gpu
from hetune.profiling.corpus.recipes import recipe
from hetune.profiling.measure.bench import Bench
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.reference import Reference
from hetune.profiling.measure.stopwatch import TimedRun, WallStopwatch
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.errors import VariantError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.launch_columns import column_names

CPU = torch.device("cpu")
USUAL = GpuModel()
CARD = GpuProperties(cache_bytes=1 << 13, multiprocessors=10)
SIZES = ProbeSizes(side=32, copied=1 << 12, edges=64)
UNITS = {"product": 2 * 32**3, "copy": 2 << 12, "pick": 8 * 64 * 256, "start": 4, "replay": 4}


@pytest.fixture(autouse=True)
def _few_starts(monkeypatch):
    """An interpreter takes long to start a kernel."""
    monkeypatch.setattr(gpu_probes, "_STARTS", 4)


class Watch:
    """Does what it is given; says that it took 1 ms."""

    def __init__(self) -> None:
        self.runs = 0
        self.precisions = set()

    def time(self, run):
        self.runs += 1
        self.precisions.add(torch.get_float32_matmul_precision())
        return run(lambda: None), TimedRun(1e-3)


@dataclass
class Again:
    """A recorder whose replays run the call again."""

    error: Exception | None = None

    def on(self, device):
        return nullcontext()

    def record(self, run, pool):
        if self.error:
            raise self.error
        return SimpleNamespace(replay=run)


def test_probes_say_how_much_they_do():
    probes = {
        "product": gpu_probes.product(32, CPU),
        "copy": gpu_probes.copied(1 << 12, CPU),
        "pick": gpu_probes.picked(16, 64, CPU),
        "start": gpu_probes.started(CPU),
        "replay": gpu_probes.replayed(CPU, Again()),
    }
    assert {name: probe.units for name, probe in probes.items()} == UNITS


def test_a_card_is_measured():
    watch, told = Watch(), []
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        found = measure_gpu(
            CPU,
            card=CARD,
            watch=watch,
            recorder=Again(),
            sizes=SIZES,
            rounds=2,
            progress=lambda done, total: told.append((done, total)),
        )
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert (watch.runs, watch.precisions) == (10, {"highest"})
    assert told == [(1, 2), (2, 2)]
    assert found.matrix_flops == pytest.approx(UNITS["product"] / 1e-3)
    assert found.memory_rate == pytest.approx(UNITS["copy"] / 1e-3)
    assert found.cache_rate == pytest.approx(UNITS["pick"] / 1e-3)
    assert found.launch_seconds == pytest.approx(1e-3 / UNITS["start"])
    assert all(0 < value < math.inf for value in asdict(found).values())


def seconds(**changed):
    return {"product": 2e-14, "copy": 5e-13, "pick": 2e-13, "start": 3e-6, **changed}


def test_what_is_not_timed_is_in_proportion():
    found = gpu_of(seconds(), CARD)
    assert found.matrix_flops == pytest.approx(5e13)
    for name in ("vector_flops", "special"):
        usual = getattr(USUAL, name) / USUAL.matrix_flops
        assert getattr(found, name) / found.matrix_flops == pytest.approx(usual)
    assert (found.cache_bytes, found.programs) == (1 << 13, 40)


def test_kernels_of_a_cuda_graph_take_no_longer_than_others():
    assert gpu_of(seconds(replay=1e-6), CARD).node_seconds == 1e-6
    assert gpu_of(seconds(replay=1e-5), CARD).node_seconds == 3e-6
    assert gpu_of(seconds(), CARD).node_seconds == 3e-6


def test_where_nothing_can_be_recorded_nothing_is_replayed(caplog):
    refused = Again(RuntimeError("stream capture is not supported"))
    found = measure_gpu(CPU, card=CARD, watch=Watch(), recorder=refused, sizes=SIZES, rounds=1)
    assert found.node_seconds == found.launch_seconds
    assert "stream capture is not supported" in caplog.text


def test_no_cache_is_slower_than_memory_or_without_a_size():
    found = gpu_of(seconds(pick=1e-9), GpuProperties(0, 1))
    assert found.cache_rate == found.memory_rate == pytest.approx(2e12)
    assert found.cache_bytes == USUAL.cache_bytes


def test_a_card_is_what_the_driver_says(monkeypatch):
    facts = SimpleNamespace(L2_cache_size=50 << 20, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    assert GpuProperties.of(torch.device("cuda", 0)) == GpuProperties(50 << 20, 132)


# All of it.

MEASURED = GpuModel(matrix_flops=5e13)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A machine with a GPU that was measured before."""
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    monkeypatch.setattr(calibration, "place_of", lambda device: torch.device(device, 0))
    monkeypatch.setattr(calibration, "measure_gpu", lambda device, progress: MEASURED)
    monkeypatch.setattr(calibration, "observe", lambda progress, device: observed())


def test_without_a_gpu_that_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(VariantError, match="no GPU: torch sees none here"):
        calibration.calibrate(device="cuda")


def observed():
    """What the made-up card of cost models' tests took for their launches, and half as much."""
    found = []
    for problem in problems():
        launches = {each.columns: each for c in problem.candidates for each in c.launches}.values()
        found.append(
            Observed(
                tuple(each.family for each in launches),
                np.array([each.columns for each in launches]),
                np.array([1.5 * each.seconds for each in launches]),
                np.array(problem.graph_features),
                1,
            )
        )
    return tuple(found)


def test_a_few_launches_are_measured(monkeypatch):
    monkeypatch.setattr(
        observations, "_LIMITS", Limits(repeats=0, most_rounds=7)
    )  # interpreters are slow
    tiny = recipe("tiny", "typed", options={"nodes": 12, "edges": 30, "etypes": 3})
    bench = Bench(TritonBackend(), WallStopwatch(), Reference(), device=CPU)
    (problem,) = observations.observe(
        recipes=[tiny], programs=[labeled_preset("rgcn", 4, 4)], device="cuda", bench=bench
    )
    assert {"product", "fused"} <= set(problem.families)
    assert problem.columns.shape == (len(problem.families), len(column_names("cuda")))
    assert (problem.seconds > 0).all()
    assert problem.threads == 1


def test_a_model_of_another_card_is_corrected(gpu, monkeypatch):
    monkeypatch.setattr(calibration, "load_best", lambda device: small_model())
    found = calibration.calibrate(device="cuda")
    assert found.calibration.machine == small_model().manifest.machine  # it predicts better so
    assert found.calibration.model_id == small_model().manifest.digest
    for offset in found.calibration.offsets.values():
        assert offset == pytest.approx(math.log(1.5), abs=0.15)
    assert found.calibration.error_after < found.calibration.error_before
    monkeypatch.setattr(calibration, "is_trained_here", lambda model: True)
    assert calibration.calibrate(device="cuda").calibration.offsets == {}


def test_a_gpu_s_calibration_has_a_place_of_its_own(gpu, tmp_path):
    made = calibration.calibrate(device="cuda").calibration
    assert (made.machine, made.offsets, made.model_id) == (MEASURED, {}, ROOFLINE)
    assert made.device == "cuda"
    assert made.error_before is not None
    assert Calibration.from_json(made.as_json()) == made
    assert made.save().parent == tmp_path / "cuda" / "calibrations"
    assert load_calibration(device="cuda") == made
    assert load_calibration() is None
    assert load_calibration(tmp_path / "cuda" / "calibrations") is None  # it is no CPU's
    for folder in (tmp_path, tmp_path / "cuda"):
        assert folder.stat().st_mode & 0o077 == 0


def test_selectors_take_a_gpu_s_rates(gpu):
    calibration.calibrate(device="cuda").calibration.save()
    assert Selector.adapted(None, ModelRegistry(device="cuda")).machine == MEASURED
    assert Selector.adapted(None).machine != MEASURED
