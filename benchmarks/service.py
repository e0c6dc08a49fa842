"""What serving costs: against the same run in-process, and beside PyG behind FastAPI.

    nice -n -10 python benchmarks/service.py [--parts small,large,clients,overload]

A part whose result the file holds for this machine and commit is not measured again. Servers, the
process that asks and the load are on one machine and share its cores; candidates take turns.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _machine import commit, fingerprint, set_threads
from _results import Results
from _serve import own_megabytes
from _service_cases import LARGE, SMALL, Case, in_process
from _service_load import Report, shoot
from _service_servers import hetune_target, peer_target
from rich.console import Console
from torch import Tensor

_RESULTS = Path(__file__).resolve().parent / "results"
CLIENTS = (1, 8, 64)
AT_CAPACITY = 64
"""Clients that keep a service busy and are never refused: so many requests may wait or run."""
_CONNECTIONS = 160
_PAUSE = 0.02
_TOLERANCE = 1e-4
Part = Callable[[argparse.Namespace], dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, print it, write the JSON."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    parts = options.parts.split(",")
    for name in parts:
        if name not in PARTS:
            raise SystemExit(f"no such part: {name}; take some of {', '.join(PARTS)}")
    console = Console()
    results = Results.open(options.out, fingerprint(options.threads), commit(), options.fresh)
    for number, name in enumerate(parts, 1):
        if not any(cell["key"] == name for cell in results.cells):
            console.print(f"part {number} of {len(parts)}, {name}: about {_MINUTES[name]:g} min")
            results.put({"key": name, **PARTS[name](options)})
        print_cell(next(cell for cell in results.cells if cell["key"] == name), console)
    console.print(f"wrote {options.out}")
    return 0


# Parts.


def small(options: argparse.Namespace) -> dict[str, Any]:
    """What a request for a small graph takes beyond the run."""
    times = _latencies(SMALL, options, options.rounds, options.block)
    return {
        "case": _facts(SMALL),
        "candidates": {name: _as_json(found) for name, found in times.items()},
        "overhead_ms": {
            f"p{p}": round(_ms(times["hetune, client"], p) - _ms(times["in-process"], p), 3)
            for p in (50, 99)
        },
        "goal_ms": {"p50": 2.0, "p99": 5.0},
    }


def large(options: argparse.Namespace) -> dict[str, Any]:
    """What a request with many features takes beyond the run."""
    times = _latencies(LARGE, options, options.large_rounds, 1)
    ratio = statistics.median(times["hetune, client"]) / statistics.median(times["in-process"])
    return {
        "case": _facts(LARGE),
        "candidates": {name: _as_json(found) for name, found in times.items()},
        "overhead": round(ratio - 1, 4),
        "goal": 0.15,
    }


def clients(options: argparse.Namespace) -> dict[str, Any]:
    """Requests a second by several clients, each of which waits for its answers."""
    found: dict[str, dict[str, list[Report]]] = {}
    with hetune_target(SMALL, options.threads) as own, peer_target(SMALL, options.threads) as peer:
        for _ in range(options.repeats):
            for count in CLIENTS:
                for name, target in (("hetune", own), ("peer", peer)):
                    report = shoot(target.shot(options.seconds, count, None))
                    found.setdefault(str(count), {}).setdefault(name, []).append(report)
    return {
        "case": _facts(SMALL),
        "clients": {
            count: {name: _as_load(reports) for name, reports in servers.items()}
            for count, servers in found.items()
        },
    }


def overload(options: argparse.Namespace) -> dict[str, Any]:
    """What a service does that is asked twice as much as it can answer."""
    with hetune_target(SMALL, options.threads) as target:
        shoot(target.shot(options.seconds, AT_CAPACITY, None))
        busy, over, memory = [], [], []
        for _ in range(options.repeats):
            busy.append(shoot(target.shot(options.seconds, AT_CAPACITY, None)))
            rate = 2 * len(busy[-1].times) / busy[-1].seconds
            before = own_megabytes(target.serving.process)
            over.append(shoot(target.shot(2 * options.seconds, _CONNECTIONS, rate)))
            memory.append([before, own_megabytes(target.serving.process)])
    at_capacity, at_twice = _as_load(busy), _as_load(over)
    return {
        "case": _facts(SMALL),
        "at_capacity": at_capacity,
        "at_twice_the_capacity": at_twice,
        "p99_ratio": round(at_twice["p99_ms"] / at_capacity["p99_ms"], 3),
        "goal_p99_ratio": 2.0,
        "memory_mb": memory,
    }


PARTS: dict[str, Part] = {
    "small": small,
    "large": large,
    "clients": clients,
    "overload": overload,
}
_MINUTES = {"small": 1.0, "large": 2.0, "clients": 1.5, "overload": 1.5}


# What they are made of.


def _latencies(
    case: Case, options: argparse.Namespace, rounds: int, block: int
) -> dict[str, list[float]]:
    """Seconds of each call. Outputs are checked before times count."""
    x = case.features()
    with hetune_target(case, options.threads) as own, peer_target(case, options.threads) as peer:
        here = in_process(case, case.graph(), own.variants)
        _check(here(x), own.client(x), 0.0)
        _check(here(x), peer.client(x), _TOLERANCE)
        return _interleaved(
            {
                "in-process": lambda: here(x),
                "hetune, client": lambda: own.client(x),
                "peer, client": lambda: peer.client(x),
            },
            rounds,
            block,
        )


def _interleaved(
    candidates: Mapping[str, Callable[[], object]], rounds: int, block: int
) -> dict[str, list[float]]:
    """Candidates take turns by blocks, in an order that is drawn for each round.

    Before each block, threads that still look for work of the block before may come to rest, and
    a call that does not count wakes the others.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order, draw = list(candidates), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            time.sleep(_PAUSE)
            if block > 1:
                candidates[name]()
            for _ in range(block):
                start = time.perf_counter()
                candidates[name]()
                times[name].append(time.perf_counter() - start)
    return times


