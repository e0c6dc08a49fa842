"""The selector: which variant of a layer to run on a graph, by learned cost."""

from __future__ import annotations

import functools
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict, TypeVar, Unpack

import numpy as np
from torch import nn

from hetune.costmodel.features.devices import Rates, default_rates, device_of
from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.model.bundle import load
from hetune.costmodel.model.cost_model import UNKNOWN_FACTOR, Contributions, CostModel
from hetune.costmodel.model.ties import faster_by_roofline
from hetune.costmodel.problems import LaunchBatch
from hetune.costmodel.registry.calibration import ROOFLINE, load_calibration
from hetune.costmodel.registry.default_model import (
    best_and_failure,
    calibrated,
    is_trained_here,
    warn_if_foreign,
)
from hetune.costmodel.registry.model_registry import ModelRegistry, State
from hetune.costmodel.selection.explanation import Explanation, explanation
from hetune.costmodel.selection.layer_variants import variants_for
from hetune.variants.errors import HetuneError, InputError, ModelError
from hetune.variants.frontend.presets import OF_EVERY_FAMILY
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision, check_precision
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.choice import Choice, choose
from hetune.variants.runtime.cost_estimates import CostEstimates, RooflineEstimator, replay_seconds
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.table import CandidateTable

RETRY_SECONDS = 30.0
"""How long a model that could not be loaded is not tried again."""
LEARNED = "the cost model"
"""Who predicts, for a reader, where it is not the roofline model."""
_ESTIMATING = 1.5e-3
"""Seconds that estimating takes on a new graph, about: "new" of `benchmarks/choosing.py`."""
_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class Options(TypedDict, total=False):
    """What `Selector.choose` takes beside a layer, a graph and widths."""

    heads: int
    memory_limit: int | None
    expected_runs: float
    cuda_graph: bool | None
    precision: Precision


