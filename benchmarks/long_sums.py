"""How far variants are from float64 at a node with very many incoming edges.

    python benchmarks/long_sums.py [--edges 300000] [--widths 1,7,64] \\
        [--layers rgcn-add,hgt] [--constant 0.7] [--out FILE]

Features are drawn evenly from [0, 1], or with --constant all the same number: sums then grow with
every edge. Nearly all edges are of one type. Every plan runs in blocks of 1024 nodes, on one
thread and on two. Printed is the largest difference in the hub's row as a share of the row's
largest value: the least and the largest of all plans.

For another commit: `git worktree add OLD COMMIT`, and this script with PYTHONPATH=OLD/src.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from _graphs import names
from _machine import commit, fingerprint
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compiled import compile
from hetune.variants.testing.conformance import interpreted, relative_error
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import LAYERS, Layer, randomized

HEADS = (1, 2)
THREADS = (1, 2)
_RESULTS = Path(__file__).resolve().parent / "results"


def hub_graph(edges: int) -> HeteroGraph:
    """A hub of so many edges among some thousands of nodes."""
    return typed_graph(
        (1500, 1500),
        [(0, 0, edges), (1, 0, edges // 100), (0, 1, 3000), (1, 1, 3000)],
        ends=lambda src, dst: (src, torch.where(torch.arange(len(dst)) % 50 != 0, 0, dst)),
    )


def errors(
    layer: Layer, heads: int, graph: HeteroGraph, width: int, constant: float | None
) -> dict[str, float]:
    """The error in the hub's row of each plan, the larger one of those on one thread and on two."""
    module = randomized(layer.make(graph, width, heads))
    adapter = module.adapter()
    shape = (graph.num_nodes, adapter.program.type_of("x").width)
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(shape, generator=draw) if constant is None else torch.full(shape, constant)
    with torch.inference_mode():
        expected = interpreted(module, x, graph)[:1]
        compiled = compile(module, backend="cpp")
        found: dict[str, float] = {}
        for threads in THREADS:
            torch.set_num_threads(threads)
            for variant in compiled.variants:
                if variant.endswith("/b1024"):
                    out = compiled(x, graph, variant=variant)[:1]
                    error = relative_error(out, expected)
                    found[variant] = max(error, found.get(variant, 0.0))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cells and print the table."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--edges", type=_numbers, default=[300_000, 1_000_000])
    line.add_argument("--widths", type=_numbers, default=[1, 7, 64])
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--constant", type=float, help="every feature is this number")
    line.add_argument("--out", type=Path, default=_RESULTS / "long_sums.json")
    options = line.parse_args(arguments)
    console = Console()
    table = Table(title="errors in the hub's row")
    for title in ("layer", "heads", "edges", "width", "plans", "least", "largest", "which"):
        table.add_column(title, overflow="fold")
    wanted = [
        (edges, width, name, heads)
        for edges in options.edges
        for width in options.widths
        for name in options.layers
        for heads in HEADS
        if heads in LAYERS[name].heads
    ]
    cells = []
    for edges, width, name, heads in track(wanted, console=console, description="layers"):
        found = errors(LAYERS[name], heads, hub_graph(edges), width, options.constant)
        worst = max(found, key=found.__getitem__)
        least, largest = min(found.values()), found[worst]
        row = (name, heads, edges, width, len(found), f"{least:.1e}", f"{largest:.1e}", worst)
        table.add_row(*map(str, row))
        cell = {"layer": name, "heads": heads, "edges": edges, "width": width, "errors": found}
        cells.append(cell)
    console.print(table)
    report = {
        "machine": fingerprint(max(THREADS)),
        "commit": commit(),
        "constant": options.constant,
        "cells": cells,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {options.out}")
    return 0


def _numbers(text: str) -> list[int]:
    return [int(name) for name in names(text)]


if __name__ == "__main__":
    raise SystemExit(main())
