"""Every variant on every input: which is best where, and what a fixed choice would have lost.

    python benchmarks/variants.py --layers rgcn,rgat,hgt --widths 32,64,128

All promoted variants of a cell are timed interleaved. The table names the best one of each cell,
what the selector chose and its regret (time / best time); the last rows say what always taking
one plan would have cost. A second table counts the rows that each plan transforms.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _graphs import NAMES, MissingGraphError, load_graph, names
from _machine import commit, fingerprint, set_threads
from _measure import as_json, geometric_mean, rounds_within
from _peers.problem import LAYERS, Problem
from _variants_plot import plot_variants
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

import hetune
from hetune.profiling.measure.rounds import interleave
from hetune.variants.graph.index import GraphIndex
from hetune.variants.runtime.domain import split_relations

_RESULTS = Path(__file__).resolve().parent / "results"
_SLOWER = 20.0
"""A variant this much slower than the fastest first run is not run again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cells, print the tables, write the JSON and the plot."""
    options = parser().parse_args(arguments)
    console = Console()
    set_threads(options.threads)
    cells, rows = [], {}
    wanted = [(la, g, w) for la in options.layers for g in options.graphs for w in options.widths]
    for layer, name, width in track(wanted, console=console, description="cells"):
        try:
            graph = load_graph(name, canonical=layer == "hgt")
        except MissingGraphError as error:
            console.print(f"[yellow]skipped {name}: {error}")
            continue
        cells.append(_measure(layer, name, Problem(layer, graph, width), options))
        rows[name] = transformed_rows(load_graph(name))
    record = {
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cells": cells,
        "transformed_rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    for layer in options.layers:
        members = [cell for cell in cells if cell["layer"] == layer]
        if members:
            console.print(best_table(layer, members))
            console.print(fixed_table(layer, members))
    console.print(rows_table(rows))
    console.print(
        f"wrote {options.out} and {plot_variants(cells, options.out.with_suffix('.png'))}"
    )
    return 0


def _measure(
    layer: str, name: str, problem: Problem, options: argparse.Namespace
) -> dict[str, Any]:
    compiled = hetune.compile(problem.conv)
    x = problem.x_dict if layer == "hgt" else problem.x
    graph = problem.graph
    with torch.inference_mode():
        choice = compiled.explain(x, graph)
        predicted = {c.id: c.seconds for c in choice.candidates}
        runs = {v: _runner(compiled, x, graph, v) for v in compiled.variants}
        first = {v: _time(run) for v, run in runs.items()}
        fastest = min(first.values())
        worth = {v for v, s in first.items() if s <= _SLOWER * fastest} | {choice.id}
        runs = {v: run for v, run in runs.items() if v in worth}
        budget = options.budget / len(runs)
        rounds = {v: rounds_within(first[v], options.rounds, budget) for v in runs}
        samples = interleave(runs, rounds, seed=options.seed)
    measured = {v: as_json(sample) for v, sample in samples.items()}
    return {
        "layer": layer,
        "graph": name,
        "width": problem.width,
        "chosen": choice.id,
        "predicted_ms": {v: round(s * 1e3, 4) for v, s in predicted.items()},
        "variants": measured,
        "not_timed_ms": {v: round(s * 1e3, 2) for v, s in first.items() if v not in runs},
    }


def _runner(compiled: hetune.CompiledLayer, x: Any, graph: hetune.HeteroGraph, variant: str) -> Any:
    def run() -> Any:
        return compiled(x, graph, variant=variant)

    run()  # compiles and indexes
    return run


def _time(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def transformed_rows(graph: hetune.HeteroGraph) -> dict[str, int]:
    """Rows that meet a weight: per edge, per pair of either side, and relation by relation."""
    stats = GraphIndex.of(graph).relation_stats
    groups = split_relations(graph)
    return {
        "edges": int(stats.edges.sum()),
        "src_pairs": int(stats.src_pairs.sum()),
        "dst_pairs": int(stats.dst_pairs.sum()),
        "hybrid": int(
            stats.src_pairs[list(groups["s"])].sum() + stats.dst_pairs[list(groups["d"])].sum()
        ),
        "bound": sum(_fewest_rows(graph, stats.edges)),
    }


def _fewest_rows(graph: hetune.HeteroGraph, edges: np.ndarray) -> Iterator[int]:
    """For each relation the fewest rows that any choice of a side per *edge* could transform.

    Every edge needs its source's or its destination's row: a vertex cover of the relation's
    bipartite graph. The smallest one has as many nodes as the largest matching (König).
    """
    src, dst = graph.src.numpy(), graph.dst.numpy()  # edges are sorted by relation
    stop = np.cumsum(edges)
    for start, end in zip(stop - edges, stop, strict=True):
        sources, s = np.unique(src[start:end], return_inverse=True)
        targets, d = np.unique(dst[start:end], return_inverse=True)
        shape = sources.size, targets.size
        if end > start:
            relation = csr_matrix((np.ones(end - start, np.int8), (s, d)), shape=shape)
            yield int((maximum_bipartite_matching(relation) >= 0).sum())


def times_of(cell: dict[str, Any]) -> dict[str, float]:
    """Median milliseconds by variant."""
    return {v: sample["median_ms"] for v, sample in cell["variants"].items()}


def plan_of(variant: str) -> str:
    """A variant's plan: its id without the schedule."""
    return variant.rpartition("/")[0]


