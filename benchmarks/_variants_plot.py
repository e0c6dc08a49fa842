"""The picture of `variants.py`: what each fixed plan loses on each input."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm


def plot_variants(cells: Sequence[dict[str, Any]], path: Path) -> Path:
    """A panel for each layer: plans by inputs, coloured by time / best time, into a PNG."""
    layers = list(dict.fromkeys(cell["layer"] for cell in cells))
    tables = {layer: _losses([c for c in cells if c["layer"] == layer]) for layer in layers}
    heights = [max(2.2, 0.34 * len(plans) + 1.6) for plans, _, _ in tables.values()]
    figure, panels = plt.subplots(
        len(layers), 1, figsize=(12, sum(heights)), height_ratios=heights, squeeze=False
    )
    for panel, (layer, (plans, inputs, loss)) in zip(panels[:, 0], tables.items(), strict=True):
        image = panel.imshow(loss, aspect="auto", cmap="RdYlGn_r", norm=LogNorm(1, 10))
        panel.set_yticks(range(len(plans)), plans, fontsize=8)
        panel.set_xticks(range(len(inputs)), inputs, fontsize=7, rotation=30, ha="right")
        panel.set_title(f"{layer.upper()}: time / time of the best variant (boxed: chosen)")
        chosen = [cell["chosen"].rpartition("/")[0] for cell in cells if cell["layer"] == layer]
        for column, plan in enumerate(chosen):
            row = plans.index(plan)
            box = plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="black")
            panel.add_patch(box)
        for (row, column), value in np.ndenumerate(loss):
            if np.isfinite(value):
                text = f"{value:.2f}" if value < 9.95 else f"{value:.0f}"
                weight = "bold" if value == 1.0 else "normal"
                panel.text(column, row, text, ha="center", va="center", fontsize=7, weight=weight)
        figure.colorbar(image, ax=panel, pad=0.01)
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def _losses(cells: Sequence[dict[str, Any]]) -> tuple[list[str], list[str], np.ndarray]:
    """Plans, inputs, and each plan's best time over the best of all; NaN where not timed."""
    best = []
    for cell in cells:
        times: dict[str, float] = {}
        for variant, sample in cell["variants"].items():
            plan = variant.rpartition("/")[0]
            times[plan] = min(sample["median_ms"], times.get(plan, np.inf))
        best.append(times)
    plans = list(dict.fromkeys(plan for times in best for plan in times))
    inputs = [f"{cell['graph']}\n{cell['width']}" for cell in cells]
    loss = np.array(
        [[times.get(plan, np.nan) / min(times.values()) for times in best] for plan in plans]
    )
    return plans, inputs, loss
