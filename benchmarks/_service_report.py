"""What `service.py` prints of its parts."""

from typing import Any

from rich.console import Console
from rich.table import Table


def print_cell(cell: dict[str, Any], console: Console) -> None:
    """A table of a part, and its goals."""
    match cell["key"]:
        case "small":
            console.print(_latencies(cell))
            for name, goal in cell["goal_ms"].items():
                _goal(console, f"overhead at {name}", cell["overhead_ms"][name], goal, " ms")
        case "large":
            console.print(_latencies(cell))
            _goal(console, "overhead", cell["overhead"], cell["goal"], "")
        case "clients":
            rows = {
                f"{count} clients, {name}": load
                for count, servers in cell["clients"].items()
                for name, load in servers.items()
            }
            console.print(_loads(cell, rows))
        case "overload":
            rows = {
                "at capacity": cell["at_capacity"],
                "at twice the capacity": cell["at_twice_the_capacity"],
            }
            console.print(_loads(cell, rows))
            _goal(console, "p99 ratio", cell["p99_ratio"], cell["goal_p99_ratio"], "")
            spans = ", ".join(f"{held[0]:.1f} to {held[-1]:.1f}" for held in cell["memory_mb"])
            console.print(f"MB from the begin to the end of each overload: {spans}")


def _latencies(cell: dict[str, Any]) -> Table:
    table = Table(title=_title(cell))
    table.add_column("ms")
    for name in ("min", "p50", "p90", "p99"):
        table.add_column(name, justify="right")
    for name, found in cell["candidates"].items():
        shown = (found[f"{column}_ms"] for column in ("min", "p50", "p90", "p99"))
        table.add_row(name, *(f"{value:.3f}" for value in shown))
    return table


def _loads(cell: dict[str, Any], rows: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=_title(cell))
    table.add_column("load")
    for name in ("accepted/s", "p50 ms", "p99 ms", "refused", "others"):
        table.add_column(name, justify="right")
    for name, load in rows.items():
        refused = load["refused"] / max(load["refused"] + load["accepted"], 1)
        numbers = f"{load['accepted_per_second']:.0f}", f"{load['p50_ms']:.2f}"
        others = sum(load["others"].values()) + load["unsent"]
        table.add_row(name, *numbers, f"{load['p99_ms']:.2f}", f"{refused:.0%}", str(others))
    return table


def _title(cell: dict[str, Any]) -> str:
    case = cell["case"]
    widths = " to ".join(str(width) for width in case["widths"])
    return (
        f"{cell['key']}: {case['nodes']:,} nodes, {case['edges']:,} edges, two layers RGCN {widths}"
    )


def _goal(console: Console, what: str, reached: float, goal: float, unit: str) -> None:
    verdict = "met" if reached <= goal else "missed"
    console.print(f"{what}: {reached:.3f}{unit}; goal: at most {goal:g}{unit}: {verdict}")
