"""Speed-up bars of `peers.py`: one panel per layer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from _results import best_peer, speedup, times

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

_OWN = "hetune/compile"
_FAMILIES = {"pyg": "PyG", "dgl": "DGL", "expert": "expert PyTorch"}
_COLOURS = {"pyg": "#c44e52", "dgl": "#8172b3", "expert": "#4c72b0"}


def plot_peers(cells: Sequence[dict[str, Any]], path: Path) -> Path:
    """Bars of each family's best time over hetune's, by graph, into the PNG `path`.

    Where hetune was not measured, times are shown relative to the best peer instead.
    """
    layers = list(dict.fromkeys((cell["layer"], cell["width"], cell["heads"]) for cell in cells))
    figure, panels = plt.subplots(
        max(1, len(layers)), 1, figsize=(10, 3.4 * max(1, len(layers))), squeeze=False
    )
    for panel, (layer, width, heads) in zip(panels[:, 0], layers, strict=False):
        chosen = [c for c in cells if (c["layer"], c["width"], c["heads"]) == (layer, width, heads)]
        _bars(panel, chosen)
        panel.set_title(f"{layer.upper()}, width {width}, {heads} head{'s' * (heads > 1)}")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _bars(panel: Axes, cells: Sequence[dict[str, Any]]) -> None:
    measured = any(_OWN in times(cell) for cell in cells)
    for i, (family, label) in enumerate(_FAMILIES.items()):
        heights = [_ratio(cell, family) for cell in cells]
        places = [x + 0.27 * (i - 1) for x in range(len(cells))]
        bars = panel.bar(places, heights, 0.25, label=label, color=_COLOURS[family])
        labels = [f"{h:.1f}x" if h else "–" for h in heights]
        panel.bar_label(bars, labels, fontsize=8, padding=1)
    panel.axhline(1.0, color="black", linewidth=0.8)
    panel.set_xticks(range(len(cells)), [_label(cell) for cell in cells], fontsize=8)
    panel.set_yscale("log")
    panel.set_ylim(0.5, panel.get_ylim()[1] * 6)  # room for the legend
    panel.set_ylabel("time / hetune's" if measured else "time / best peer's")
    panel.legend(fontsize=8, ncols=3, loc="upper left")


def _ratio(cell: dict[str, Any], family: str) -> float:
    taken = times(cell)
    mine = [t for name, t in taken.items() if name.startswith(family + "/")]
    best = best_peer(cell)
    base = taken.get(_OWN) or (best[1] if best else None)
    return min(mine) / base if mine and base else 0.0


def _label(cell: dict[str, Any]) -> str:
    ratio = speedup(cell)
    return cell["graph"] if ratio is None else f"{cell['graph']}\nbest peer {ratio:.1f}x"
