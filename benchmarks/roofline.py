"""Each kernel family's share of what the machine can do, measured beside it.

    python benchmarks/roofline.py [--rounds 15] [--threads 1 2] [--only gemm]

The limits are FMA instructions on registers alone, and sums of random rows of 64 floats out of
tables of different sizes. Limits and kernels take turns in each round; a share is the limit's
least time per unit over the kernel's (and the same of medians). Writes results/roofline.json.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _command_line import RESULTS, command_line
from _machine import set_threads, write_record
from _measure import as_json

from hetune.profiling.calibrate import probes
from hetune.profiling.measure.rounds import interleave
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse_schedule
from hetune.variants.kernel.text import show_schedule

_FMA_TURNS = 400_000
_GATHERED_ROWS = 400_000
TABLES = {"L2": 2_000, "L3": 15_000, "DRAM": 1_000_000}
"""Rows of the gathered tables: 0.5 MB, 3.8 MB and 256 MB."""
_EDGES = {"L2": 400_000, "L3": 400_000, "DRAM": 4_000_000}
"""Of what is aggregated: several for each row of the result, which is stored, too."""


@dataclass(frozen=True)
class Case:
    """A kernel to time: units of work (operations or bytes) a run, and the limit they share."""

    run: Callable[[], object]
    units: float
    limit: str


def case(probe: probes.Probe, limit: str) -> Case:
    return Case(probe.run, probe.units, limit)


def limits(threads: int) -> dict[str, Case]:
    cases = {"fma": case(probes.fma(_FMA_TURNS, threads), "fma")}
    generator = torch.Generator().manual_seed(0)
    for name, rows in TABLES.items():
        table = torch.randn(rows, 64, generator=generator)
        index = torch.randint(rows, (_GATHERED_ROWS,), generator=generator, dtype=torch.int32)
        key = f"gather {name}"
        cases[key] = case(probes.gather(table, index, threads), key)
    return cases


def kernels(schedule: Schedule) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    graph = probes.random_graph(15_000, 100_000, 50)
    for d in (64, 128):
        cases[f"gather-gemm {d}x{d}"] = case(probes.product(d, graph, schedule), "fma")
    for name, nodes in TABLES.items():
        graph = probes.random_graph(nodes, _EDGES[name], 1)
        cases[f"aggregate {name}"] = case(probes.aggregation(graph, schedule), f"gather {name}")
    # As many rows are stored as are gathered, and to store one reads it first.
    sparse = probes.random_graph(TABLES["DRAM"], TABLES["DRAM"], 1)
    cases["aggregate DRAM, degree 1"] = case(probes.aggregation(sparse, schedule), "gather DRAM")
    return cases


def measure(threads: int, rounds: int, schedule: Schedule, only: str) -> list[dict[str, Any]]:
    set_threads(threads)
    cases = {k: c for k, c in kernels(schedule).items() if only in k}
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--schedule", default="", help="e.g. 'row_tile=4 prefetch=16'")
    parser.add_argument("--out", type=Path, default=RESULTS / "roofline.json")
    args = parser.parse_args(arguments)
    schedule = parse_schedule(f"schedule {args.schedule}")
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
        content = {"schedule": show_schedule(schedule), "results": found}
        write_record(args.out, max(args.threads), **content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
