"""`hetune calibrate`: what it shows, and what it saves. What it measures is tested elsewhere."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hetune.clients.cli import calibrate as command
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.registry.calibration import ROOFLINE, Calibration, load_calibration
from hetune.profiling.calibrate.calibration import CalibrationResult
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.roofline import MachineModel

MEASURED = MachineModel(matrix_flops=250e9, launch_seconds=2e-6)


@pytest.fixture
def found() -> CalibrationResult:
    calibration = Calibration(
        machine=MEASURED,
        offsets={"fused": 0.0, "product": 0.6931},
        fingerprint=this_machine().digest,
        model_id="a model",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        error_before=0.6931,
        error_after=0.0953,
    )
    return CalibrationResult(calibration, MEASURED, at_home=False)


@pytest.fixture
def calibrate(hetune, monkeypatch, tmp_path):
    """Calls the command, which finds what is given."""
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))

    def call(found, *arguments):
        def measure(*, quick, progress, device):
            assert device == found.calibration.device
            progress("measuring rates", 1, 2)
            progress("compiling", 1, 1)
            assert quick == ("--quick" in arguments)
            return found

        monkeypatch.setattr(command, "measure", measure)
        return hetune("calibrate", *arguments)

    return call


def cells(output: str) -> list[list[str]]:
    return [[c.strip() for c in line.split("  ") if c.strip()] for line in output.splitlines()]


def test_rates_stand_beside_the_defaults_and_are_saved(calibrate, found, tmp_path):
    result = calibrate(found)
    assert result.exit_code == 0, result.output
    rows = cells(result.stdout)
    assert ["matrix products", "110.0", "250.0", "GFLOP/s"] in rows
    assert ["starting a launch", "6.0", "2.0", "µs"] in rows
    assert ["fused", "1.00"] in rows
    assert ["product", "2.00"] in rows
    assert "to within a factor of 1.10; before, 2.00" in result.stdout
    assert load_calibration() == found.calibration
    path = tmp_path / "calibrations" / f"{found.calibration.fingerprint}.json"
    assert result.stdout.endswith(f"saved in {path}\n")


def test_json_is_the_calibration_and_where_it_was_saved(calibrate, found):
    result = calibrate(found, "--json")
    record = json.loads(result.stdout)
    path = record.pop("path")
    assert Calibration.from_json(json.dumps(record)) == found.calibration == load_calibration()
    assert path.endswith(".json")


def without_comparison(found, **changed):
    calibration = replace(found.calibration, offsets={}, error_before=None, error_after=None)
    return replace(found, calibration=replace(calibration, **changed))


def test_quick_says_that_nothing_was_compared(calibrate, found):
    result = calibrate(without_comparison(found, model_id=ROOFLINE), "--quick")
    assert "the roofline model was not compared with measured launches" in result.stdout
    assert "times predicted" not in result.stdout


def test_a_model_of_this_machine_needs_no_correction(calibrate, found):
    result = calibrate(replace(without_comparison(found), at_home=True))
    assert "the cost model was trained on this machine: it is used as it is" in result.stdout


def test_rates_that_were_not_adopted_are_mentioned(calibrate, found):
    result = calibrate(replace(found, measured=MachineModel(matrix_flops=1e9)))
    assert "the cost model keeps the rates with which it predicts better" in result.stdout


def test_a_gpu_s_rates_are_a_whole_card_s(calibrate, found, tmp_path):
    measured = GpuModel(matrix_flops=50e12, launch_seconds=4e-6)
    gpu = replace(without_comparison(found, machine=measured, model_id=ROOFLINE), measured=measured)
    result = calibrate(gpu, "--device", "cuda")
    assert result.exit_code == 0, result.output
    rows = cells(result.stdout)
    assert ["of the GPU", "default", "measured", "unit"] in rows
    default = GpuModel()
    assert ["matrix products", f"{default.matrix_flops / 1e12}", "50.0", "TFLOP/s"] in rows
    assert ["starting a kernel", f"{default.launch_seconds * 1e6:.1f}", "4.0", "µs"] in rows
    assert load_calibration(device="cuda") == gpu.calibration
    assert load_calibration() is None


def test_a_folder_that_cannot_be_written_is_an_error(calibrate, found, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path / "file"))
    result = calibrate(found)
    assert result.exit_code == 1
    assert "set HETUNE_MODELS to another folder" in result.stderr
