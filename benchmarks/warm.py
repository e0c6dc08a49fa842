"""What a run takes right after other variants ran, and after runs of its own.

    python benchmarks/warm.py [--graphs kinship,umls,...] [--layers rgcn,rgat,hgt] [--width 32]

Profiling takes samples of variants in turns, and whoever serves a graph runs one of them again and
again. Here a sample is a run after so many others of the same variant (`AFTER`); variants and
numbers take turns, in rounds as profiling has them. For each number the table says how far samples
of a variant lie apart (third quartile over first), and how much is lost by whoever takes the
variant whose samples have the least first quartile: over the one with the least after as many runs
as are tried, of which half of the samples choose and the other half judge.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _graphs import MissingGraphError, load_graph, names
from _machine import commit, fingerprint, set_threads
from _measure import geometric_mean
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hetune.profiling.measure.inputs import random_inputs
from hetune.profiling.measure.rounds import take_rounds
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.presets import preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import weights_of

RESULTS = Path(__file__).parent / "results" / "warm.json"
GRAPHS = ("kinship", "umls", "imdb", "cora", "aifb_hetero", "wiki_squirrel")
AFTER = (0, 1, 2, 8)
"""How many runs of its own come before a sample."""
_SLOWEST = 20.0
"""Variants slower than the fastest by more than this factor are left out: nobody chooses them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    console = Console()
    wanted = [(graph, layer) for graph in options.graphs for layer in options.layers]
    found = []
    for graph, layer in track(wanted, console=console, description="sampling"):
        try:
            loaded = load_graph(graph, canonical=layer == "hgt")
        except MissingGraphError as error:
            console.print(f"{graph} is left out: {error}")
            continue
        found.append({"graph": graph, "layer": layer, **sampled(loaded, layer, options)})
    if not found:
        return 0
    console.print(table(found))
    record = {
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "width": options.width,
        "rounds": options.rounds,
        "summary": [summary(found, number) for number in range(len(AFTER))],
        "inputs": found,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {options.out}")
    return 0


def sampled(graph: HeteroGraph, layer: str, options: argparse.Namespace) -> dict[str, Any]:
    """What samples of a layer's variants say, by `AFTER`."""
    runs = _runs(graph, layer, options.width)
    for run in runs.values():
        run()  # loads code and takes memory
    once = {variant: _seconds(run) for variant, run in runs.items()}
    near = [v for v in runs if once[v] <= _SLOWEST * min(once.values())]
    samplers = {
        f"{variant} after {number}": functools.partial(_seconds, runs[variant], number)
        for number in AFTER
        for variant in near
    }
    taken = take_rounds(samplers, 2 * options.rounds).samples
    seconds = np.array([taken[name] for name in samplers]).reshape(len(AFTER), len(near), -1)
    return judged(near, seconds)


def judged(variants: Sequence[str], seconds: np.ndarray) -> dict[str, Any]:
    """Spread and loss by `AFTER`.

    Args:
        variants: Their ids.
        seconds: float64 [`AFTER`, variants, rounds]. Those of even rounds choose, the others judge.
    """
    low, high = np.quantile(seconds, [0.25, 0.75], axis=2)
    chosen = np.quantile(seconds[:, :, ::2], 0.25, axis=2).argmin(axis=1)
    truth = np.quantile(seconds[-1, :, 1::2], 0.25, axis=1)
    return {
        "variants": len(variants),
        "best_ms": round(float(truth.min()) * 1e3, 4),
        "chosen": [variants[place] for place in chosen],
        "spread": [round(geometric_mean(each.tolist()), 4) for each in high / low],
        "over_warm": [round(geometric_mean(each.tolist()), 4) for each in low / low[-1]],
        "loss": [round(float(truth[place] / truth.min()), 4) for place in chosen],
    }


def summary(found: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    """Geometric means over the inputs, and the greatest loss, for one of `AFTER`."""
    means = {
        name: round(geometric_mean([each[name][number] for each in found]), 4)
        for name in ("spread", "over_warm", "loss")
    }
    return {"after": AFTER[number], **means, "worst": max(each["loss"][number] for each in found)}


def table(found: Sequence[dict[str, Any]]) -> Table:
    """`summary` for a reader."""
    shown = Table(title=f"{len(found)} inputs, geometric means")
    for column in ("runs before", "spread", "over the last line", "loss", "greatest loss"):
        shown.add_column(column, justify="right")
    for number in range(len(AFTER)):
        values = list(summary(found, number).values())
        shown.add_row(str(values[0]), *(f"{value:.3f}" for value in values[1:]))
    return shown


def _runs(graph: HeteroGraph, layer: str, width: int) -> dict[str, Callable[[], object]]:
    program, domain = preset_program(layer, width, width), Domain(graph)
    inputs = random_inputs(program, domain, 0)
    weights: dict[int, dict[str, torch.Tensor]] = {}
    found: dict[str, Callable[[], object]] = {}
    for variant in variants_of(program):
        plan = variant.plan
        if id(plan) not in weights:
            weights[id(plan)] = weights_of(plan, inputs.weights, graph)
        bound = Executable(plan, domain, CppBackend(), variant.schedules)
        given = inputs.features, weights[id(plan)]
        found[variant.id] = lambda bound=bound, given=given: bound.run(*given)  # type: ignore[misc]
    return found


def _seconds(run: Callable[[], object], after: int = 0) -> float:
    """What a run takes after so many others."""
    for _ in range(after):
        run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--graphs", type=names, default=list(GRAPHS))
    line.add_argument("--layers", type=names, default=["rgcn", "rgat", "hgt"])
    line.add_argument("--width", type=int, default=32)
    line.add_argument("--rounds", type=int, default=21, help="samples of each half")
    line.add_argument("--threads", type=int, default=2)
    line.add_argument("--out", type=Path, default=RESULTS)
    return line


if __name__ == "__main__":
    raise SystemExit(main())
