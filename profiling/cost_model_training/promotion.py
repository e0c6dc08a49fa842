"""Judging cost models on measured graphs that they have not seen, and promoting those that win."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetune.costmodel.evaluate import baselines
from hetune.costmodel.evaluate.metrics import ROOFLINE, Chooser
from hetune.costmodel.evaluate.prediction_time import with_prediction_times
from hetune.costmodel.evaluate.report import MODEL, Report, evaluate
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training.train import report_of
from hetune.profiling.store.problems import Selection, select
from hetune.profiling.store.store import ALL, Store
from hetune.variants.errors import InputError, ModelError


class NothingUnseenError(InputError):
    """There is nothing to judge models on.

    Args:
        message: What the user reads.
        reasons: As `hetune.profiling.store.problems.Selection.reasons`.
    """

    def __init__(self, message: str, reasons: str) -> None:
        super().__init__(message)
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class Promotion:
    """A model that became the champion, or was it.

    Attributes:
        model: Its id.
        report: How it was judged.
    """

    model: str
    report: Report

    @property
    def regret(self) -> float:
        """Geometric mean over the inputs that it was judged on."""
        return self.report.score(MODEL).regret


def promote(
    registry: ModelRegistry, name: str, store: Store, machine: str | None = None
) -> Promotion:
    """Makes a model the champion, unless it loses to the present one or to a fixed variant.

    Both are judged on measured graphs whose families neither was trained on. Without such graphs
    the candidate's own report from training counts, if there is no champion that can be used.

    Args:
        registry: Where they are.
        name: Id or alias.
        store: Where measurements are.
        machine: As in `Store.measurements`.

    Raises:
        PromotionError: It loses.
        NothingUnseenError: There is nothing to judge it on, and a champion, or nothing is known of
            the machine.
        ModelError: There is no such model, or it cannot be used.
        StoreError: As `Store.measurements`.
    """
    key = registry.find(name)
    candidate, (before, champion) = registry.load(key), _champion(registry)
    champion_report = None
    try:
        found = unseen(store, machine, [candidate, *([champion] if champion else [])])
    except NothingUnseenError:
        trained_on = candidate.manifest.fingerprint.digest
        known = {None, ALL, trained_on, *(known.digest for known in store.machines())}
        if champion is not None or machine not in known:
            raise
        report = report_of(registry, key)
    else:
        report = judged(candidate, found)
        champion_report = judged(champion, found) if champion else None
    registry.promote(key, report=report, champion_report=champion_report, champion=before)
    return Promotion(key, report)


def judged(model: CostModel, found: Selection) -> Report:
    """How a model chooses on problems, beside the roofline model with its machine's rates."""
    rates = model.manifest.machine
    choosers: dict[str, Chooser] = {
        MODEL: functools.partial(model.choose, machine=rates),
        ROOFLINE: baselines.roofline(rates),
    }
    about = {"split": "graph families that were not trained on", **found.about}
    report = evaluate(found.problems, choosers, about)
    return with_prediction_times(report, model, found.problems, rates)


def unseen(store: Store, machine: str | None, models: Sequence[CostModel]) -> Selection:
    """What a store knows of graph families that no model was trained on, and what is left out.

    Args:
        store: Where measurements are.
        machine: As in `Store.measurements`.
        models: Those that are to be judged, for one device.

    Raises:
        NothingUnseenError: It knows nothing of others.
        StoreError: As `Store.measurements`.
    """
    known = {family for model in models for family in model.manifest.data.graph_families}
    device = models[0].manifest.device
    found = select(store, machine, device=device)
    left = tuple(problem for problem in found.problems if problem.family not in known)
    if not left:
        raise NothingUnseenError(
            f"{store.place} holds no measurements for the device {device!r} on "
            f"graphs of families that were not trained on{found.reasons}: profile some "
            "(`hetune profile` with files of yours)",
            found.reasons,
        )
    return replace(found, problems=left)


def _champion(registry: ModelRegistry) -> tuple[str | None, CostModel | None]:
    """The champion and its id; None where there is none, or it cannot be used."""
    name = registry.aliases().champion
    if name is None:
        return None, None
    try:
        return name, registry.load(name)
    except ModelError:  # which `ModelRegistry` logs
        return name, None
