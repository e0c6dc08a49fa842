"""Learning curves: regret on held-out graphs by the number of units measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _measure import geometric_mean
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from hetune.costmodel.data import Problem
from hetune.costmodel.model.regressor import Target
from hetune.costmodel.model.rows import Rows
from hetune.costmodel.model.ties import LEAST_TIES, default_of, unless_tied
from hetune.costmodel.model.train import fit_regressors
from hetune.profiling.active.committee import Committee
from hetune.profiling.active.plan import Planner, batch
from hetune.profiling.active.view import View
from hetune.variants.runtime.roofline import MachineModel

STRATEGIES = ("uniform", "active")
_RESAMPLES = 1000


class Simulation:
    """Measured problems, revealed unit by unit.

    Args:
        pool: What may be revealed.
        judged: Held-out problems, of which all is known.
        machine: Rates for the roofline model.
        ties: Whether ties go to the default variant, as where hetune chooses.
    """

    def __init__(
        self,
        pool: Sequence[Problem],
        judged: Sequence[Problem],
        machine: MachineModel,
        *,
        ties: bool = True,
    ) -> None:
        self._pool, self._judged, self._machine = pool, judged, machine
        self._ties = ties
        self._views = [View.of_measured(problem, machine) for problem in pool]
        self._held_out = [View.of_measured(problem, machine) for problem in judged]
        self.units = sum(len(problem.candidates) for problem in pool)

    def curve(self, strategy: str, sizes: Sequence[int], seed: int) -> list[float]:
        """Regret after so many units, the geometric mean over the held-out problems."""
        left = [np.ones(len(problem.candidates), np.bool_) for problem in self._pool]
        order = self._shuffled(seed)
        planner = Planner(self._views, self._machine, seed=seed)
        found, done = [], 0
        for size in sizes:
            while done < size:
                count = batch(done, size)
                if strategy == "uniform":
                    chosen = order[done : done + count]
                else:
                    known = [~hidden for hidden in left]
                    chosen = planner.next(self._revealed(left), known, left, count)
                for problem, place in chosen:
                    left[problem][place] = False
                done += count
            found.append(self._regret(self._revealed(left)))
        return found

    def _shuffled(self, seed: int) -> list[tuple[int, int]]:
        units = [(i, v) for i, p in enumerate(self._pool) for v in range(len(p.candidates))]
        return [units[i] for i in np.random.default_rng(seed).permutation(len(units))]

    def _revealed(self, left: Sequence[np.ndarray]) -> list[Problem]:
        found = []
        for problem, hidden in zip(self._pool, left, strict=True):
            if not hidden.all():
                known = tuple(c for c, h in zip(problem.candidates, hidden, strict=True) if not h)
                found.append(replace(problem, candidates=known))
        return found

    def _regret(self, measured: Sequence[Problem]) -> float:
        """Of what a cost model fitted to that chooses, by the least tie of its device if any."""
        rows = Rows.of(measured, self._machine)
        regressors = fit_regressors(rows, Target.RATIO)
        model = Committee((regressors,), rows.overhead.launch_seconds)
        logs = []
        for problem, seconds in zip(self._judged, model.predict(self._held_out), strict=True):
            default = default_of(problem) if self._ties else None
            chosen = problem.candidates[
                unless_tied(seconds[0], default, LEAST_TIES[problem.device])
            ]
            logs.append(np.log(chosen.seconds / problem.best.seconds))
        return float(np.exp(np.mean(logs)))


def falling(values: Sequence[float]) -> np.ndarray:
    """The nearest sequence that never rises (isotonic regression): noise of the curve taken out."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return np.concatenate([np.full(n, value) for value, n in blocks])


