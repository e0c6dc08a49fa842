"""What rows of a few nodes cost: cut out of a whole run, or computed from what they depend on.

    python benchmarks/reach.py [--edges 1000000] [--nodes 200000] [--etypes 20] [--width 32]

Two layers of RGCN on a graph whose sources and destinations are drawn evenly. "whole" runs both on
the graph, which is indexed, by the variants that the selector chooses. "reach" cuts out what the
nodes depend on, chooses for these graphs, indexes them, and runs. What that takes beside the runs
alone is fitted by non-negative seconds for each graph, edge and node, as which
`hetune.service.core.inference.subset` has rough constants.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _machine import commit, fingerprint, set_threads
from _measure import as_json
from rich.console import Console
from rich.table import Table

import hetune
from hetune.profiling.measure.rounds import interleave
from hetune.variants.graph import ReachStep, reach
from hetune.variants.graph.hetero import HeteroGraph

RESULTS = Path(__file__).parent / "results" / "reach.json"
SIZES = (1, 10, 100, 1000, 10_000)


class Stack:
    """Two layers of RGCN, run by the variants that a selector chooses for each graph."""

    def __init__(self, num_etypes: int, width: int) -> None:
        torch.manual_seed(0)
        self._selector = hetune.Selector.load()
        self._modules = [hetune.nn.RGCN(width, width, num_etypes) for _ in range(2)]
        self._compiled = [hetune.compile(module) for module in self._modules]

    def choose(self, graphs: Sequence[HeteroGraph], runs: float) -> list[str]:
        """A variant for each layer."""
        return [
            self._selector.choose(module, graph, expected_runs=runs).id
            for module, graph in zip(self._modules, graphs, strict=True)
        ]

    def whole(self, x: torch.Tensor, graph: HeteroGraph, ids: list[str]) -> torch.Tensor:
        """All rows."""
        for layer, variant in zip(self._compiled, ids, strict=True):
            x = layer(x, graph, variant=variant)
        return x

    def reached(self, x: torch.Tensor, steps: Sequence[ReachStep], ids: list[str]) -> torch.Tensor:
        """The rows of the last step's nodes."""
        for step, layer, variant in zip(steps, self._compiled, ids, strict=True):
            x = step.needed(layer(step.inputs(x), step.graph, variant=variant))
        return x


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes, fit, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--etypes", type=int, default=20)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="nodes asked for")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    set_threads(options.threads)
    rng = np.random.default_rng(0)
    src, dst, etype = (
        rng.integers(0, count, options.edges)
        for count in (options.nodes, options.nodes, options.etypes)
    )
    graph = HeteroGraph(src, dst, etype, num_nodes=options.nodes, num_etypes=options.etypes)
    stack = Stack(options.etypes, options.width)
    x = torch.randn(options.nodes, options.width)
    with torch.no_grad():
        cells = [
            measure(
                stack, graph, x, torch.from_numpy(rng.integers(0, options.nodes, size)), options
            )
            for size in options.sizes
        ]
    report = {
        "graph": {name: getattr(options, name) for name in ("edges", "nodes", "etypes", "width")},
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "seconds_for_each": fitted(cells),
        "cells": cells,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.print(_table(cells))
    for name, seconds in report["seconds_for_each"].items():
        console.print(f"{name}: {seconds:.3g} s each")
    console.print(f"wrote {options.out}")
    return 0


def measure(
    stack: Stack, graph: HeteroGraph, x: torch.Tensor, nodes: torch.Tensor, options: Any
) -> dict[str, Any]:
    """The cell of one number of nodes."""
    whole = stack.choose([graph] * 2, float("inf"))

    def cut() -> tuple[tuple[ReachStep, ...], list[str]]:
        steps = reach(graph, nodes, 2)
        assert steps is not None
        return steps, stack.choose([step.graph for step in steps], 1.0)

    def once() -> torch.Tensor:
        return stack.reached(x, *cut())

    ready = cut()
    runs = {
        "whole": lambda: stack.whole(x, graph, whole),
        "reach": once,
        "reach, run alone": lambda: stack.reached(x, *ready),
    }
    for run in runs.values():  # compiles what is missing
        run()
    start = time.perf_counter()
    times = interleave(runs, options.rounds)
    graphs = [step.graph for step in ready[0]]
    return {
        "nodes_asked_for": nodes.numel(),
        "graphs": len(graphs),
        "edges": sum(g.num_edges for g in graphs),
        "nodes": sum(g.num_nodes for g in graphs),
        **{name: as_json(timing) for name, timing in times.items()},
        "ratio": times["reach"].median / times["whole"].median,
        "seconds": round(time.perf_counter() - start, 3),
    }


def fitted(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds for each graph, edge and node that cutting out takes; relative errors count."""
    from scipy.optimize import nnls

    names = ("graphs", "edges", "nodes")
    beside = np.array([c["reach"]["median_ms"] - c["reach, run alone"]["median_ms"] for c in cells])
    beside = np.maximum(beside, 1e-3) / 1e3
    amounts = np.array([[cell[name] for name in names] for cell in cells], np.float64)
    found, _ = nnls(amounts / beside[:, None], np.ones(len(cells)))
    return dict(zip(names, found.tolist(), strict=True))


def _table(cells: Sequence[dict[str, Any]]) -> Table:
    table = Table("nodes", "of graphs", "edges", "whole, ms", "reach, ms", "alone, ms", "ratio")
    for cell in cells:
        shown = [f"{cell[name]:,}" for name in ("nodes_asked_for", "nodes", "edges")]
        ms = [f"{cell[name]['median_ms']:.2f}" for name in ("whole", "reach", "reach, run alone")]
        table.add_row(*shown, *ms, f"{cell['ratio']:.2f}")
    return table


if __name__ == "__main__":
    raise SystemExit(main())
