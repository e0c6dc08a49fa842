"""What editing an indexed graph costs, against building and indexing the result anew.

    python benchmarks/edits.py [--edges 5000000] [--nodes 1000000] [--etypes 100]

Half of an edit's edges go, half come. "order" is the graph with the canonical order of its edges
and its source pairs, which building sorts and an edit merges, unless it is large; "all" is that
with everything that a variant may ask for. The ratios are edited over anew, of medians of
interleaved rounds.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _machine import commit, fingerprint, set_threads
from _measure import as_json
from indexing import build_all, skewed_graph
from rich.console import Console
from rich.table import Table

from hetune.profiling.measure.rounds import interleave
from hetune.variants.graph import edited
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex

RESULTS = Path(__file__).parent / "results" / "edits.json"
SIZES = (2, 200, 20_000, 2_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--etypes", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="edges of an edit")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    set_threads(options.threads)
    graph = skewed_graph(options.edges, options.nodes, options.etypes)
    cells = [measure(graph, size, options.rounds) for size in options.sizes]
    report = {
        "graph": {name: getattr(options, name) for name in ("edges", "nodes", "etypes")},
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "rounds": options.rounds,
        "cells": cells,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.print(_table(cells))
    console.print(f"wrote {options.out}")
    return 0


def measure(graph: HeteroGraph, size: int, rounds: int) -> dict[str, Any]:
    """The cell of one size of edits."""
    GraphIndex.of(graph).indptr  # noqa: B018
    rng = np.random.default_rng(size)
    gone = rng.choice(graph.num_edges, size // 2, replace=False)
    come = rng.choice(graph.num_edges, size - size // 2)
    remove, add = by_type(graph, gone), by_type(graph, come, rng)
    result = edit(graph, remove, add)
    arrays = tuple(ids.clone() for ids in (result.src, result.dst, result.etype, result.ntype))
    counts = {"num_etypes": graph.num_etypes, "num_ntypes": graph.num_ntypes}

    def anew() -> HeteroGraph:
        return HeteroGraph(*arrays, **counts)

    def edited_now() -> HeteroGraph:
        return edit(graph, remove, add)

    runs: dict[str, Callable[[], object]] = {
        "order, edited": lambda: GraphIndex.of(edited_now()).edge_id,
        "order, anew": lambda: GraphIndex.of(anew()).edge_id,
        "all, edited": lambda: build_all(GraphIndex.of(edited_now())),
        "all, anew": lambda: build_all(GraphIndex.of(anew())),
    }
    for run in runs.values():
        run()
    times = interleave(runs, rounds)
    return {
        "edges_edited": size,
        **{name: as_json(timing) for name, timing in times.items()},
        "ratios": {
            what: times[f"{what}, edited"].median / times[f"{what}, anew"].median
            for what in ("order", "all")
        },
    }


def edit(
    graph: HeteroGraph, remove: dict[str, np.ndarray], add: dict[str, np.ndarray]
) -> HeteroGraph:
    """The edit that is timed."""
    return edited(graph, remove=remove, add=add, parallel="each")


def by_type(
    graph: HeteroGraph, edges: np.ndarray, rng: np.random.Generator | None = None
) -> dict[str, np.ndarray]:
    """Ends of these edges by edge type; the ends of each type mixed anew, if drawn."""
    found = {}
    src, dst, etype = (ids.numpy()[edges] for ids in (graph.src, graph.dst, graph.etype))
    for r in np.unique(etype):
        ends = np.stack((src[etype == r], dst[etype == r]))
        found[graph.etype_names[r]] = ends if rng is None else rng.permuted(ends, axis=1)
    return found


def _table(cells: Sequence[dict[str, Any]]) -> Table:
    table = Table("edges edited", "order, ms", "ratio", "all, ms", "ratio", title="edited / anew")
    for cell in cells:
        shown = [f"{cell['edges_edited']:,}"]
        for what in ("order", "all"):
            ms = [cell[f"{what}, {how}"]["median_ms"] for how in ("edited", "anew")]
            shown += [f"{ms[0]:.1f} / {ms[1]:.1f}", f"{cell['ratios'][what]:.2f}"]
        table.add_row(*shown)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