def units_needed(sizes: Sequence[int], regrets: np.ndarray, level: float) -> float | None:
    """How many units a falling curve takes to come down to a level; None if it does not."""
    reached = np.flatnonzero(regrets <= level)
    if not reached.size:
        return None
    i = int(reached[0])
    if i == 0 or regrets[i - 1] == regrets[i]:
        return float(sizes[i])
    share = (regrets[i - 1] - level) / (regrets[i - 1] - regrets[i])
    low, high = np.log(sizes[i - 1]), np.log(sizes[i])
    return float(np.exp(low + share * (high - low)))


def ratios(sizes: Sequence[int], uniform: np.ndarray, active: np.ndarray) -> list[dict[str, Any]]:
    """For each level that the uniform curve comes down to: what the active one needs for it.

    Not for the first point, before which neither curve is known. A level that the active curve does
    not come down to counts as if it did at the last point.
    """
    found = []
    for i, level in enumerate(uniform):
        if level == uniform[max(0, i - 1)]:
            continue
        needed = units_needed(sizes, active, float(level))
        found.append(
            {
                "regret": round(float(level), 4),
                "uniform_units": int(sizes[i]),
                "active_units": None if needed is None else round(needed),
                "ratio": round((sizes[-1] if needed is None else needed) / sizes[i], 3),
            }
        )
    return found


def overall(levels: Sequence[dict[str, Any]]) -> float:
    """Units needed for the same regret, as a share of the uniform ones: geometric mean."""
    return geometric_mean([level["ratio"] for level in levels])


def levels_of(sizes: Sequence[int], curves: Mapping[str, ArrayLike]) -> list[dict[str, Any]]:
    """`ratios` of the falling means over seeds.

    Args:
        sizes: Numbers of units.
        curves: Regrets by strategy; [seeds, sizes].
    """
    uniform, active = (falling(np.exp(np.log(curves[name]).mean(axis=0))) for name in STRATEGIES)
    return ratios(sizes, uniform, active)


def interval(sizes: Sequence[int], curves: Mapping[str, ArrayLike]) -> tuple[float, float]:
    """Where the share lies in nine of ten resamples of the seeds (Efron's bootstrap, 1979)."""
    tables = {name: np.array(table) for name, table in curves.items()}
    rng = np.random.default_rng(0)
    seeds = len(tables["uniform"])
    found = []
    for _ in range(_RESAMPLES):
        drawn = rng.integers(seeds, size=seeds)
        found.append(overall(levels_of(sizes, {n: table[drawn] for n, table in tables.items()})))
    low, high = np.nanquantile(found, [0.05, 0.95])
    return float(low), float(high)


def plot(
    sizes: Sequence[int], curves: dict[str, list[list[float]]], floor: float, path: Path
) -> Path:
    """Both curves with the spread over seeds, and the falling means, into a PNG."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    panel = figure.subplots()
    styles = {
        "uniform": ("by chance (uniform)", "#8a8a8a", (0, (5, 2)), "s"),
        "active": ("by what models are unsure of (active)", "#1d3557", "-", "o"),
    }
    for strategy in STRATEGIES:
        label, colour, dashes, mark = styles[strategy]
        table = np.array(curves[strategy])
        mean = np.exp(np.log(table).mean(axis=0))
        error = np.exp(np.log(table).std(axis=0) / np.sqrt(len(table)))
        panel.fill_between(sizes, mean / error, mean * error, color=colour, alpha=0.18, linewidth=0)
        panel.plot(sizes, mean, mark, color=colour, markersize=4)
        panel.plot(sizes, falling(mean), color=colour, linestyle=dashes, linewidth=2, label=label)
    panel.axhline(floor, color="black", linewidth=0.8, linestyle=(0, (1, 2)))
    panel.annotate(
        "noise: the fastest one always chosen", (sizes[0], floor), (0, 3),
        textcoords="offset points", fontsize=8.5,
    )  # fmt: skip
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("units measured")
    panel.set_ylabel("regret on held-out families (geometric mean)")
    panel.grid(color="#e3e3e3", linewidth=0.7)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(title="units chosen")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    return path
