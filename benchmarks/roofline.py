"""Each kernel family's share of what the machine can do, measured beside it.

    python benchmarks/roofline.py [--rounds 15] [--threads 1 2] [--only gemm]

The limits are FMA instructions on registers alone, and sums of random rows of 64 floats out of
tables of different sizes. Limits and kernels take turns in each round; a share is the limit's
least time per unit over the kernel's (and the same of medians). Writes results/roofline.json.
"""

import argparse
import ctypes
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _machine import commit, fingerprint, set_threads
from _measure import as_json

from hetune.profiling.measure.rounds import interleave
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import row_count
from hetune.variants.kernel.nodes import Launch, Rows, Schedule
from hetune.variants.kernel.testing import random_values
from hetune.variants.kernel.text import parse, parse_schedule, show_schedule
from hetune.variants.kernel.verify import verify
from hetune.variants.registry import KernelSource, default_registry

HERE = Path(__file__).resolve().parent
_FMA_TURNS = 400_000
_FMA_FLOPS = 384
_GATHERED_ROWS = 400_000
_ROW_BYTES = 256
TABLES = {"L2": 2_000, "L3": 15_000, "DRAM": 1_000_000}
"""Rows of the gathered tables: 0.5 MB, 3.8 MB and 256 MB."""

GATHER_GEMM = """
launch
  buffer x: node[{d}]
  buffer w: etype[{d},{d}]
  buffer t: src_pair[{d}]
  gemm t[src_pair] = x[src] @ w heads=1 k={d} n={d}
"""

AGGREGATE = """
launch
  buffer x: node[64]
  buffer a: edge[]
  buffer y: node[64]
  traverse node
    init acc: [64] sum
    for edge
      h: [64] = read x[src]
      c: [] = read a
      m: [64] = mul(c, h)
      update acc m
    store y = acc
"""


@dataclass(frozen=True)
class Place:
    """A graph without named groups."""

    graph: HeteroGraph

    def index(self, group: str) -> GraphIndex:
        return GraphIndex.of(self.graph, None)

    def count(self, rows: Rows) -> int:
        return row_count(rows, self.index, self.graph)


@dataclass(frozen=True)
class Case:
    """A kernel to time: units of work (operations or bytes) a run, and the limit they share."""

    run: Callable[[], object]
    units: float
    limit: str


def random_graph(nodes: int, edges: int, relations: int) -> HeteroGraph:
    rng = np.random.default_rng(0)
    return HeteroGraph(
        rng.integers(0, nodes, edges),
        rng.integers(0, nodes, edges),
        rng.integers(0, relations, edges),
        num_nodes=nodes,
        num_etypes=relations,
    )


def bound(backend: CppBackend, text: str, schedule: Schedule, graph: HeteroGraph):
    launch: Launch = parse(text)
    verify(launch)
    place = Place(graph)
    run = backend.bind(launch, schedule, place)
    values = random_values(launch, place.index, graph, torch.float32)
    run(values)
    return lambda: run(values)


def limits(threads: int) -> dict[str, Case]:
    source = KernelSource("limits", (HERE / "_limits.cpp").read_text(), "roofline limits")
    library = default_registry().load(source)
    sink = torch.zeros(16 * threads)
    library.fma_peak.argtypes = (ctypes.c_int64, ctypes.c_int, ctypes.c_void_p)
    library.gather_sum.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_int64, ctypes.c_int, ctypes.c_void_p),
    )
    cases = {
        "fma": Case(
            lambda: library.fma_peak(_FMA_TURNS, threads, sink.data_ptr()),
            float(_FMA_TURNS * _FMA_FLOPS * threads),
            "fma",
        )
    }
    generator = torch.Generator().manual_seed(0)
    for name, rows in TABLES.items():
        table = torch.randn(rows, 64, generator=generator)
        index = torch.randint(rows, (_GATHERED_ROWS,), generator=generator, dtype=torch.int32)

        def run(table: torch.Tensor = table, index: torch.Tensor = index) -> None:
            given = table.data_ptr(), index.data_ptr(), _GATHERED_ROWS, threads, sink.data_ptr()
            library.gather_sum(*given)

        key = f"gather {name}"
        cases[key] = Case(run, float(_GATHERED_ROWS * _ROW_BYTES), key)
    return cases


def kernels(backend: CppBackend, schedule: Schedule) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    graph = random_graph(15_000, 100_000, 50)
    pairs = GraphIndex.of(graph, None).num_src_pairs
    for d in (64, 128):
        run = bound(backend, GATHER_GEMM.format(d=d), schedule, graph)
        cases[f"gather-gemm {d}x{d}"] = Case(run, 2.0 * pairs * d * d, "fma")
    for name, nodes in TABLES.items():
        edges = 1_000_000 if name == "DRAM" else 400_000
        graph = random_graph(nodes, edges, 1)
        run = bound(backend, AGGREGATE, schedule, graph)
        cases[f"aggregate {name}"] = Case(run, float(edges * _ROW_BYTES), f"gather {name}")
    return cases


def measure(threads: int, rounds: int, schedule: Schedule, only: str) -> list[dict[str, Any]]:
    set_threads(threads)
    backend = CppBackend()
    cases = {k: c for k, c in kernels(backend, schedule).items() if only in k}
    wanted = {case.limit for case in cases.values()}
    yardsticks = {k: c for k, c in limits(threads).items() if k in wanted}
    everything = {**yardsticks, **cases}
    for case in everything.values():
        case.run()
    samples = interleave(
        {name: case.run for name, case in everything.items()}, dict.fromkeys(everything, rounds)
    )

    def rate(name: str, statistic: str) -> float:
        return everything[name].units / getattr(samples[name], statistic) * 1e-9

    return [
        {
            "threads": threads,
            "kernel": name,
            "limit": case.limit,
            "unit": "GFLOP/s" if case.limit == "fma" else "GB/s",
            "rate_best": round(rate(name, "minimum"), 2),
            "rate_median": round(rate(name, "median"), 2),
            "limit_best": round(rate(case.limit, "minimum"), 2),
            "limit_median": round(rate(case.limit, "median"), 2),
            "share_best": round(rate(name, "minimum") / rate(case.limit, "minimum"), 3),
            "share_median": round(rate(name, "median") / rate(case.limit, "median"), 3),
            **as_json(samples[name]),
        }
        for name, case in cases.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--schedule", default="", help="e.g. 'row_tile=4 prefetch=16'")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "roofline.json")
    args = parser.parse_args()
    schedule = replace(parse_schedule(f"schedule {args.schedule}"))
    found: list[dict[str, Any]] = []
    for threads in args.threads:
        found += measure(threads, args.rounds, schedule, args.only)
    for row in found:
        print(
            f"{row['threads']} threads  {row['kernel']:<22} {row['rate_best']:8.1f} of "
            f"{row['limit_best']:8.1f} {row['unit']:<8} {row['share_best']:6.1%} "
            f"(medians {row['share_median']:6.1%})"
        )
    if not args.only and not args.schedule:
        report = {
            "commit": commit(),
            "machine": [fingerprint(threads) for threads in args.threads],
            "schedule": show_schedule(schedule),
            "results": found,
        }
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
