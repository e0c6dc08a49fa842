"""The pictures of a model card, as PNG bytes. Needs matplotlib (the extra ``report``).

Everything can be told apart without colour: by shade, dashes and marks.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from hetune.costmodel.evaluate.baselines import BY_GRAPH, BY_WIDTH, FIRST_RUN, TRAINED_FIXED
from hetune.costmodel.evaluate.metrics import FIXED, ROOFLINE
from hetune.costmodel.evaluate.points import Points
from hetune.costmodel.evaluate.report import MODEL, Report
from hetune.costmodel.evaluate.tables import shown

_DPI = 160
_INK, _GRID, _RUST = "#1a1a1a", "#e3e3e3", "#b5410f"
_LINES: Mapping[str, Mapping[str, Any]] = {
    MODEL: {"color": _INK, "linewidth": 2.6},
    FIXED: {"color": _RUST, "linewidth": 1.6, "linestyle": (0, (6, 2))},
    TRAINED_FIXED: {"color": "#d98a5f", "linewidth": 1.2, "linestyle": (0, (6, 2, 1, 2))},
    ROOFLINE: {"color": "#1f5fa8", "linewidth": 1.6, "linestyle": (0, (1, 1))},
    BY_WIDTH: {"color": "#6d8f2f", "linewidth": 1.2, "linestyle": (0, (3, 3))},
    BY_GRAPH: {"color": "#7a5aa6", "linewidth": 1.2, "linestyle": (0, (8, 2, 1, 2, 1, 2))},
    FIRST_RUN: {"color": "#9a9a9a", "linewidth": 1.6},
}
_MARKS = (("o", "#1d3557"), ("s", "#ffffff"), ("^", "#7aa6d1"), ("D", "#f3b98b"))
_DENSITY = LinearSegmentedColormap.from_list("density", ["#b5cde6", "#08306b"])
_FACTOR = 2.0
_REGRETS = (1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50, 100, 200)
_STEPS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))
"""Within a power of ten, the coarsest that give enough."""


def predicted_against_measured(points: Mapping[str, Points]) -> bytes:
    """A panel for each kernel family: how often which prediction met which time."""
    figure, panels = _figure(len(points), width=4.0, height=4.1)
    for panel, (family, found) in zip(panels, sorted(points.items()), strict=True):
        measured, predicted = np.array(found.measured) * 1e3, np.array(found.predicted) * 1e3
        low = min(measured.min(), predicted.min()) / 1.3
        high = max(measured.max(), predicted.max()) * 1.3
        exponents = tuple(np.log10([low, high, low, high]))
        panel.hexbin(
            measured, predicted, xscale="log", yscale="log", bins="log", gridsize=48,
            extent=exponents, cmap=_DENSITY, mincnt=1, linewidths=0.2,
        )  # fmt: skip
        ends = np.array([low, high])
        panel.plot(ends, ends, color=_INK, linewidth=1)
        for factor in (_FACTOR, 1 / _FACTOR):
            panel.plot(ends, ends * factor, color=_INK, linewidth=0.7, linestyle=(0, (4, 4)))
        panel.set_xlim(low, high)
        panel.set_ylim(low, high)
        panel.set_aspect("equal")
        for axis in (panel.xaxis, panel.yaxis):
            _set_ticks(axis, _log_ticks(low, high))
        panel.set_title(f"{family}: {measured.size:,} launches", fontweight="bold")
        remark = (
            f"median error {found.median_error:.0%}\n"
            f"{found.share_within(_FACTOR):.1%} within {_FACTOR:g}x"
        )
        panel.text(0.04, 0.96, remark, transform=panel.transAxes, va="top", fontsize=9)
        panel.set_xlabel("measured (ms)")
        panel.set_ylabel("predicted (ms)")
    return _png(figure)


def regret_distribution(report: Report) -> bytes:
    """Share of problems by regret, for the model and the baselines that come near."""
    figure, (panel,) = _figure(1, width=7.2, height=5.0)
    names = [name for name in _LINES if name in report.names]
    regrets = {
        name: np.sort([o.regret(name) for o in report.outcomes if name in o.picks])
        for name in names
    }
    for name, regret in regrets.items():
        share = np.arange(1, regret.size + 1) / regret.size
        panel.step(
            np.concatenate([[1.0], regret]), np.concatenate([[0.0], share]), where="post",
            label=f"{name} ({shown(report.score(name).regret)})",
            zorder=3 if name == MODEL else 2, **_LINES[name],
        )  # fmt: skip
    near = [name for name in (MODEL, FIXED, ROOFLINE) if name in regrets]
    edge = max(1.1, *(float(np.quantile(regrets[name], 0.99)) for name in near))
    least = min(float(np.mean(regret <= 1)) for regret in regrets.values())
    panel.set_xscale("log")
    panel.set_xlim(1, edge)
    panel.set_ylim(np.floor(10 * least) / 10, 1.005)
    _set_ticks(panel.xaxis, _regret_ticks(edge))
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_xlabel("regret: time of the pick / time of the fastest variant")
    panel.set_ylabel("share of inputs with at most this regret")
    panel.grid(color=_GRID, linewidth=0.7)
    panel.legend(loc="lower right", title="geometric mean in brackets", fontsize=9)
    return _png(figure)


def feature_importance(importance: Mapping[str, Mapping[str, float]], count: int = 20) -> bytes:
    """The features whose splits removed most of the error, in each kernel family.

    Args:
        importance: By kernel family, the shares of features.
        count: How many features are shown, those with the greatest mean share.
    """
    families = sorted(importance)
    names = sorted({name for shares in importance.values() for name in shares})
    total = {name: sum(importance[f].get(name, 0.0) for f in families) for name in names}
    top = sorted(names, key=total.__getitem__, reverse=True)[:count][::-1]
    figure, (panel,) = _figure(1, width=8.6, height=1.2 + 0.25 * len(top))
    for row, name in enumerate(top):
        known = [importance[f][name] for f in families if name in importance[f]]
        panel.plot([min(known), max(known)], [row, row], color="#c9d1d9", linewidth=3, zorder=1)
    for family, (mark, shade) in zip(families, itertools.cycle(_MARKS), strict=False):
        rows = [row for row, name in enumerate(top) if name in importance[family]]
        shares = [importance[family][top[row]] for row in rows]
        panel.plot(
            shares, rows, mark, label=family, color=shade, markeredgecolor=_INK, markersize=7
        )
    panel.set_xscale("log")
    panel.set_yticks(range(len(top)), top)
    panel.set_ylim(-0.7, len(top) - 0.3)
    _set_ticks(panel.xaxis, _log_ticks(*panel.get_xlim()))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    panel.set_xlabel("share of the error that splits by the feature removed")
    panel.grid(axis="x", color=_GRID, linewidth=0.7)
    panel.legend(loc="lower right", title="kernel family", fontsize=9)
    return _png(figure)


def _figure(panels: int, *, width: float, height: float) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(width * panels, height), layout="constrained")
    found: Sequence[Axes] = figure.subplots(1, panels, squeeze=False)[0]
    for panel in found:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, found


def _regret_ticks(edge: float) -> list[float]:
    if edge > 2 * _REGRETS[-1]:
        return _log_ticks(1, edge)
    kept: list[float] = []
    for tick in (tick for tick in _REGRETS if tick <= edge):
        if not kept or math.log(tick / kept[-1]) > 0.055 * math.log(edge):
            kept.append(tick)
    return kept


def _log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two, two at least and few enough for their labels not to overlap."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in _STEPS:
        found = [step * 10.0**power for power in powers for step in steps]
        found = [tick for tick in found if low <= tick <= high]
        if len(found) > 2:
            break
    return found[:: max(1, math.ceil(len(found) / most))] if len(found) > 1 else [low, high]


def _set_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_locator(NullLocator())


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()
