"""The results file of `peers.py`, and what is read out of its cells."""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # a machine lent for measuring may be without it
    from rich.console import Console

SCHEMA = 1
OWN = "hetune/compile"
_CONVS = ("RGCN", "RGAT", "HGT", "GCN", "GAT")
PYG = {name.lower(): f"pyg/{name}Conv" for name in _CONVS}


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


def best_peer(cell: dict[str, Any]) -> tuple[str, float] | None:
    """Name and milliseconds of the fastest candidate that is not hetune's."""
    peers = {n: t for n, t in times(cell).items() if not n.startswith("hetune/")}
    return min(peers.items(), key=lambda item: item[1]) if peers else None


def share_of_roofline(cell: dict[str, Any]) -> float | None:
    """The least time that any variant could take over hetune's."""
    own, least = times(cell).get(OWN), cell.get("roofline_ms")
    return least / own if own and least else None


def memory_ratio(cell: dict[str, Any]) -> float | None:
    """hetune's peak bytes over those of PyG's layer."""
    peak = {c["name"]: c.get("peak_bytes") for c in cell["candidates"]}
    own, base = peak.get(OWN), peak.get(PYG.get(cell["layer"], ""))
    return own / base if own is not None and base else None


def print_cells(cells: Iterable[dict[str, Any]], console: "Console") -> None:
    """Milliseconds of each candidate, of its preparation, and its peak memory; or what it lacks."""
    for cell in cells:
        console.print(f"[bold]{cell['key']}[/bold]")
        best = min(times(cell).values(), default=None)
        for c in cell["candidates"]:
            shown = c["status"]
            if shown == "ok":
                shown = f"{c['median_ms']:.4g} ms (+{1e3 * c['preprocess_s']:,.1f} ms)"
            mark = " [bold]fastest[/bold]" if best and c.get("median_ms") == best else ""
            peak = f", {c['peak_bytes'] / 1e6:.0f} MB" if "peak_bytes" in c else ""
            console.print(f"  {c['name']}: {shown}{peak}{mark}")
        if (share := share_of_roofline(cell)) is not None:
            console.print(f"  roofline / hetune: {share:.2f}")
        if (ratio := memory_ratio(cell)) is not None:
            console.print(f"  memory, hetune / PyG: {ratio:.2f}")