def best_of_plans(cell: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of each plan under its best schedule."""
    best: dict[str, float] = {}
    for variant, ms in times_of(cell).items():
        plan = plan_of(variant)
        best[plan] = min(ms, best.get(plan, ms))
    return best


def best_table(layer: str, cells: Sequence[dict[str, Any]]) -> Table:
    """The best variant of each input, and how the selector's choice compares."""
    table = Table(title=f"{layer}: best variant by input")
    for column in ("graph", "width", "best variant", "ms", "chosen", "regret"):
        table.add_column(column)
    regrets = []
    for cell in cells:
        times = times_of(cell)
        best = min(times, key=times.__getitem__)
        regret = times[cell["chosen"]] / times[best]
        regrets.append(regret)
        table.add_row(
            cell["graph"], str(cell["width"]), best, f"{times[best]:.3g}", cell["chosen"],
            f"{regret:.2f}",
        )  # fmt: skip
    table.add_section()
    table.add_row("", "", "", "", "geometric mean", f"{geometric_mean(regrets):.3f}")
    return table


def fixed_table(layer: str, cells: Sequence[dict[str, Any]]) -> Table:
    """What always taking one plan, with its best schedule, would have lost."""
    table = Table(title=f"{layer}: always the same plan, time / best time")
    for column in ("plan", "wins", "geometric mean", "worst"):
        table.add_column(column)
    best = [best_of_plans(cell) for cell in cells]
    plans = dict.fromkeys(plan for times in best for plan in times)
    losses = {
        plan: [times[plan] / min(times.values()) if plan in times else _SLOWER for times in best]
        for plan in plans
    }
    for plan, loss in sorted(losses.items(), key=lambda item: geometric_mean(item[1])):
        wins = sum(value == 1.0 for value in loss)
        table.add_row(plan, str(wins), f"{geometric_mean(loss):.2f}", f"{max(loss):.2f}")
    return table


def rows_table(rows: dict[str, dict[str, int]]) -> Table:
    """How many rows each plan transforms, as a share of the edges."""
    table = Table(title="rows transformed, share of the edges")
    for column in ("graph", "edges", "source pairs", "destination pairs", "hybrid", "bound"):
        table.add_column(column)
    for name, counts in rows.items():
        others = (counts[kind] for kind in counts if kind != "edges")
        shares = (f"{count / counts['edges']:.3f}" for count in others)
        table.add_row(name, f"{counts['edges']:,}", *shares)
    return table


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--graphs", type=names, default=list(NAMES))
    line.add_argument("--widths", type=lambda text: [int(w) for w in names(text)], default=[64])
    line.add_argument("--rounds", type=int, default=7)
    line.add_argument("--threads", type=int, default=torch.get_num_threads())
    line.add_argument("--budget", type=float, default=20.0, help="seconds of timing per cell")
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--out", type=Path, default=_RESULTS / "variants.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
