"""The cost model: seconds of launches, and of the variants that run them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features import graph
from hetune.costmodel.features.devices import (
    Rates,
    device_of,
    features_of,
    names_of,
)
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.model import train
from hetune.costmodel.model.manifest import FORMAT, FittedFamily, ModelManifest, TrainingData
from hetune.costmodel.model.preparation import fit_preparation
from hetune.costmodel.model.regressor import Target
from hetune.costmodel.model.ties import LEAST_TIES, default_of, offered_of, tie_of, unless_tied
from hetune.costmodel.model.train import FamilyModel, HeldOut
from hetune.costmodel.model.training_rows import TrainingRows, Weighting
from hetune.costmodel.problems import LaunchBatch, Problem
from hetune.costmodel.version import code_version
from hetune.variants.errors import ModelError
from hetune.variants.runtime.launch_columns import column_names

UNKNOWN_FACTOR = 2.0
"""How far off a prediction may be, either way, where no quantiles say."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """Why launches are predicted to take what they are predicted to take.

    Attributes:
        names: Names of the features.
        values: What each adds to the logarithm of seconds; float64 [rows, features].
        base: What none of them explains; float64 [rows].
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    base: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """Regressors by kernel family. Made by `fit`, or loaded from a bundle.

    Attributes:
        families: By kernel family.
        manifest: Where it comes from, and how good it is.
    """

    families: Mapping[str, FamilyModel]
    manifest: ModelManifest

    @classmethod
    def fit(
        cls,
        problems: Sequence[Problem],
        machine: Rates,
        fingerprint: Fingerprint,
        *,
        target: Target | str = "auto",
        weighting: Weighting | str = Weighting.REGRET,
        folds: int = 5,
    ) -> CostModel:
        """Fits to measured problems.

        Args:
            problems: Measured inputs, all of one machine and for one device; their order does not
                matter.
            machine: That machine's rates: a `MachineModel` where variants are made for the CPU, a
                `GpuModel` where they are for GPUs.
            fingerprint: That machine.
            target: What the trees predict; "auto" tries both, and keeps the one with less regret
                on graph families that were held out.
            weighting: How much each measured launch counts.
            folds: Parts that graph families are dealt into, to be held out in turn. 0 holds out
                nothing: it is quicker, there are no metrics and no intervals of the model's own,
                and `target` must be named.

        Raises:
            ModelError: There is too little to fit to, or it is of other machines or of another
                device than the rates.
        """
        targets = _targets(target, folds)
        problems = sorted(problems, key=_order)
        rows = TrainingRows.of(problems, machine, Weighting(weighting))
        if problems[0].machine != fingerprint.digest:
            raise ModelError(
                f"the problems were measured on machine {problems[0].machine}, and the fingerprint "
                f"is that of {fingerprint.digest}: give the one that they were measured on"
            )
        held_out = [HeldOut.of(rows, each, folds) for each in targets] if folds else []
        ties = {
            h.target: tie_of(functools.partial(rows.regrets, h.seconds), rows.device)
            for h in held_out
        }
        metrics = {str(h.target): train.score(rows, h.seconds, ties[h.target]) for h in held_out}
        best = train.best(held_out, metrics) if held_out else None
        families = train.fit_families(rows, best.target if best else targets[0], best)
        manifest = ModelManifest(
            format=FORMAT,
            features=names_of(rows.device),
            graph_features=graph.NAMES,
            columns=column_names(rows.device),
            target=str(best.target if best else targets[0]),
            weighting=str(weighting),
            families={name: _fitted_family(model) for name, model in families.items()},
            overhead=rows.overhead,
            preparation=fit_preparation(problems),
            data=TrainingData.of(problems),
            fingerprint=fingerprint,
            machine=machine,
            metrics={**metrics, "roofline": train.score(rows, rows.roofline)},
            code_version=code_version(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            files={},
            device=rows.device,
            tie=ties[best.target] if best else 1.0,
        )
        return cls(families, manifest)

    def predict(self, launches: LaunchBatch, machine: Rates) -> NDArray[np.float64]:
        """Seconds of launches on a graph.

        A kernel family that the model lacks gets what the roofline model says. See `lacks`.

        Args:
            launches: What runs.
            machine: Rates of the machine that they will run on.

        Returns:
            float64 [launches].

        Raises:
            ModelError: The rates are those of another device than the model is for.
        """
        return self.predictions(launches, machine)[0]

    def predictions(
        self, launches: LaunchBatch, machine: Rates
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What `predict` gives, and what the roofline model says; each float64 [launches]."""
        X, roofline = self._features(launches, machine)
        return self._predicted(launches.families, X, roofline), roofline

    def interval(self, launches: LaunchBatch, machine: Rates) -> NDArray[np.float64]:
        """Seconds between which 4 of 5 launches on new graphs lie.

        Takes what `predict` takes. The prediction is never outside. Where no quantiles are fitted
        the bounds are half and twice the prediction.

        Returns:
            float64 [launches, 2].
        """
        X, roofline = self._features(launches, machine)
        seconds = self._predicted(launches.families, X, roofline)
        bounds = np.tile(np.log([1 / UNKNOWN_FACTOR, UNKNOWN_FACTOR]), (len(seconds), 1))
        for family, places in _places(launches.families):
            model = self.families.get(family)
            if model is not None and model.quantiles is not None:
                bounds[places] = model.quantiles.predict(X[places])
        bounds[:, 0] = np.minimum(bounds[:, 0], 0)
        bounds[:, 1] = np.maximum(bounds[:, 1], 0)
        result: NDArray[np.float64] = seconds[:, None] * np.exp(bounds)
        return result

    def contributions(self, launches: LaunchBatch, machine: Rates) -> Contributions:
        """What each feature adds to the prediction of each launch: SHAP values.

        Takes what `predict` takes. Where the roofline model answers, all of it is in the base.
        """
        X, roofline = self._features(launches, machine)
        found = np.zeros((len(X), X.shape[1] + 1))
        found[:, -1] = np.log(roofline)
        for family, places in _places(launches.families):
            if (model := self.families.get(family)) is not None:
                found[places] = model.regressor.contributions(X[places], roofline=roofline[places])
        return Contributions(self.manifest.features, found[:, :-1], found[:, -1])

    def lacks(self, families: Iterable[str]) -> tuple[str, ...]:
        """Those of some kernel families that the roofline model answers for."""
        return tuple(sorted(set(families) - self.families.keys()))

    def totals(self, problem: Problem, machine: Rates | None = None) -> dict[str, float]:
        """Predicted seconds of a run of each variant of a measured problem, by id.

        Args:
            problem: Its times are not looked at.
            machine: Rates of the machine; those that the model was fitted with by default.
        """
        seconds, _ = self._totals(problem, machine)
        names = (candidate.variant for candidate in problem.candidates)
        return dict(zip(names, seconds.tolist(), strict=True))

    def choose(self, problem: Problem, machine: Rates | None = None) -> str:
        """The variant that a selector would take on a measured problem, prepared or not.

        Takes what `totals` takes.
        """
        seconds, roofline = self._totals(problem, machine)
        seconds[~offered_of(problem, machine or self.manifest.machine)] = np.inf
        chosen = unless_tied(seconds, roofline, default_of(problem), self.tie)
        return problem.candidates[chosen].variant

    def _totals(
        self, problem: Problem, machine: Rates | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What `totals` says, and what the roofline model says; each float64 [variants]."""
        launches = [each for c in problem.candidates for each in c.launches]
        batch = LaunchBatch.of(problem, ((each.family, each.columns) for each in launches))
        counts = np.array([len(candidate.launches) for candidate in problem.candidates])
        owners = np.repeat(np.arange(len(counts)), counts)
        seconds, roofline = (
            np.bincount(owners, by_launch, minlength=len(counts)).astype(np.float64)
            for by_launch in self.predictions(batch, machine or self.manifest.machine)
        )
        return seconds + self.manifest.overhead.seconds(counts.astype(np.float64)), roofline

    def prepare_seconds(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds of indexing a graph and binding variants to it, float64 [variants].

        Args:
            amounts: `CandidateTable.preparation`, float64 [variants, `PREPARATION`].
        """
        found: NDArray[np.float64] = amounts @ np.array(self.manifest.preparation)
        return found

    @property
    def tie(self) -> float:
        """How many times as long as the least one the default variant's prediction may be.

        No less than `LEAST_TIES`: older models have learned smaller ones.
        """
        return max(self.manifest.tie, LEAST_TIES[self.manifest.device])

    @property
    def launch_seconds(self) -> float:
        """What each launch of a run costs beyond the launch itself."""
        return self.manifest.overhead.launch_seconds

    @property
    def run_seconds(self) -> float:
        """What each run costs beyond its launches."""
        return self.manifest.overhead.run_seconds

    def _predicted(
        self,
        families: tuple[str, ...],
        X: NDArray[np.float32],
        roofline: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Seconds of launches, of what `_features` gives."""
        seconds = roofline.copy()
        for family, places in _places(families):
            if (model := self.families.get(family)) is not None:
                seconds[places] = model.regressor.predict(X[places], roofline=roofline[places])
        return seconds

    def _features(
        self, launches: LaunchBatch, machine: Rates
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Features of launches, and the roofline model's seconds."""
        device = self.manifest.device
        if device_of(machine) != device:
            raise ModelError(
                f"the cost model is for the device {device!r}, and the rates are those of "
                f"{device_of(machine)!r}: ask the one of that device"
            )
        return features_of(launches.columns, launches.graph_features, machine, launches.threads)


@functools.lru_cache(maxsize=256)
def _places(families: tuple[str, ...]) -> tuple[tuple[str, NDArray[np.intp]], ...]:
    """The rows of each kernel family."""
    names = np.array(families)
    return tuple((str(name), np.flatnonzero(names == name)) for name in dict.fromkeys(families))


def _order(problem: Problem) -> tuple[object, ...]:
    """The same for the same problems, however they are stored."""
    what = problem.program.label, problem.program.digest, problem.threads
    return problem.family, problem.graph, *what, problem.graph_fingerprint


def _targets(target: Target | str, folds: int) -> list[Target]:
    if target == "auto" and not folds:
        raise ModelError("with no folds there is nothing to choose the target by: name it")
    if target == "auto":
        return list(Target)
    if target not in list(Target):
        raise ModelError(f"there is no target {target!r}: choose auto, {', '.join(Target)}")
    return [Target(target)]


def _fitted_family(model: FamilyModel) -> FittedFamily:
    quantiles = model.quantiles
    return FittedFamily(
        model.rows,
        _parameters(model.regressor.get_params()),
        _parameters(quantiles.get_params()) if quantiles else None,
        quantiles.widening_ if quantiles else 0.0,
    )


def _parameters(params: Mapping[str, object]) -> dict[str, object]:
    """Without what is the same in the whole manifest."""
    return {name: value for name, value in params.items() if name not in ("features", "increasing")}
