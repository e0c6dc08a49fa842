"""Every variant on every input: which is best where, and how many rows each plan transforms.

    python benchmarks/variants.py --layers rgcn,rgat,hgt --widths 32,64,128

All promoted variants of a cell are timed interleaved. A table names the best one of each cell, what
the selector chose and its regret (time / best time); another counts the rows that meet a weight.
"""

import argparse
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _graphs import NAMES, MissingGraphError, load_graph, names
from _machine import set_threads, write_record
from _measure import as_json, geometric_mean, rounds_within, seconds_of
from _peers.problem import LAYERS, Problem
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

import hetune
from hetune.profiling.measure.rounds import interleave
from hetune.variants.graph.index import GraphIndex

_RESULTS = Path(__file__).resolve().parent / "results"
_SLOWER = 20.0
"""A variant this much slower than the fastest first run is not run again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cells, print the tables, write the JSON."""
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
        cells.append(measure(layer, name, Problem(layer, graph, width), options))
        rows[name] = transformed_rows(load_graph(name))
    write_record(options.out, options.threads, cells=cells, transformed_rows=rows)
    console.print(best_table(cells))
    console.print(rows_table(rows))
    console.print(f"wrote {options.out}")
    return 0


def measure(layer: str, name: str, problem: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """A cell: milliseconds of each variant, and what was chosen."""
    compiled, graph = hetune.compile(problem.conv), problem.graph
    x = problem.x_dict if layer == "hgt" else problem.x
    with torch.inference_mode():
        choice = compiled.explain(x, graph)
        runs = {v: functools.partial(compiled, x, graph, variant=v) for v in compiled.variants}
        for run in runs.values():
            run()  # compiles and indexes
        first = {v: seconds_of(run) for v, run in runs.items()}
        worth = {v for v, s in first.items() if s <= _SLOWER * min(first.values())} | {choice.id}
        runs = {v: run for v, run in runs.items() if v in worth}
        budget = options.budget / len(runs)
        rounds = {v: rounds_within(first[v], options.rounds, budget) for v in runs}
        samples = interleave(runs, rounds, seed=options.seed)
    return {
        "layer": layer,
        "graph": name,
        "width": problem.width,
        "chosen": choice.id,
        "predicted_ms": {c.id: round(c.seconds * 1e3, 4) for c in choice.candidates},
        "variants": {v: as_json(sample) for v, sample in samples.items()},
        "not_timed_ms": {v: round(s * 1e3, 2) for v, s in first.items() if v not in runs},
    }


def transformed_rows(graph: hetune.HeteroGraph) -> dict[str, int]:
    """Rows that meet a weight: per edge, per pair of either side, and relation by relation."""
    stats = GraphIndex.of(graph).relation_stats
    return {
        "edges": int(stats.edges.sum()),
        "src_pairs": int(stats.src_pairs.sum()),
        "dst_pairs": int(stats.dst_pairs.sum()),
        "hybrid": int(np.minimum(stats.src_pairs, stats.dst_pairs).sum()),
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
        if end > start:
            shape = sources.size, targets.size
            relation = csr_matrix((np.ones(end - start, np.int8), (s, d)), shape=shape)
            yield int((maximum_bipartite_matching(relation) >= 0).sum())


def best_table(cells: Sequence[dict[str, Any]]) -> Table:
    """The best variant of each input, and how the selector's choice compares."""
    table = Table(*("layer", "graph", "width", "best variant", "ms", "chosen", "regret"))
    regrets = []
    for cell in cells:
        times = {v: sample["median_ms"] for v, sample in cell["variants"].items()}
        best = min(times, key=times.__getitem__)
        regrets.append(times[cell["chosen"]] / times[best])
        table.add_row(
            *(cell["layer"], cell["graph"], str(cell["width"]), best, f"{times[best]:.3g}"),
            *(cell["chosen"], f"{regrets[-1]:.2f}"),
        )
    table.caption = f"regret, geometric mean: {geometric_mean(regrets):.3f}"
    return table


def rows_table(rows: dict[str, dict[str, int]]) -> Table:
    """How many rows each plan transforms, as a share of the edges."""
    table = Table(*("graph", "edges", "source pairs", "destination pairs", "hybrid", "bound"))
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