def _check(expected: Tensor, found: Tensor, tolerance: float) -> None:
    error = float((expected - found).abs().max() / expected.abs().max().clamp(min=1e-30))
    if error > tolerance:
        raise RuntimeError(f"a server's output is off by {error:.2g}: no time of it counts")


def _ms(times: Sequence[float], percentile: float) -> float:
    return float(np.percentile(times, percentile)) * 1e3


def _as_json(times: Sequence[float]) -> dict[str, Any]:
    shown = {f"p{p}_ms": round(_ms(times, p), 4) for p in (10, 50, 90, 99)}
    return {"calls": len(times), **shown, "min_ms": round(min(times) * 1e3, 4)}


def _as_load(reports: Sequence[Report]) -> dict[str, Any]:
    """Loads that were sent in turn, as one."""
    times = [seconds for report in reports for seconds in report.times]
    seconds = sum(report.seconds for report in reports)
    refused = [seconds for report in reports for seconds in report.busy_times]
    others: dict[str, int] = {}
    for report in reports:
        for status, count in report.others.items():
            others[status] = others.get(status, 0) + count
    return {
        "accepted": len(times),
        "accepted_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(_ms(times, 50), 3),
        "p99_ms": round(_ms(times, 99), 3),
        "refused": len(refused),
        "refused_p50_ms": round(_ms(refused, 50), 3) if refused else None,
        "refused_without_retry_after": sum(report.without_retry_after for report in reports),
        "others": others,
        "unsent": sum(report.unsent for report in reports),
    }


def print_cell(cell: dict[str, Any], console: Console) -> None:
    """What a part found, and whether it meets its goals."""
    console.print(f"[bold]{cell['key']}[/bold]: {cell['case']}")
    columns = ("p50_ms", "p90_ms", "p99_ms", "accepted_per_second", "refused", "others")
    loads = {
        f"{count} clients, {name}": load
        for count, servers in cell.get("clients", {}).items()
        for name, load in servers.items()
    }
    loads |= {name: cell[name] for name in ("at_capacity", "at_twice_the_capacity") if name in cell}
    for name, found in {**cell.get("candidates", {}), **loads}.items():
        console.print(f"  {name}: " + ", ".join(f"{c} {found[c]}" for c in columns if c in found))
    goals = cell.get("goal_ms", {})
    reached = {f"overhead at {p}, ms": (cell["overhead_ms"][p], goal) for p, goal in goals.items()}
    for name in ("overhead", "p99_ratio"):
        if isinstance(cell.get(name), float):
            reached[name] = cell[name], cell["goal" if name == "overhead" else f"goal_{name}"]
    for name, (value, goal) in reached.items():
        verdict = "met" if value <= goal else "missed"
        console.print(f"  {name}: {value:.3f}; goal: at most {goal:g}: {verdict}")


def _facts(case: Case) -> dict[str, Any]:
    return {
        "nodes": case.nodes,
        "edges": case.edges,
        "relations": case.relations,
        "widths": case.widths,
        "features_mb": round(case.megabytes, 3),
    }


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--parts", default=",".join(PARTS))
    line.add_argument("--rounds", type=int, default=30, help="for the small graph")
    line.add_argument("--block", type=int, default=50, help="calls in a turn, for the small graph")
    line.add_argument("--large-rounds", type=int, default=9)
    line.add_argument("--seconds", type=float, default=4, help="of each load")
    line.add_argument("--repeats", type=int, default=3, help="of each load")
    line.add_argument("--threads", type=int, default=2)
    line.add_argument("--fresh", action="store_true", help="measure all parts again")
    line.add_argument("--out", type=Path, default=_RESULTS / "service.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
