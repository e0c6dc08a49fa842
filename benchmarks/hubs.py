"""Nodes with many edges: how long they keep a thread busy, and how many threads that suits.

    python benchmarks/hubs.py [--graphs acm,am_whitelist,hub10,hub30] [--layers rgcn,rgat,hgt]

Every block of nodes of a launch is timed by itself on one thread, by that thread's own clock. From
these times follows what the launch takes on more threads that do not slow each other down, as a
multiple of its even share: with the blocks begun in the order of their nodes, with hubs begun first
(as kernels do), and with the work of hubs split evenly (what the best of splits could reach). The
drawn graphs `hubN` have 200,000 nodes and 1,000,000 edges, of which N% lead to the last node.
"""

import argparse
import heapq
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from _graphs import load_graph
from _machine import commit, fingerprint
from rich.console import Console
from rich.table import Table

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.presets import LAYERS, preset_programs
from hetune.variants.graph import cuts
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import constants_of, weights_of
from hetune.variants.testing.programs import random_parameters

RESULTS = Path(__file__).parent / "results" / "hubs.json"
GRAPHS = ("acm", "mutag_hetero", "am_whitelist", "hub10", "hub30")
THREADS = (2, 8, 16, 32, 64)
BLOCK_NODES = 256


@dataclass(frozen=True)
class Blocks:
    """Seconds of every block of a variant's longest launch over blocks, in order of the nodes."""

    variant: str
    seconds: np.ndarray
    order: np.ndarray
    is_hub: np.ndarray


def makespan(seconds: Iterable[float], threads: int) -> float:
    """When the last thread finishes, if each takes the next piece of work as it becomes free."""
    free = [0.0] * threads
    for piece in seconds:
        heapq.heapreplace(free, free[0] + piece)
    return max(free)


def over_even_share(blocks: Blocks, threads: int) -> dict[str, float]:
    """What each way of sharing takes, as a multiple of the even share."""
    seconds, hubs = blocks.seconds, blocks.is_hub
    even = seconds.sum() / threads
    return {
        "as they lie": makespan(seconds, threads) / even,
        "hubs first": makespan(seconds[blocks.order], threads) / even,
        "hubs split": (makespan(seconds[~hubs], threads) + seconds[hubs].sum() / threads) / even,
    }


class Problem:
    """A layer of width 64 on a graph, with random parameters."""

    def __init__(self, layer: str, graph: HeteroGraph) -> None:
        (self.program,) = preset_programs(layer, 64)
        self.graph, self.domain, self.backend = graph, Domain(graph), CppBackend()
        values = random_parameters(self.program, graph)
        self.values = {name: 0.1 * value.float() for name, value in values.items()}
        self.features = {
            param.name: self.values[param.name]
            for param in self.program.params
            if param.role == "feature"
        }

    def fastest(self) -> Variant:
        """The variant that is fastest on one thread."""
        seconds = {}
        for variant in variants_of(self.program):
            if variant.choices.schedule == Schedule(block_nodes=BLOCK_NODES):
                runs = self._executable(variant)
                weights = weights_of(variant.plan, self.values, self.graph)
                runs.run(self.features, weights)
                seconds[variant] = min(
                    _seconds(lambda: runs.run(self.features, weights))  # noqa: B023  called here
                    for _ in range(3)
                )
        return min(seconds, key=seconds.__getitem__)

    def blocks(self, variant: Variant, rounds: int) -> Blocks:
        """The least seconds of each block in several rounds over all blocks."""
        index = GraphIndex.of(self.graph)
        order = cuts.block_order(index, BLOCK_NODES)
        buffers = self._buffers(variant)
        found = []
        for launch, schedule in zip(variant.plan.launches, variant.schedules, strict=True):
            self.backend.bind(launch, schedule, self.domain)(buffers)
            if not is_node_blocked(launch):
                continue
            runners = []
            for block in range(order.numel()):
                only = torch.tensor([block], dtype=torch.int32)
                with mock.patch.object(cuts, "block_order", lambda *_, only=only: only):
                    runners.append(self.backend.bind(launch, schedule, self.domain))
            seconds = np.full(order.numel(), np.inf)
            for _ in range(rounds):
                for block, run in enumerate(runners):
                    seconds[block] = min(seconds[block], _seconds(lambda: run(buffers)))  # noqa: B023
            found.append(seconds)
        nodes = torch.diff(cuts.node_blocks(index, BLOCK_NODES)).numpy()
        longest = max(found, key=np.sum)
        is_hub = (nodes == 1) & (longest > 2 * np.median(longest))
        return Blocks(variant.id, longest, order.numpy(), is_hub)

    def _executable(self, variant: Variant) -> Executable:
        return Executable(variant.plan, self.domain, self.backend, variant.schedules)

    def _buffers(self, variant: Variant) -> dict[str, torch.Tensor]:
        plan, executable = variant.plan, self._executable(variant)
        buffers = {
            **constants_of(plan, self.domain),
            **weights_of(plan, self.values, self.graph),
            **self.features,
            **executable.memory(),
        }
        result = executable.run(self.features, buffers)
        buffers.setdefault(plan.result, result)
        return {**buffers, **{view.name: buffers[view.base] for view in plan.views}}


def graph_named(name: str) -> HeteroGraph:
    """A graph of the data folder, or one that is drawn with a hub."""
    if name.startswith("hub"):
        return drawn(200_000, 1_000_000, int(name.removeprefix("hub")) / 100)
    return load_graph(name, canonical=True)


def drawn(nodes: int, edges: int, share: float) -> HeteroGraph:
    """Edges between nodes drawn evenly, but that a share of them, of few types, has one end."""
    rng, into_hub = np.random.default_rng(0), int(edges * share)
    dst = np.append(np.full(into_hub, nodes - 1), rng.integers(0, nodes, edges - into_hub))
    etype = np.append(rng.integers(0, 4, into_hub), rng.integers(0, 20, edges - into_hub))
    return HeteroGraph(rng.integers(0, nodes, edges), dst, etype, num_nodes=nodes, num_etypes=20)


def _seconds(run: Any) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    table = Table(title="time / even share, by threads: as they lie, hubs first, hubs split")
    for column in (
        "graph",
        "layer",
        "variant",
        "ms",
        "largest node",
        "largest block",
        *map(str, THREADS),
    ):
        table.add_column(column)
    cells = []
    for name in options.graphs.split(","):
        graph = graph_named(name)
        of_edges = GraphIndex.of(graph).in_degree.max().item() / max(graph.num_edges, 1)
        for layer in options.layers.split(","):
            problem = Problem(layer, graph)
            blocks = problem.blocks(problem.fastest(), options.rounds)
            total, largest = blocks.seconds.sum(), blocks.seconds.max() / blocks.seconds.sum()
            by_threads = {threads: over_even_share(blocks, threads) for threads in THREADS}
            cells.append(
                {
                    "graph": name,
                    "layer": layer,
                    "variant": blocks.variant,
                    "milliseconds": round(total * 1e3, 4),
                    "edges_of_largest_node": of_edges,
                    "time_of_largest_block": largest,
                    "over_even_share": by_threads,
                }
            )
            shares = (
                " ".join(f"{share:.2f}" for share in found.values())
                for found in by_threads.values()
            )
            table.add_row(
                name, layer, blocks.variant, f"{total * 1e3:.3g}",
                f"{of_edges:.1%}", f"{largest:.1%}", *shares,
            )  # fmt: skip
    record = {"machine": fingerprint(1), "commit": commit(), "cells": cells}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
