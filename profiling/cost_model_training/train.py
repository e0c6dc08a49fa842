"""From the measurements of a machine to a judged cost model in the model registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hetune.costmodel.evaluate.metrics import ROOFLINE
from hetune.costmodel.evaluate.model_card import card_of, write_card
from hetune.costmodel.evaluate.prediction_time import with_prediction_times
from hetune.costmodel.evaluate.report import MODEL, Report, cross_validate
from hetune.costmodel.features.devices import Rates, default_rates
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.problems import Problem
from hetune.costmodel.registry.calibration import load_calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.store.problems import Selection, select
from hetune.profiling.store.store import Store
from hetune.variants.errors import InputError, ModelError
from hetune.variants.kernel.device import Device
from hetune.variants.registry.atomic_files import write_atomically

FOLDS = 5
LEAST_FAMILIES = 2
"""How many graph families a model takes: one to train on, and one to judge it on."""
_REPORT = "report.json"
_ANEW = "train it again, or profile graphs of other families"


@dataclass(frozen=True, slots=True)
class Data(Selection):
    """What a model is fitted to: problems of variants for one device.

    Attributes:
        measured_on: The machine.
        rates: Its rates for that device, if it is this one and was calibrated; else the defaults.
    """

    measured_on: Fingerprint
    rates: Rates

    def check_families(self) -> None:
        """Checks that some graph families can be held out, before anything is fitted.

        Raises:
            InputError: There are too few; the message says what does not count, and what to run.
        """
        families = sorted({problem.family for problem in self.problems})
        if len(families) < LEAST_FAMILIES:
            option = _option(self.problems[0].device)
            said = (
                f"all measurements that count are of one graph family, {families[0]!r}, but a cost "
                "model is trained on some families and judged on others",
                *self.remarks,
                f"profile graphs of another family (`hetune profile{option}` measures several), "
                "and train again",
            )
            raise InputError("; ".join(said))


def gather(store: Store, machine: str | None = None, device: Device = "cpu") -> Data:
    """All that a store knows of layers on a machine.

    Args:
        store: Where measurements are.
        machine: As in `Store.measurements`.
        device: What the variants are made for that count.

    Raises:
        ModelError: It knows nothing.
        StoreError: As `Store.measurements`.
    """
    found = select(store, machine, device=device, least_families=LEAST_FAMILIES)
    if not found.problems:
        raise ModelError(
            f"{store.place} holds no measurements of layers for the device {device!r} to train on"
            f"{found.reasons}: run `hetune profile{_option(device)}` first"
        )
    digest = found.problems[0].machine
    measured_on = next(m.fingerprints[-1] for m in store.machines() if m.digest == digest)
    return Data(found.problems, found.remarks, measured_on, _rates(measured_on, device))


def judge(
    model: CostModel,
    data: Data,
    folds: int = FOLDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """How such a model chooses on graph families that it has not seen, each held out in turn.

    And what asking it takes (`with_prediction_times`).

    Args:
        model: Fitted to the data: others are fitted alike to parts of these, and choose by its tie.
        data: What was measured.
        folds: Parts that families are dealt into.
        progress: Called before each fold with how many are done, and how many there are.

    Raises:
        InputError: There are too few families.
    """
    papers = model.manifest

    def fit(training: Sequence[Problem]) -> CostModel:
        rates, machine = data.rates, papers.fingerprint
        fitted = CostModel.fit(training, rates, machine, target=papers.target, folds=0)
        return CostModel(fitted.families, replace(fitted.manifest, tie=papers.tie))

    report = cross_validate(
        data.problems,
        fit,
        folds=folds,
        machine=data.rates,
        about={
            "split": f"graph families held out in {folds} parts, each in turn",
            **data.about,
        },
        progress=lambda done, total, held_out: progress(done, total),
    )
    return with_prediction_times(report, model, data.problems, data.rates)


def keep(model: CostModel, data: Data, report: Report, registry: ModelRegistry) -> tuple[str, Path]:
    """Makes a model the model registry's candidate, with its card and report; its id, and the card.

    The regrets of its manifest are the report's from then on, so that lists and the card agree.

    Raises:
        ModelError: The model registry is for another device, or it, the card or the report cannot
            be written.
    """
    model = _as_judged(model, report)
    key = registry.add(model)
    folder = cards_folder(registry, key)
    try:
        files = write_card(card_of(model, data.problems, report), folder)
        write_atomically(folder / _REPORT, report.as_json().encode())
    except OSError as error:
        raise ModelError(
            f"cannot write the card of the candidate {key} to {folder} "
            f"({error.strerror or error}): free some space, or make the folder writable, and "
            "train again"
        ) from error
    return key, files[-1]


def train(
    store: Store, machine: str, registry: ModelRegistry, *, target: str = "auto", folds: int = FOLDS
) -> str:
    """A new candidate for a machine, and for the device of the model registry; its id there.

    Args:
        store: Where measurements are.
        machine: Digest of the machine's fingerprint.
        registry: Where the model goes.
        target: As in `CostModel.fit`.
        folds: Parts that graph families are dealt into, to be held out in turn.

    Raises:
        ModelError: Nothing was measured on it, or the model registry cannot be written.
        InputError: There are too few families of graphs to judge a model.
    """
    data = gather(store, machine, registry.device)
    data.check_families()
    rates, measured_on = data.rates, data.measured_on
    model = CostModel.fit(data.problems, rates, measured_on, target=target, folds=folds)
    return keep(model, data, judge(model, data, folds), registry)[0]


def cards_folder(registry: ModelRegistry, key: str) -> Path:
    """Where a model's card and report are kept."""
    return registry.root / "cards" / key


def report_of(registry: ModelRegistry, key: str) -> Report:
    """The report that a model was kept with.

    Raises:
        InputError: There is none.
        ModelError: It is damaged, or cannot be read.
    """
    path = cards_folder(registry, key) / _REPORT
    try:
        report = Report.from_json(path.read_text(encoding="utf-8"))
        if not all(math.isfinite(score.regret) for score in report.scores.values()):
            raise ValueError("a regret that is not finite")
    except FileNotFoundError as error:
        raise InputError(
            f"there is no report of the cost model {key} at {path}, and no measurements to judge "
            f"it on: {_ANEW}"
        ) from error
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({error.strerror or error}): make it readable"
        ) from error
    except Exception as error:  # whatever is in it
        raise ModelError(
            f"{path} is damaged ({type(error).__name__}: {error}), and there are no measurements "
            f"to judge {key} on: {_ANEW}"
        ) from error
    return report


def _as_judged(model: CostModel, report: Report) -> CostModel:
    papers, scores = model.manifest, report.scores
    metrics = dict(papers.metrics)
    for name, chooser in ((papers.target, MODEL), ("roofline", ROOFLINE)):
        if chooser in scores:
            score = scores[chooser]
            found = {
                "regret": score.regret,
                "regret_p95": score.regret_p95,
                "regret_max": score.regret_max,
            }
            metrics[name] = {**metrics.get(name, {}), **found}
    return CostModel(model.families, replace(papers, metrics=metrics))


def _option(device: Device) -> str:
    return "" if device == "cpu" else f" --device {device}"


def _rates(machine: Fingerprint, device: Device) -> Rates:
    calibration = load_calibration(device=device)
    if calibration is not None and calibration.fingerprint == machine.digest:
        return calibration.measured or calibration.machine
    return default_rates(device)
