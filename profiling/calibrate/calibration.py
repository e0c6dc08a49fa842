"""Calibrating: measured rates, and what they leave to correct in the cost model's predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hetune.costmodel.features.devices import Rates, default_rates, device_of
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.calibration import ROOFLINE, Calibration, load_calibration
from hetune.costmodel.registry.default_model import ForeignModelWarning, is_trained_here, load_best
from hetune.profiling.calibrate.correction import Observed, correct, error, predictions
from hetune.profiling.calibrate.gpu_rates import measure_gpu
from hetune.profiling.calibrate.observations import observe
from hetune.profiling.calibrate.rates import ROUNDS, measure_machine
from hetune.profiling.measure.bench import place_of
from hetune.profiling.measuring_lock import measuring_lock
from hetune.variants.kernel.device import Device

Progress = Callable[[str, int, int], None]
"""Called with what is at work, how much of it is done, and how much there is."""

_QUICK_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """What calibrating found.

    Attributes:
        calibration: To be saved.
        measured: The measured rates. A calibration has others where a cost model predicts the
            measured launches better with the rates that it was trained with.
        at_home: Whether the cost model was trained on this machine: it is used as it is.
    """

    calibration: Calibration
    measured: Rates
    at_home: bool


def calibrate(
    *,
    quick: bool = False,
    progress: Progress = lambda what, done, total: None,
    device: Device = "cpu",
) -> CalibrationResult:
    """Measures this machine, and corrects the cost model that answers on it; nothing is saved.

    Works with torch's number of threads, and waits for whoever else measures on this machine. Takes
    a quarter of a minute on two idle cores, and again as long where kernels have to be compiled.

    Args:
        quick: Measure rates only, in a few seconds.
        progress: Tells how far it is.
        device: What variants are made for.

    Raises:
        CompileError: There is no compiler, or no Triton for a GPU.
        VariantError: A GPU is to be measured, and there is none.
        WorkerError: The lock of those who measure cannot be taken.
    """
    with warnings.catch_warnings():
        # That the model is of another machine is what is about to be mended.
        warnings.simplefilter("ignore", ForeignModelWarning)
        model = load_best(device=device)
    at_home = model is not None and is_trained_here(model)
    with measuring_lock():
        measured = _measured(device, quick, progress)
        observed = () if quick or at_home else observe(progress=progress, device=device)
    kept = None if observed else load_calibration(device=device)
    return CalibrationResult(_calibration(model, measured, observed, kept), measured, at_home)


def _measured(device: Device, quick: bool, progress: Progress) -> Rates:
    def show(done: int, total: int) -> None:
        progress("measuring rates", done, total)

    if device == "cpu":
        return measure_machine(rounds=_QUICK_ROUNDS if quick else ROUNDS, progress=show)
    return measure_gpu(place_of(device), progress=show)


def _calibration(
    model: CostModel | None,
    measured: Rates,
    observed: tuple[Observed, ...],
    kept: Calibration | None,
) -> Calibration:
    found = Calibration(
        machine=measured,
        offsets={},
        fingerprint=this_machine().digest,
        model_id=ROOFLINE if model is None else model.manifest.digest,
        created_at=datetime.now(UTC),
        error_before=None,
        error_after=None,
    )
    if not observed:
        if kept is None or model is None or kept.model_id != found.model_id:
            return replace(found, model_id=ROOFLINE)  # nothing is known of the model
        # What was learned of it stays, with the rates that it was learned with.
        return replace(kept, created_at=found.created_at, measured=measured)
    before = default_rates(device_of(measured)) if model is None else model.manifest.machine
    earlier = error(observed, predictions(model, before))
    if model is None:
        # The roofline model takes no offsets.
        later = error(observed, predictions(None, measured))
        return replace(found, error_before=earlier, error_after=later)
    corrections = [
        (machine, correct(observed, predictions(model, machine))) for machine in (measured, before)
    ]
    machine, best = min(corrections, key=lambda pair: pair[1].error)
    return replace(
        found,
        machine=machine,
        measured=None if machine is measured else measured,
        offsets=best.offsets,
        error_before=earlier,
        error_after=best.error,
    )
