"""The results file of `peers.py`, and the tables drawn from it."""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from _measure import geometric_mean
from rich.console import Console
from rich.table import Table

SCHEMA = 1
# Per-relation choice of sides is hetune's own idea, written in plain PyTorch: shown apart, too.
BORROWED = "expert/smaller side"
_OWN = "hetune/compile"
_BASE = {"rgcn": "pyg/RGCNConv", "rgat": "pyg/RGATConv", "hgt": "pyg/HGTConv"}


class Results:
    """Cells by key, written after each one, so that an interrupted run goes on where it was."""

    def __init__(
        self, path: Path, machine: dict[str, Any], commit: str | None, cells: Iterable[Any] = ()
    ) -> None:
        self._path, self._machine, self._commit = path, machine, commit
        self._cells: dict[str, dict[str, Any]] = {cell["key"]: cell for cell in cells}

    @classmethod
    def open(
        cls, path: Path, machine: dict[str, Any], commit: str | None, fresh: bool = False
    ) -> Self:
        """Continue `path`, or begin anew if `fresh`.

        Raises:
            SystemExit: It holds cells of another machine or commit, which would be lost.
        """
        held = [] if fresh else held_cells(path)
        here = machine["digest"], commit
        others = sum((cell["machine"], cell["commit"]) != here for cell in held)
        if others:
            raise SystemExit(
                f"{path} holds {others} cells that were measured on another machine or commit: "
                "pass --fresh to drop all it holds, or --out to write elsewhere"
            )
        return cls(path, machine, commit, held)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """All cells, in the order of measuring."""
        return list(self._cells.values())

    def has(self, key: str, names: Sequence[str]) -> bool:
        """Whether the cell is there with all these candidates."""
        cell = self._cells.get(key)
        return cell is not None and set(names) <= {c["name"] for c in cell["candidates"]}

    def put(self, cell: dict[str, Any]) -> None:
        """Add or replace a cell, and write the file."""
        self._cells[cell["key"]] = {
            **cell,
            "machine": self._machine["digest"],
            "commit": self._commit,
            "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = {"schema": SCHEMA, "machine": self._machine, "cells": self.cells}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1) + "\n")
        new.replace(self._path)


def held_cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a results file, whenever and wherever they were measured; none without it."""
    held = json.loads(path.read_text()) if path.is_file() else {}
    return held["cells"] if held.get("schema") == SCHEMA else []


def times(cell: dict[str, Any]) -> dict[str, float]:
    """Milliseconds by candidate, of those whose time counts."""
    return {
        c["name"]: c["median_ms"]
        for c in cell["candidates"]
        if c["status"] == "ok" and "median_ms" in c
    }


def best_peer(cell: dict[str, Any], *, without: Sequence[str] = ()) -> tuple[str, float] | None:
    """Name and milliseconds of the fastest candidate that is not hetune's."""
    found = times(cell).items()
    peers = {n: t for n, t in found if not n.startswith("hetune/") and n not in without}
    return min(peers.items(), key=lambda item: item[1]) if peers else None


def speedup(cell: dict[str, Any], *, without: Sequence[str] = ()) -> float | None:
    """Time of the best peer over hetune's."""
    own = times(cell).get(_OWN)
    best = best_peer(cell, without=without)
    return best[1] / own if own and best else None


def share_of_roofline(cell: dict[str, Any]) -> float | None:
    """The least time that any variant could take over hetune's."""
    own, least = times(cell).get(_OWN), cell.get("roofline_ms")
    return least / own if own and least else None


def memory_ratio(cell: dict[str, Any]) -> float | None:
    """hetune's peak bytes over those of PyG's layer."""
    peak = {c["name"]: c.get("peak_bytes") for c in cell["candidates"]}
    own, base = peak.get(_OWN), peak.get(_BASE[cell["layer"]])
    return own / base if own is not None and base else None


def print_tables(cells: Sequence[dict[str, Any]], console: Console) -> None:
    """A table of times and one of peak memory for each layer, width and number of heads."""
    groups: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault((cell["layer"], cell["width"], cell["heads"]), []).append(cell)
    for (layer, width, heads), members in groups.items():
        title = f"{layer}, width {width}, heads {heads}"
        console.print(_times(f"{title}: median ms", members))
        console.print(_memory(f"{title}: peak MB (with indexes)", members))


def _times(title: str, cells: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=title)
    table.add_column("candidate")
    for cell in cells:
        table.add_column(cell["graph"], justify="right")
    table.add_column("mean", justify="right")
    for name in _candidate_names(cells):
        table.add_row(name, *(_time(cell, name) for cell in cells), "")
    table.add_section()
    for label, without in (("best peer / hetune", ()), ("the same without ours*", (BORROWED,))):
        ratios = [speedup(cell, without=without) for cell in cells]
        table.add_row(label, *_ratios(ratios))
    table.add_row("roofline / hetune", *_ratios([share_of_roofline(cell) for cell in cells]))
    table.caption = (
        f"In parentheses: preparation. * {BORROWED}: hetune's own idea in plain PyTorch. "
        "Mean: geometric."
    )
    return table


def _memory(title: str, cells: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=title)
    table.add_column("candidate")
    for cell in cells:
        table.add_column(cell["graph"], justify="right")
    table.add_column("mean", justify="right")
    for name in _candidate_names(cells):
        table.add_row(name, *(_bytes(cell, name) for cell in cells), "")
    table.add_section()
    table.add_row("hetune / PyG", *_ratios([memory_ratio(cell) for cell in cells], digits=3))
    return table


def _candidate_names(cells: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(c["name"] for cell in cells for c in cell["candidates"]))


def _entry(cell: dict[str, Any], name: str) -> dict[str, Any]:
    return next((c for c in cell["candidates"] if c["name"] == name), {"status": ""})


def _time(cell: dict[str, Any], name: str) -> str:
    entry = _entry(cell, name)
    if entry["status"] != "ok":
        return str(entry["status"])
    preprocess = f" [dim](+{1e3 * entry['preprocess_s']:,.1f} ms)[/dim]"
    text = f"{entry['median_ms']:.4g}"
    best = min(times(cell).values())
    return (f"[bold]{text}[/bold]" if entry["median_ms"] == best else text) + preprocess


def _bytes(cell: dict[str, Any], name: str) -> str:
    entry = _entry(cell, name)
    if "peak_bytes" not in entry:
        return str(entry["status"])
    return f"{entry['peak_bytes'] / 1e6:.0f} ({entry['total_bytes'] / 1e6:.0f})"


def _ratios(values: Sequence[float | None], digits: int = 2) -> list[str]:
    known = [value for value in values if value is not None]
    mean = f"{geometric_mean(known):.{digits}f}" if known else ""
    return [f"{value:.{digits}f}" if value is not None else "" for value in values] + [mean]
