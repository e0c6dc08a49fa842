"""What the results of a GPU say: ratios, shares and milliseconds, as lines of text."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from _measure import geometric_mean

GOALS = {"rgcn": 3.0, "rgat": 9.0, "hgt": 6.0}
"""Least geometric mean, over the graphs, of the best peer's time over hetune's."""
WORST = 1.2
"""Least ratio on any graph."""
SHARE = 0.7
"""Least share of a kernel's bounds."""
REACHED = 0.8
"""Share that CUDA C++ has to reach where Triton does not reach the other, to be worth a printer."""
_OWN = ("best plan", "compile", "cuda graph")
"""hetune's best plan of all, what `hetune.compile` runs, and the best plan as a CUDA graph."""


def peers_lines(units: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each layer, width and precision: milliseconds, the best peer, and ratios to it."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for key in units:
        if key.startswith("peers") and "best_plan" in units[key]:
            kind, graph, layer, width = key.split("/")
            groups.setdefault((kind, layer, width), []).append(graph)
    lines = []
    for (kind, layer, width), graphs in groups.items():
        lines.append(f"{layer}, width {width}, {kind.partition('-')[2] or 'ieee'}")
        titles = [f"{name} ms" for name in _OWN] + [f"over {name}" for name in _OWN]
        lines.append(f"  {'graph':<10}{''.join(f'{title:>16}' for title in titles)}  best peer")
        ratios: dict[str, list[float]] = {name: [] for name in _OWN}
        for graph in graphs:
            cell = units[f"{kind}/{graph}/{layer}/{width}"]
            lines.append(f"  {graph:<10}{_row(cell, ratios)}")
        lines += [_verdict(layer, name, values) for name, values in ratios.items() if values]
        lines.append(f"  without a result: {', '.join(_lost(units, kind, graphs, layer, width))}")
    return lines


def variants_lines(units: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each layer and graph: the best variant, and the fastest peer of the same card at last.

    Peers may be of an earlier run: a ratio of milliseconds, not of turns.
    """
    lines, ratios = list[str](), dict[str, list[float]]()
    for key, unit in units.items():
        kind, _, cell = key.partition("/")
        if kind != "variants" or not unit.get("best_plan"):
            continue
        layer, plan = cell.split("/")[1], unit["plans"][unit["best_plan"]]
        kernels = sum(kernel["us"] for kernel in unit["kernels"].values())
        peers = [
            (each["median_ms"], each["name"])
            for each in units.get(f"peers/{cell}", {}).get("candidates", ())
            if each["status"] == "ok" and each["precision"] == unit["precision"]
            if not each["name"].startswith("hetune/")
        ]
        peer = ""
        if peers:
            ms, name = min(peers)
            ratios.setdefault(layer, []).append(ms / plan["median_ms"])
            peer = f"{ms:>10.4f} ms  {ratios[layer][-1]:>6.2f}x  {name}"
        lines.append(
            f"{cell:<22}{plan['median_ms']:>9.4f} ms, of which the host {plan['host_ms']:.4f} and "
            f"kernels {kernels / 1e3:.4f}: {unit['best_plan']:<48}{peer}"
        )
    return lines + [
        f"{layer}: geometric mean {geometric_mean(found):.2f}x, least {min(found):.2f}x, of "
        f"{len(found)} graphs"
        for layer, found in ratios.items()
    ]


def roofline_lines(units: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each kernel and graph: its time, what bounds it, and its share."""
    lines = []
    for key, unit in units.items():
        if key.startswith("roofline/") and "share" in unit:
            lines.append(
                f"{key.removeprefix('roofline/'):<28}{unit['best_ms']:>10.4f} ms  "
                f"{unit['share']:>6.1%} of {unit['bound']:<6}"
                f"{'' if unit['share'] >= SHARE else f' below {SHARE:.0%}':<11}"
                f" {unit['tflops']:.1f} TFLOP/s, {unit['copy_gb_s']:.0f} GB/s;"
                f" default schedule {unit['default_ms']:.4f} ms; best: {unit['best']}"
            )
    return lines


def tripwire_lines(units: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each walk: shares of its bound, of each candidate on each graph, and what they tell."""
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for key, unit in units.items():
        if key.startswith("tripwire/") and "candidates" in unit:
            _, kind, graph = key.split("/")
            tables.setdefault(kind, {})[graph] = unit["candidates"]
    lines = []
    for kind, shares in tables.items():
        lines.append(f"  {f'{kind}, shares of the bound':<52}{''.join(f'{g:>9}' for g in shares)}")
        for name in dict.fromkeys(itertools.chain.from_iterable(shares.values())):
            cells = (f"{of[name]:.1%}" if name in of else "" for of in shares.values())
            lines.append(f"  {name:<52}{''.join(f'{cell:>9}' for cell in cells)}")
        told = [graph for graph, of in shares.items() if _wants_cuda(of)]
        lines.append(f"  a CUDA printer is worth its while on: {', '.join(told) or 'no graph'}")
    return lines


def beside_lines(units: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of training and homogeneous layers: milliseconds and megabytes, and those of peers."""
    lines = []
    for key, unit in units.items():
        if (own := unit.get("hetune")) is None:
            continue
        lines.append(
            f"{key:<30}{own['median_ms']:>9.3f} ms (host {own['host_ms']:.3f})"
            f"{_megabytes(own)}, {own['ran']}"
        )
        lines += [
            f"  {c['name']:<28}"
            + (f"{c['ratio']:>9.2f}x{_megabytes(c)}" if c["status"] == "ok" else f" {c['status']}")
            for c in unit["candidates"]
        ]
    return lines


def _megabytes(record: Mapping[str, Any]) -> str:
    peak = record["peak_bytes"]
    return "" if peak is None else f", {peak / 1e6:,.0f} MB"


def _wants_cuda(shares: Mapping[str, float]) -> bool:
    cuda = max((s for name, s in shares.items() if name.startswith("cuda ")), default=0.0)
    own = max((s for name, s in shares.items() if not name.startswith("cuda ")), default=0.0)
    return own < SHARE and cuda >= REACHED


def _row(cell: Mapping[str, Any], ratios: dict[str, list[float]]) -> str:
    """Adds the cell's ratios, too."""
    known = {c["name"]: c for c in cell["candidates"] if c["status"] == "ok"}
    plan = cell["plans"][cell["best_plan"]]
    own = {"best plan": {**plan, "ratio": 1.0}}
    own |= {name: known[f"hetune/{name}"] for name in _OWN if f"hetune/{name}" in known}
    peers = [
        c
        for name, c in known.items()
        if not name.startswith("hetune/") and c["precision"] == cell["precision"]
    ]
    peer = min(peers, key=lambda c: c["ratio"] or math.inf, default=None)
    times = [f"{own[name]['median_ms']:.4f}" if name in own else "" for name in _OWN]
    over = []
    for name in _OWN:
        if peer is not None and name in own:
            ratios[name].append(peer["ratio"] / own[name]["ratio"])
        over.append(f"{ratios[name][-1]:.2f}" if peer is not None and name in own else "")
    cells = "".join(f"{text:>16}" for text in (*times, *over))
    return f"{cells}  {peer['name'] if peer else 'no peer ran'}"


def _verdict(layer: str, name: str, values: list[float]) -> str:
    mean, least, goal = geometric_mean(values), min(values), GOALS[layer]
    kept = "kept" if mean >= goal and least >= WORST else "not kept"
    return (
        f"  {name}: geometric mean {mean:.2f}x (goal {goal:g}x), least {least:.2f}x "
        f"(goal {WORST:g}x), of {len(values)} graphs: {kept}"
    )


def _lost(
    units: Mapping[str, Mapping[str, Any]], kind: str, graphs: Iterable[str], layer: str, width: str
) -> list[str]:
    """Candidates without a time, with their reason."""
    found: dict[str, list[str]] = {}
    for graph in graphs:
        for candidate in units[f"{kind}/{graph}/{layer}/{width}"]["candidates"]:
            if candidate["status"] != "ok":
                found.setdefault(f"{candidate['name']} {candidate['status']}", []).append(graph)
    return [f"{what} ({', '.join(graphs)})" for what, graphs in found.items()] or ["none"]
