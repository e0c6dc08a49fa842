"""What a rule of launches on CPUs is worth: the fastest variant with and without.

    python benchmarks/rules.py [--rule blocks] [--graphs umls,cora] [--layers rgcn,rgat,hgt]

`blocks`: small graphs are cut into eight blocks. Without, there are as many as the largest size of
one asks for: one, where that many nodes are not there. `turns`: threads begin with consecutive
shares of the blocks, the same in every launch. Without, they take the next block from one queue.
`registers`: vectors and tiles are those that the CPU's registers hold. Without, they are AVX-512's.

All variants but vanilla run with and without the rule, interleaved in one process.
"""

import argparse
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from _graphs import MissingGraphError, load_graph, names
from _machine import commit, fingerprint, set_threads
from _measure import as_json, geometric_mean
from _peers.problem import LAYERS
from rich.console import Console
from rich.table import Table

from hetune.profiling.measure.rounds import interleave
from hetune.variants.backends.cpp import backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.presets import preset_program
from hetune.variants.graph import cuts
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.choices import VANILLA
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry.vectors import WIDEST
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import weights_of
from hetune.variants.testing.programs import random_parameters

RESULTS = Path(__file__).parent / "results"
GRAPHS = ("umls", "kinship", "codex_s", "citeseer", "cora", "wiki_squirrel")
BEFORE, NOW = "before", "now"
_SHARES = "const int shares = threads < most ? threads : most;"


def as_asked(num_nodes: int, block_nodes: np.ndarray) -> np.ndarray:
    """How many blocks there are without the rule of eight."""
    return np.maximum(np.ceil(num_nodes / block_nodes), 1)


def few_blocks() -> AbstractContextManager[Any]:
    """As many blocks as their size asks for."""
    return mock.patch.object(cuts, "block_counts", as_asked)


@contextmanager
def one_queue() -> Iterator[None]:
    """Kernels whose threads take blocks from one queue."""
    # By name, for the package's own `emit` is the function.
    emit = importlib.import_module("hetune.variants.backends.cpp.emit")
    prelude: str = emit._prelude()
    if prelude.count(_SHARES) != 1:
        raise SystemExit(f"the prelude of kernels does not say {_SHARES!r} any more: mend _SHARES")
    backend._emit.cache_clear()
    queue = prelude.replace(_SHARES, "const int shares = 1;")
    with mock.patch.object(emit, "_prelude", return_value=queue):
        yield
    backend._emit.cache_clear()


def wide_registers() -> AbstractContextManager[Any]:
    """Kernels for AVX-512, whatever the CPU has."""
    return mock.patch.object(CppBackend, "vectors", WIDEST)


WITHOUT: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "blocks": few_blocks,
    "turns": one_queue,
    "registers": wide_registers,
}
"""What takes a rule away, by its name."""


def measure(
    rule: str, layer: str, graph: HeteroGraph, width: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """The times of the fastest variant before and now, and its id."""
    program = preset_program(layer, width, width, 1)
    values = {n: 0.1 * v.float() for n, v in random_parameters(program, graph).items()}
    features = {p.name: values[p.name] for p in program.params if p.role == "feature"}
    runs, kept = {}, []
    for when, changed in ((BEFORE, WITHOUT[rule]), (NOW, nullcontext)):
        with changed():
            kept.append(fresh := graph.unindexed())  # domains do not keep it
            domain = Domain(fresh)
            for variant in variants_of(program):
                if variant.plan_id == VANILLA:
                    continue
                given = weights_of(variant.plan, values, graph)
                bound = Executable(variant.plan, domain, CppBackend(), variant.schedules)
                runs[when, variant.id] = lambda bound=bound, given=given: bound.run(features, given)
                runs[when, variant.id]()
    times = interleave(runs, dict.fromkeys(runs, rounds))
    found: dict[str, Any] = {}
    for when in (BEFORE, NOW):
        mine = {variant: t for (of, variant), t in times.items() if of == when}
        best = min(mine, key=lambda variant: mine[variant].median)
        found[when] = {"variant": best, **as_json(mine[best])}
    return found


def main() -> None:
    """Measure all, print a table, write the JSON."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--rule", choices=tuple(WITHOUT), default="turns")
    line.add_argument("--graphs", type=names, default=list(GRAPHS))
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--width", type=int, default=64)
    line.add_argument("--rounds", type=int, default=31)
    line.add_argument("--threads", type=int, default=torch.get_num_threads())
    line.add_argument("--out", type=Path, help="results/RULE.json by default")
    options = line.parse_args()
    out = options.out or RESULTS / f"{options.rule}.json"
    set_threads(options.threads)
    table = Table(title="ms of the fastest variant")
    for column in ("layer", "graph", BEFORE, NOW, "now / before"):
        table.add_column(column, justify="right")
    cells = []
    for layer in options.layers:
        for name in options.graphs:
            try:
                graph = load_graph(name, canonical=layer == "hgt")
            except MissingGraphError as error:
                print(f"skipped {name}: {error}")
                continue
            found = measure(options.rule, layer, graph, options.width, options.rounds)
            ratio = found[NOW]["median_ms"] / found[BEFORE]["median_ms"]
            cells.append({"layer": layer, "graph": name, "ratio": round(ratio, 4), **found})
            shown = (f"{found[when]['median_ms']:.3f}" for when in (BEFORE, NOW))
            table.add_row(layer, name, *shown, f"{ratio:.2f}")
        if ratios := [cell["ratio"] for cell in cells if cell["layer"] == layer]:
            mean = geometric_mean(ratios)
            table.add_row(layer, "geometric mean", "", "", f"{mean:.2f}", end_section=True)
    Console().print(table)
    record = {
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "rule": options.rule,
        "width": options.width,
        "cells": cells,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
