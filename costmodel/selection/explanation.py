"""Why a variant was chosen: predicted time by launch, the features that mattered, runners-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetune.costmodel.model.cost_model import Contributions
from hetune.variants.kernel.nodes import Gemm, Kernel, Launch, Outer, SegmentSum
from hetune.variants.runtime.choice import Choice
from hetune.variants.runtime.cost_estimates import CostEstimates
from hetune.variants.runtime.table import CandidateTable

_MOST = 4
"""Features named for each launch."""


@dataclass(frozen=True, slots=True)
class LaunchExplanation:
    """A launch of the chosen variant.

    Attributes:
        what: Its kernels, in words.
        family: Its kernel family.
        seconds: Predicted time.
        low: 9 of 10 times of such launches should be above.
        high: And 9 of 10 below.
        features: What mattered most: a feature's name and the factor by which it changes the
            prediction (SHAP values), largest effect first; empty if the roofline model predicts.
    """

    what: str
    family: str
    seconds: float
    low: float
    high: float
    features: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a variant was chosen. Printed, it is a page of text.

    Attributes:
        choice: What was chosen, and what else there was.
        launches: The chosen variant's launches, in order.
        prepare_seconds: Predicted time of indexing and binding, beyond what every variant needs.
    """

    choice: Choice
    launches: tuple[LaunchExplanation, ...]
    prepare_seconds: float

    def __str__(self) -> str:
        lines = [f"{self.choice.id}: {self.choice.reason}", "", "launches of a run, in order:"]
        for launch in self.launches:
            bounds = f"{launch.low * 1e3:.3f} to {launch.high * 1e3:.3f}"
            lines.append(f"  {launch.seconds * 1e3:9.3f} ms ({bounds})  {launch.what}")
            if launch.features:
                effects = ", ".join(f"{name} x{factor:.2f}" for name, factor in launch.features)
                lines.append(f"             {effects}")
        if self.prepare_seconds > 0:
            lines.append(f"preparation beyond the cheapest: {self.prepare_seconds * 1e3:.3f} ms")
        return "\n".join([*lines, "", *str(self.choice).splitlines()[2:]])


def explanation(
    choice: Choice,
    table: CandidateTable,
    estimates: CostEstimates,
    bounds: np.ndarray,
    effects: Contributions | None,
) -> Explanation:
    """Takes a choice apart.

    Args:
        choice: What was chosen.
        table: The variants that there were.
        estimates: What they were predicted to take.
        bounds: Seconds between which the time of each row of the table should lie, [rows, 2].
        effects: What each feature adds to each row's prediction; None without a cost model.
    """
    position = next(i for i, v in enumerate(table.variants) if v.id == choice.id)
    launches = tuple(
        LaunchExplanation(
            _words(table.launches[row][0]),
            table.families[row],
            float(estimates.launches[row]),
            float(bounds[row, 0]),
            float(bounds[row, 1]),
            () if effects is None else _largest(effects, row),
        )
        for row in table.rows_of[position]
        if estimates.launches[row] > 0
    )
    prepare = float(estimates.prepare[position] - estimates.prepare.min())
    return Explanation(choice, launches, prepare)


def _largest(effects: Contributions, row: int) -> tuple[tuple[str, float], ...]:
    order = np.argsort(-np.abs(effects.values[row]), kind="stable")[:_MOST]
    order = order[effects.values[row, order] != 0]
    return tuple((effects.names[i], float(np.exp(effects.values[row, i]))) for i in order)


def _words(launch: Launch) -> str:
    return " + ".join(_kernel(kernel) for kernel in launch.kernels)


def _kernel(kernel: Kernel) -> str:
    rows = kernel.rows.space.value + (f"@{kernel.rows.group}" if kernel.rows.group else "")
    if isinstance(kernel, Outer):
        return f"outer {rows} {kernel.k}x{kernel.n}"
    if not isinstance(kernel, Gemm):
        return f"traverse {rows}"
    summed = "sum-" if isinstance(kernel.x, SegmentSum) else ""
    return f"{summed}gemm {rows} {kernel.k}x{kernel.n}"