class Selector:
    """Predicts what every variant costs, and chooses. Never fails: the roofline model is there.

    Args:
        model: Predicts seconds of launches; the roofline model if None.
        machine: Rates of this machine, for the device to choose for.
        offsets: What to add to the logarithm of predicted seconds, by kernel family: how this
            machine differs from the one that the model was trained on.
        device: What variants are chosen for; where None, what the model or the rates are for, and
            the CPU where there are none.

    Attributes:
        device: What variants are chosen for. Those for another device are left to the roofline
            model.

    Raises:
        ModelError: The model, the rates and the device do not go together.
    """

    def __init__(
        self,
        model: CostModel | None = None,
        machine: Rates | None = None,
        offsets: Mapping[str, float] = MappingProxyType({}),
        device: Device | None = None,
    ) -> None:
        if machine is None:
            machine = model.manifest.machine if model else default_rates(device or "cpu")
        self.device = device_of(machine)
        others = device, model.manifest.device if model else None
        if any(other not in (None, self.device) for other in others):
            raise ModelError(
                f"a selector is for one device, and its rates are those of {self.device!r}: give "
                "it a model, rates and device= of the same"
            )
        self.model, self.machine = model, machine
        self._offsets = dict(offsets)
        self._roofline = _roofline(machine)
        self._failed: set[str] = set()

    @classmethod
    def load(cls, path: Path | str | None = None, device: Device = "cpu") -> Selector:
        """A selector with a trained model, adapted to this machine if it was calibrated.

        Args:
            path: A bundle's folder. None: the champion of the model registry, else the
                bundle that comes with hetune, else the roofline model; what cannot be used is
                logged.
            device: What variants are chosen for; a bundle at a path is for the device that it
                names.

        Raises:
            ModelError: A path was given, and there is no bundle that can be used.

        Warns:
            ForeignModelWarning: The model, unless it is the package's, was trained on another
                machine and not calibrated on this one.
        """
        if path is None:
            registry = ModelRegistry(device=device)
            key = device, registry.root, registry.state
            found = _loaded(*key)
            if found.retry_at <= time.monotonic():
                _loaded.cache_clear()
                found = _loaded(*key)
            return found.selector
        model = load(path)
        if not calibrated(model):
            warn_if_foreign(model)
        return cls.adapted(model)

    @classmethod
    def adapted(cls, model: CostModel | None, registry: ModelRegistry | None = None) -> Selector:
        """A selector with a model, adapted to this machine if it was calibrated.

        Args:
            model: Predicts; if None the roofline model does, for the model registry's device.
            registry: Where calibrations are kept; the user's by default.
        """
        registry = registry or ModelRegistry()
        if model is not None and is_trained_here(model):
            return cls(model)
        if model is not None:
            registry = registry.of(model.manifest.device)
        calibration = load_calibration(registry.calibrations, registry.device)
        if calibration is None:
            return cls(model, device=registry.device)
        known = model.manifest.digest if model else ROOFLINE
        if calibration.model_id == known:
            return cls(model, calibration.machine, calibration.offsets)
        return cls(model, calibration.measured or calibration.machine)

    # Choosing.

    def choose(
        self,
        layer: nn.Module | Program | str,
        graph: HeteroGraph,
        widths: tuple[int, int] | int | None = None,
        *,
        heads: int = 1,
        memory_limit: int | None = None,
        expected_runs: float = math.inf,
        cuda_graph: bool | None = None,
        precision: Precision = "float32",
    ) -> Choice:
        """The variant that should run fastest.

        Args:
            layer: A layer of `hetune.nn`, one of PyG's relational ones, a program, or a name of
                `hetune.variants.frontend.presets` for that layer with default options.
            graph: What to run on.
            widths: Of the rows in and out (one number for both), for a layer given by name.
            heads: Attention heads, for a layer given by name.
            memory_limit: Most bytes that a run's temporaries, scratch and result may take.
            expected_runs: Over how many runs indexing the graph is spread.
            cuda_graph: Whether runs are replayed as one CUDA graph; chosen along with the variant
                if None. Nothing is on a CPU.
            precision: As of `hetune.compile`.

        Raises:
            VariantError: The module is another one, such as a traced layer.
            InputError: There is no such layer, its widths are missing or do not fit, the limit is
                no integer, or the runs are no positive number.
            MemoryLimitError: No variant fits the limit.
        """
        return choose(
            variants_for(layer, widths, heads, self.device, check_precision(precision)),
            graph,
            self,
            memory_limit=memory_limit,
            expected_runs=expected_runs,
            cuda_graph=cuda_graph,
        )

    def choose_stack(
        self,
        layers: Sequence[str],
        graph: HeteroGraph,
        widths: Sequence[int],
        **options: Unpack[Options],
    ) -> tuple[Choice, ...]:
        """One choice for each layer of a stack: what one gives out is what the next takes in.

        Args:
            layers: Names of presets, one for each layer.
            graph: What to run on.
            widths: Of the input and of each layer's output: one more than there are layers.
            options: `heads`, `memory_limit`, `expected_runs`, `cuda_graph` and `precision` of each
                layer, as of `choose`.

        Raises:
            InputError: The widths do not fit the layers.
            MemoryLimitError: No variant of a layer fits the limit.
        """
        if isinstance(layers, str) or not isinstance(layers, Iterable):
            raise InputError(f"layers={layers!r}: give a list of names, one for each layer")
        names = tuple(layers)
        try:
            given = tuple(widths)
        except TypeError:
            raise InputError(f"widths={widths!r}: give a list of integers") from None
        if len(given) != len(names) + 1:
            raise InputError(
                f"{len(given)} widths for {len(names)} layers: give the width of the input and "
                f"of each layer's output, {len(names) + 1} in all"
            )
        pairs = zip(names, itertools.pairwise(given), strict=True)
        return tuple(self.choose(layer, graph, pair, **options) for layer, pair in pairs)

    def explain(
        self,
        layer: nn.Module | Program | str,
        graph: HeteroGraph,
        widths: tuple[int, int] | int | None = None,
        **options: Unpack[Options],
    ) -> Explanation:
        """Why `choose` chooses what it does: time by launch, what mattered, and the runners-up.

        Takes and raises what `choose` does.
        """
        choice = self.choose(layer, graph, widths, **options)
        table, domain = choice.scored.table, choice.scored.domain
        estimates, threads = choice.scored.estimates, choice.threads

        def by_model(model: CostModel) -> tuple[np.ndarray, Contributions | None]:
            effects = model.contributions(_launches(table, domain, threads), self.machine)
            return self._bounds(model, table, domain, threads), effects

        around = np.array([1 / UNKNOWN_FACTOR, UNKNOWN_FACTOR])
        bounds, effects = self._answer(
            table, by_model, lambda: (estimates.launches[:, None] * around, None)
        )
        return explanation(choice, table, estimates, bounds, effects)

    def warm_up(self, layer: nn.Module | None = None, precision: Precision = "float32") -> Choice:
        """Chooses for a graph of one edge, so that nothing has to be waited for afterwards.

        The first choice compiles what computes features and asks trees; the first one for a layer
        plans its variants.

        Args:
            layer: As of `choose`; if None a layer whose launches are of every kernel family.
            precision: As of `choose`.

        Raises:
            VariantError: The module is another one, such as a traced layer.
        """
        graph = HeteroGraph(np.array([0]), np.array([1]))
        of = OF_EVERY_FAMILY if layer is None else layer
        return self.choose(of, graph, 1, precision=precision)

    # Estimating.

    def estimate(self, table: CandidateTable, domain: Domain, threads: int) -> CostEstimates:
        """Predictions for all variants of a table on a graph.

        Those of a table for another device are the roofline model's.
        """
        return self._answer(
            table,
            lambda model: self._estimated(model, table, domain, threads),
            lambda: self._roofline.estimate(table, domain, threads),
        )

    @property
    def estimating_seconds(self) -> float:
        """What estimating a layer's variants on a new graph takes, about."""
        return _ESTIMATING if self.model else self._roofline.estimating_seconds

    def spread(self, table: CandidateTable, domain: Domain, threads: int) -> np.ndarray:
        """How far off predictions may be, either way: factors, float64 [variants]."""

        def by_model(model: CostModel) -> np.ndarray:
            bounds = self._bounds(model, table, domain, threads) * table.runs(domain)[:, None]
            low, high = (table.totals(bounds[:, side]) for side in (0, 1))
            found: np.ndarray = np.maximum(np.sqrt(high / np.maximum(low, 1e-12)), 1.0)
            return found

        return self._answer(table, by_model, lambda: self._roofline.spread(table, domain, threads))

    def _answer(
        self,
        table: CandidateTable,
        by_model: Callable[[CostModel], _Answer],
        by_roofline: Callable[[], _Answer],
    ) -> _Answer:
        """The cost model's answer about a table, or the roofline model's where it has none."""
        if self.model is None or not self._knows(table):
            return by_roofline()
        try:
            return by_model(self.model)
        except Exception as error:  # whatever a model raises
            self._report(error)
            return by_roofline()

    def _knows(self, table: CandidateTable) -> bool:
        if table.device == self.device:
            return True
        self._report(
            f"it is for the device {self.device!r}, and variants for {table.device!r} are "
            f"compared: take Selector.load(device={table.device!r})"
        )
        return False

    def _scale(self, families: tuple[str, ...]) -> np.ndarray:
        """What calibration multiplies predictions by, float64 [rows]."""
        if not self._offsets:
            return np.ones(len(families))
        found: np.ndarray = np.exp([self._offsets.get(family, 0.0) for family in families])
        return found

    def _bounds(
        self, model: CostModel, table: CandidateTable, domain: Domain, threads: int
    ) -> np.ndarray:
        found = model.interval(_launches(table, domain, threads), self.machine)
        return _finite(found * self._scale(table.families)[:, None])

    def _estimated(
        self, model: CostModel, table: CandidateTable, domain: Domain, threads: int
    ) -> CostEstimates:
        batch, runs = _launches(table, domain, threads), table.runs(domain)
        predicted, roofline = model.predictions(batch, self.machine)
        launches = predicted * (self._scale(batch.families) * runs)
        launched = table.totals(launches + model.launch_seconds * runs)
        seconds = _finite(launched + model.run_seconds)
        prepare = _finite(model.prepare_seconds(table.preparation(domain)))
        replays = offered = None
        if isinstance(self.machine, GpuModel):
            replays = replay_seconds(table, batch.columns, launches, self.machine)
            replays = _finite(replays + model.run_seconds)
        else:
            offered = table.offered(batch.columns, self.machine)
        return CostEstimates(
            seconds,
            launches,
            prepare,
            LEARNED,
            replays=replays,
            default=table.default,
            tie=model.tie,
            agreed=faster_by_roofline(table.totals(roofline * runs), table.default),
            lacking=model.lacks(batch.families),
            offered=offered,
        )

    def _report(self, why: Exception | str) -> None:
        known = isinstance(why, str | HetuneError)
        reason = str(why) if known else f"{type(why).__name__}: {why}"
        if reason not in self._failed:
            self._failed.add(reason)
            _log.warning("the roofline model chooses in place of the cost model: %s", reason)


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    selector: Selector
    retry_at: float
    """By the monotonic clock; infinite unless a model failed that should choose."""


@functools.lru_cache(maxsize=8)
def _loaded(device: Device, root: Path, state: State) -> _Loaded:
    """One for all who ask, until another model or calibration is there."""
    model, failed = best_and_failure(device=device)
    selector = Selector.adapted(model, ModelRegistry(device=device))
    return _Loaded(selector, time.monotonic() + RETRY_SECONDS if failed else math.inf)


def _launches(table: CandidateTable, domain: Domain, threads: int) -> LaunchBatch:
    return LaunchBatch(table.families, table.columns(domain), graph_features(domain.graph), threads)


def _roofline(rates: Rates) -> RooflineEstimator:
    """With these rates for their device, and the defaults for others."""
    return RooflineEstimator(gpu=rates) if isinstance(rates, GpuModel) else RooflineEstimator(rates)


def _finite(seconds: np.ndarray) -> np.ndarray:
    if not np.isfinite(seconds).all():
        raise ModelError("it predicts times that are not finite: train it, or calibrate, again")
    return seconds
