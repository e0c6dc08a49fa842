"""Calibrating a GPU: made-up times of what runs on the CPU, by Triton's interpreter."""

from __future__ import annotations

import math
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from hetune.costmodel.calibration import ROOFLINE, Calibration, load_calibration
from hetune.costmodel.selector import Selector
from hetune.costmodel.shelf.shelf import Shelf
from hetune.profiling.calibrate import calibration, gpu_probes
from hetune.profiling.calibrate.gpu_rates import Card, Sizes, gpu_of, measure_gpu
from hetune.profiling.measure.stopwatch import Sample
from hetune.variants.errors import VariantError
from hetune.variants.runtime.gpu_roofline import GpuModel

CPU = torch.device("cpu")
USUAL = GpuModel()
CARD = Card(cache_bytes=1 << 13, multiprocessors=10)
SIZES = Sizes(side=32, copied=1 << 12, edges=64)
UNITS = {"product": 2 * 32**3, "copy": 2 << 12, "pick": 8 * 64 * 256, "start": 100}


class Watch:
    """Does what it is given; says that it took 1 ms."""

    def __init__(self) -> None:
        self.runs = 0
        self.precisions = set()

    def time(self, run):
        self.runs += 1
        self.precisions.add(torch.get_float32_matmul_precision())
        return run(lambda: None), Sample(1e-3)


def test_probes_say_how_much_they_do():
    probes = {
        "product": gpu_probes.product(32, CPU),
        "copy": gpu_probes.copied(1 << 12, CPU),
        "pick": gpu_probes.picked(16, 64, CPU),
        "start": gpu_probes.started(CPU),
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
            sizes=SIZES,
            rounds=2,
            progress=lambda done, total: told.append((done, total)),
        )
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert (watch.runs, watch.precisions) == (8, {"highest"})
    assert told == [(done, 8) for done in range(9)]
    assert found.matrix_flops == pytest.approx(UNITS["product"] / 1e-3)
    assert found.memory_rate == pytest.approx(UNITS["copy"] / 1e-3)
    assert found.cache_rate == pytest.approx(UNITS["pick"] / 1e-3)
    assert found.launch_seconds == pytest.approx(1e-5)
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


def test_no_cache_is_slower_than_memory_or_without_a_size():
    found = gpu_of(seconds(pick=1e-9), Card(0, 1))
    assert found.cache_rate == found.memory_rate == pytest.approx(2e12)
    assert found.cache_bytes == USUAL.cache_bytes


def test_a_card_is_what_the_driver_says(monkeypatch):
    facts = SimpleNamespace(L2_cache_size=50 << 20, multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    assert Card.of(torch.device("cuda", 0)) == Card(50 << 20, 132)


# All of it.

MEASURED = GpuModel(matrix_flops=5e13)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A machine with a GPU that was measured before."""
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    monkeypatch.setattr(calibration, "torch_device", lambda device: torch.device(device, 0))
    monkeypatch.setattr(calibration, "measure_gpu", lambda device, progress: MEASURED)


def test_without_a_gpu_that_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(VariantError, match="no GPU: torch sees none here"):
        calibration.calibrate(device="cuda")


def test_a_gpu_s_calibration_has_rates_alone_and_a_place_of_its_own(gpu, tmp_path):
    made = calibration.calibrate(device="cuda").calibration
    assert (made.machine, made.offsets, made.model_id) == (MEASURED, {}, ROOFLINE)
    assert (made.device, made.error_before) == ("cuda", None)
    assert Calibration.from_json(made.as_json()) == made
    assert made.save().parent == tmp_path / "cuda" / "calibrations"
    assert load_calibration(device="cuda") == made
    assert load_calibration() is None
    assert load_calibration(tmp_path / "cuda" / "calibrations") is None  # it is no CPU's
    for folder in (tmp_path, tmp_path / "cuda"):
        assert folder.stat().st_mode & 0o077 == 0


def test_selectors_take_a_gpu_s_rates(gpu):
    calibration.calibrate(device="cuda").calibration.save()
    assert Selector.adapted(None, Shelf(device="cuda")).machine == MEASURED
    assert Selector.adapted(None).machine != MEASURED
