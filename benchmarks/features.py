"""What the features of a graph cost: their extraction against one run of a layer's fastest variant.

    python benchmarks/features.py --layers rgcn,rgat,hgt --widths 32,64

The two are timed interleaved, on graphs whose indexes have been built. The fastest variant is found
before, by a few runs of each. The goal is that features take less than one run of it.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from _graphs import NAMES, MissingGraphError, load_graph, names
from _machine import commit, fingerprint, set_threads
from _measure import as_json, geometric_mean
from _peers.problem import LAYERS, Problem
from _results import Results
from rich.console import Console
from rich.progress import track
from rich.table import Table

import hetune
from hetune.costmodel.features.graph import extract
from hetune.profiling.measure.rounds import interleave
from hetune.profiling.measure.timing import Timing

_RESULTS = Path(__file__).resolve().parent / "results"
_TRIALS = 3
_STATISTICS = ("median_ms", "min_ms")
_GOAL = 1.0
"""Runs of the fastest variant that extracting features is to take less than."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cells, print the table, write the JSON."""
    options = parser().parse_args(arguments)
    console = Console()
    set_threads(options.threads)
    results = Results.open(options.out, fingerprint(options.threads), commit(), options.fresh)
    wanted = [(la, g, w) for la in options.layers for g in options.graphs for w in options.widths]
    for layer, name, width in track(wanted, console=console, description="cells"):
        key = f"{layer}/{name}/{width}"
        if results.has(key, ["features", "run"]):
            continue
        try:
            graph = load_graph(name, canonical=layer == "hgt")
        except MissingGraphError as error:
            console.print(f"[yellow]skipped {name}: {error}")
            continue
        results.put({"key": key, "graph": name, **measure(Problem(layer, graph, width), options)})
    if not results.cells:
        return 0
    console.print(table(results.cells))
    console.print(verdict(results.cells))
    console.print(f"wrote {options.out}")
    return 0


def measure(problem: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """The cell of one input: both candidates' times, and the variant that ran."""
    compiled, graph = hetune.compile(problem.conv), problem.graph
    x = problem.x_dict if problem.layer == "hgt" else problem.x
    with torch.inference_mode():
        runs = {v: _runner(compiled, x, graph, v) for v in compiled.variants}
        trials = {v: min(_seconds(run) for _ in range(_TRIALS)) for v, run in runs.items()}
        fastest = min(trials, key=trials.__getitem__)
        extract(graph)
        candidates = {"features": lambda: extract(graph), "run": runs[fastest]}
        rounds = dict.fromkeys(candidates, options.rounds)
        timings = interleave(candidates, rounds, seed=options.seed)
    return {
        "layer": problem.layer,
        "width": problem.width,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "variant": fastest,
        "candidates": [_candidate(name, timing) for name, timing in timings.items()],
    }


def _candidate(name: str, timing: Timing) -> dict[str, Any]:
    return {"name": name, "status": "ok", **as_json(timing)}


def _runner(
    compiled: hetune.CompiledLayer, x: Any, graph: hetune.HeteroGraph, variant: str
) -> Callable[[], object]:
    def run() -> object:
        return compiled(x, graph, variant=variant)

    run()  # compiles and indexes
    return run


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def table(cells: Sequence[dict[str, Any]]) -> Table:
    """Medians of both, and what part of a run the extraction is, by medians and by minima."""
    found = Table(title="features against one run of the fastest variant")
    found.caption = "Mean: geometric."
    for column in ("layer", "graph", "width", "edges"):
        found.add_column(column)
    for column in ("features ms", "run ms", "ratio", "of minima"):
        found.add_column(column, justify="right")
    for cell in cells:
        features, run = _both(cell)
        found.add_row(
            cell["layer"], cell["graph"], str(cell["width"]), f"{cell['edges']:,}",
            f"{features['median_ms']:.3g}", f"{run['median_ms']:.3g}",
            *(f"{features[each] / run[each]:.2f}" for each in _STATISTICS),
        )  # fmt: skip
    found.add_section()
    means = (f"{geometric_mean(ratios(cells, each)):.2f}" for each in _STATISTICS)
    found.add_row("mean", *[""] * 5, *means)
    return found


def ratios(cells: Sequence[dict[str, Any]], statistic: str = "median_ms") -> list[float]:
    """What extraction takes, in runs, cell by cell."""
    return [features[statistic] / run[statistic] for features, run in map(_both, cells)]


def verdict(cells: Sequence[dict[str, Any]]) -> str:
    """Whether the goal is met, in a sentence."""
    runs = ratios(cells)
    mean, over = geometric_mean(runs), sum(ratio >= _GOAL for ratio in runs)
    met = "met" if mean < _GOAL else "missed"
    return (
        f"features take {mean:.2f} runs of the fastest variant (geometric mean of medians; the "
        f"goal of less than {_GOAL:g} is {met}), and {_GOAL:g} or more on {over} of {len(runs)} "
        "inputs"
    )


def _both(cell: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = {each["name"]: each for each in cell["candidates"]}
    return found["features"], found["run"]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--layers", type=names, default=["rgcn"], help=f"of {','.join(LAYERS)}")
    line.add_argument("--graphs", type=names, default=list(NAMES))
    line.add_argument("--widths", type=lambda text: [int(w) for w in names(text)], default=[32])
    line.add_argument("--rounds", type=int, default=31)
    line.add_argument("--threads", type=int, default=torch.get_num_threads())
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--fresh", action="store_true", help="forget what was measured before")
    line.add_argument("--out", type=Path, default=_RESULTS / "features.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
