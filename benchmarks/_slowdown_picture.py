"""The README's picture: slowdown of peers relative to hetune, an SVG of bars on a log scale."""

import math
from collections.abc import Sequence
from typing import Any

from _peer_tables import LAYERS, chosen, mean

_BARS = {
    "PyG": ("PyG", "#c44e52"),
    "DGL": ("DGL", "#8172b3"),
    "fastest peer": ("fastest plain PyTorch", "#4c72b0"),
    "hetune": ("hetune", "#2a8a4a"),
}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 220, 400, 16, 22, 66
_TICKS = (1, 3, 10, 30, 100, 300)
_MOST = 600


def picture(cells: Sequence[dict[str, Any]]) -> str:
    """Geometric means over the graphs that a peer ran on, width 64, one head."""
    parts, y = [], _TOP
    for layer, title in LAYERS.items():
        ratios = {peer: mean(chosen(cells, layer), peer) for peer in _BARS if peer != "hetune"}
        bars = {**{p: r for p, r in ratios.items() if r is not None}, "hetune": 1.0}
        middle = y + len(bars) * (_BAR + 4) / 2
        parts.append(_text(16, middle + 5, title, "font-weight='bold' font-size='15'"))
        for peer, ratio in bars.items():
            label, colour = _BARS[peer]
            width = max(_x(ratio) - _LEFT, 2)
            shown = f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"
            parts += [
                _text(_LEFT - 8, y + 12, label, "text-anchor='end'"),
                f"<rect x='{_LEFT}' y='{y}' width='{width:.1f}' height='{_BAR}' fill='{colour}'/>",
                _text(_LEFT + width + 6, y + 12, "1" if peer == "hetune" else shown),
            ]
            y += _BAR + 4
        y += _GAP
    bottom = y - _GAP + 6
    grid = [
        f"<line x1='{_x(t):.1f}' x2='{_x(t):.1f}' y1='{_TOP - 8}' y2='{bottom}' stroke='#ddd'/>"
        + _text(_x(t), bottom + 16, str(t), "text-anchor='middle' fill='#666'")
        for t in _TICKS
    ]
    title = _text(16, 24, "Slowdown relative to hetune", "font-size='16' font-weight='bold'")
    title += _text(
        16, 42, "time on 2 cores at width 64, geometric mean of up to seven graphs, log scale"
    )
    size = f"width='680' height='{bottom + 28}' viewBox='0 0 680 {bottom + 28}'"
    style = "font-family='Helvetica, Arial, sans-serif' font-size='12' fill='#222'"
    body = "\n".join(["<rect width='100%' height='100%' fill='white'/>", title, *grid, *parts])
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {style}>\n{body}\n</svg>\n"


def _x(ratio: float) -> float:
    return _LEFT + _WIDTH * math.log(ratio) / math.log(_MOST)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {more}>{text}</text>".replace(" >", ">")
