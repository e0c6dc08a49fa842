"""Pictures of the slowdown of peers relative to hetune: SVG, on a log scale."""

import math
from collections.abc import Sequence
from typing import Any

from _peer_tables import LAYERS, chosen, mean, slowdown

_COLOURS = {"PyG": "#c44e52", "DGL": "#8172b3", "fastest peer": "#4c72b0", "hetune": "#2a8a4a"}
_LABELS = {"fastest peer": "fastest plain PyTorch"}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 220, 400, 16, 22, 66
_TICKS = (1, 3, 10, 30, 100, 300)
_MOST = 800


def by_layer(cells: Sequence[dict[str, Any]]) -> str:
    """Bars: geometric means over the graphs that a peer ran on, width 64, one head."""
    parts, y = [], _TOP
    for layer, title in LAYERS.items():
        ratios = {p: mean(chosen(cells, layer), p) for p in _COLOURS if p != "hetune"}
        bars = {**{p: r for p, r in ratios.items() if r is not None}, "hetune": 1.0}
        middle = y + len(bars) * (_BAR + 4) / 2
        parts.append(_text(16, middle + 5, title, "font-weight='bold' font-size='15'"))
        for peer, ratio in bars.items():
            width = max(_x(ratio) - _LEFT, 2)
            shown = f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"
            parts += [
                _text(_LEFT - 8, y + 12, _LABELS.get(peer, peer), "text-anchor='end'"),
                f"<rect x='{_LEFT}' y='{y}' width='{width:.1f}' height='{_BAR}'"
                f" fill='{_COLOURS[peer]}'/>",
                _text(_LEFT + width + 6, y + 12, "1" if peer == "hetune" else shown),
            ]
            y += _BAR + 4
        y += _GAP
    under = "time on 2 cores at width 64, geometric mean of up to seven graphs, log scale"
    return _framed(parts, y - _GAP, under)


def by_graph(cells: Sequence[dict[str, Any]]) -> str:
    """Dots: each peer on each graph that it ran on, width 64, one head."""
    parts, y = [], _TOP
    for x, (peer, colour) in zip((260, 320, 380, 540), _COLOURS.items(), strict=True):
        parts.append(f"<circle cx='{x}' cy='{y - 18}' r='5' fill='{colour}'/>")
        parts.append(_text(x + 9, y - 14, _LABELS.get(peer, peer)))
    for layer, title in LAYERS.items():
        members = chosen(cells, layer)
        middle = y + len(members) * _BAR / 2
        parts.append(_text(16, middle + 5, title, "font-weight='bold' font-size='15'"))
        for cell in members:
            parts.append(_text(_LEFT - 8, y + 12, cell["graph"], "text-anchor='end'"))
            for peer, colour in _COLOURS.items():
                ratio = 1.0 if peer == "hetune" else slowdown(cell, peer)
                if ratio is not None:
                    at = f"cx='{_x(ratio):.1f}' cy='{y + 8}'"
                    parts.append(f"<circle {at} r='5' fill='{colour}'/>")
            y += _BAR
        y += _GAP
    return _framed(parts, y - _GAP, "each graph, 2 cores, width 64, log scale")


def _framed(parts: Sequence[str], end: float, under: str) -> str:
    bottom = end + 6
    grid = [
        f"<line x1='{_x(t):.1f}' x2='{_x(t):.1f}' y1='{_TOP - 8}' y2='{bottom}' stroke='#ddd'/>"
        + _text(_x(t), bottom + 16, str(t), "text-anchor='middle' fill='#666'")
        for t in _TICKS
    ]
    title = _text(16, 24, "Slowdown relative to hetune", "font-size='16' font-weight='bold'")
    title += _text(16, 42, under)
    size = f"width='680' height='{bottom + 28}' viewBox='0 0 680 {bottom + 28}'"
    style = "font-family='Helvetica, Arial, sans-serif' font-size='12' fill='#222'"
    body = "\n".join(["<rect width='100%' height='100%' fill='white'/>", title, *grid, *parts])
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {style}>\n{body}\n</svg>\n"


def _x(ratio: float) -> float:
    return _LEFT + _WIDTH * math.log(ratio) / math.log(_MOST)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {more}>{text}</text>".replace(" >", ">")
