"""Calibrations on disk: written whole, read only where they are of this machine and sound."""

import json
import stat
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.registry.calibration import Calibration, calibrations_folder, load_calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.variants.errors import ModelError
from hetune.variants.registry.sealed_json import unsealed
from hetune.variants.runtime.roofline import MachineModel


@pytest.fixture
def calibration() -> Calibration:
    return Calibration(
        machine=MachineModel(matrix_flops=2e11, own_bytes=1 << 21),
        offsets={"product": 0.25, "fused": -0.5},
        fingerprint=this_machine().digest,
        model_id="a model",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        error_before=0.5,
        error_after=0.25,
    )


def test_what_was_saved_is_loaded(calibration, tmp_path):
    folder = tmp_path / "deep" / "calibrations"
    path = calibration.save(folder)
    assert path == folder / f"{calibration.fingerprint}.json"
    assert load_calibration(folder) == calibration
    assert [p.name for p in folder.iterdir()] == [path.name]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_rates_that_a_model_does_not_use_are_kept(calibration, tmp_path):
    both = replace(calibration, measured=MachineModel(matrix_flops=3e11))
    both.save(tmp_path)
    assert load_calibration(tmp_path) == both
    record = unsealed(json.loads(calibration.as_json()))
    assert record.pop("measured") is None  # as it was before there was such a field
    assert Calibration.from_json(json.dumps(record)) == calibration


def test_what_cores_take_to_exchange_rows_was_once_unknown(calibration):
    record = unsealed(json.loads(calibration.as_json()))
    assert record["machine"].pop("exchange_seconds") > 0
    before = Calibration.from_json(json.dumps(record))
    assert before.machine == replace(calibration.machine, exchange_seconds=0.0)


def test_a_new_calibration_replaces_the_machine_s_earlier_one(calibration, tmp_path):
    calibration.save(tmp_path)
    later = replace(calibration, offsets={}, error_before=None, error_after=None)
    later.save(tmp_path)
    assert load_calibration(tmp_path) == later


def test_calibrations_lie_among_the_models_and_are_none(calibration, tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    assert load_calibration() is None
    assert calibration.save().parent == calibrations_folder() == tmp_path / "calibrations"
    assert load_calibration() == calibration
    assert ModelRegistry().entries() == ()


def test_another_machine_s_calibration_is_not_loaded(calibration, tmp_path):
    replace(calibration, fingerprint="0" * 16).save(tmp_path)
    assert load_calibration(tmp_path) is None


def changed(calibration, **record):
    return json.dumps({**unsealed(json.loads(calibration.as_json())), **record})


DAMAGE = {
    "empty": lambda c: "",
    "cut off": lambda c: c.as_json()[:-20],
    "no object": lambda c: "[]",
    "nested too deeply": lambda c: "[" * 100_000,
    "another format": lambda c: changed(c, format=99),
    "a field too many": lambda c: changed(c, surprise=1),
    "another machine's": lambda c: changed(c, fingerprint="0" * 16),
    "a rate that is none": lambda c: changed(c, machine={**asdict(c.machine), "special": 0}),
    "a rate of text": lambda c: changed(c, machine={**asdict(c.machine), "special": "1e9"}),
    "a rate too few": lambda c: changed(c, machine={"special": 1e9}),
    "an offset without end": lambda c: changed(c, offsets={"product": float("inf")}),
    "an offset beyond all floats": lambda c: changed(c, offsets={"product": 10**400}),
    "no offsets": lambda c: changed(c, offsets=None),
    "no date": lambda c: changed(c, created_at="yesterday"),
    "a model of another type": lambda c: changed(c, model_id=None),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_logged_and_ignored(damage, calibration, tmp_path, caplog):
    path = calibration.save(tmp_path)
    path.write_text(DAMAGE[damage](calibration), encoding="utf-8")
    assert load_calibration(tmp_path) is None
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert "`hetune calibrate` makes a new one" in record.getMessage()


def test_files_that_cannot_be_read_are_logged_and_ignored(calibration, tmp_path, caplog):
    path = calibration.save(tmp_path)
    path.write_bytes(b"\xff\xfe")
    assert load_calibration(tmp_path) is None
    path.unlink()
    path.mkdir()
    assert load_calibration(tmp_path) is None
    assert len(caplog.records) == 2


def test_a_folder_that_cannot_be_written_is_an_error(calibration, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="or set HETUNE_MODELS to another one"):
        calibration.save(tmp_path / "file" / "calibrations")
