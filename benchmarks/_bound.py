"""The least time that a layer takes by any variant: by counts, and what the machine can do."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from _peers.problem import Problem

import hetune
from hetune.profiling.calibrate import probes
from hetune.profiling.calibrate.rates import measure_machine
from hetune.profiling.measure.rounds import interleave
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Unsupported
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.roofline import PARTS, MachineModel, roofline_parts
from hetune.variants.runtime.table import CandidateTable

_FMA_TURNS = 400_000
_TABLE_ROWS = 1_000_000
_ROUNDS = 15
_ARITHMETIC, _TRAFFIC = ("matrix", "vector"), ("gather", "stream")


@cache
def limits(threads: int) -> MachineModel:
    """The machine at its best, a thread's part of it: FMA instructions on registers alone, rows of
    tables that fit a cache, and rows out of memory one after the other. Takes some ten seconds.
    """
    machine = measure_machine(threads)
    table = torch.ones(_TABLE_ROWS, probes.ROW_BYTES // 4)
    in_order = torch.arange(_TABLE_ROWS, dtype=torch.int32)
    best = {
        "fma": probes.fma(_FMA_TURNS, threads),
        "in order": probes.gather(table, in_order, threads),
    }
    for probe in best.values():
        probe.run()
    samples = interleave({name: p.run for name, p in best.items()}, dict.fromkeys(best, _ROUNDS))
    rate = {name: p.units / samples[name].minimum / threads for name, p in best.items()}
    memory = max(rate["in order"], machine.memory_rate)
    return replace(
        machine,
        matrix_flops=rate["fma"],
        vector_flops=rate["fma"],
        special=math.inf,
        memory_rate=memory,
        shared_rate=max(machine.shared_rate, memory),
    )


def least_seconds(problem: Problem, machine: MachineModel, threads: int) -> float:
    """What the least of all variants' launches takes: arithmetic or traffic, whichever is longer.

    Arithmetic is at FMA's peak. Traffic is every gathered row from where its table fits, and
    everything else that is read or written once. What starting launches takes, uneven shares, and
    what stays in a core's cache cost nothing.

    Args:
        problem: The layer and the graph.
        machine: What `limits` gives.
        threads: That share the work.
    """
    adapter = adapt(problem.conv)
    if isinstance(adapter, Unsupported):
        raise ValueError(f"{problem.layer} is not supported: {adapter.reason}")
    table = CandidateTable.of(variants_of(adapter.program, "cpu"))
    return least_seconds_of(table, Domain(problem.graph), machine, threads)


def least_seconds_of(
    table: CandidateTable, domain: Domain, machine: MachineModel, threads: int
) -> float:
    """`least_seconds` of variants on a graph."""
    columns = table.columns(domain)
    # As of one thread: what cores fetch from each other is traffic within caches.
    parts = dict(zip(PARTS, roofline_parts(columns, machine, 1).T, strict=True))
    arithmetic = sum(parts[name] for name in _ARITHMETIC)
    traffic = sum(parts[name] for name in _TRAFFIC)
    launches = np.maximum(arithmetic, traffic) / threads
    return float(table.totals(launches).min())


def least_seconds_called(module: Any, args: Sequence[Any], threads: int) -> float:
    """`least_seconds` of a call of a module with args."""
    scored = hetune.compile(module).explain(*args).scored
    return least_seconds_of(scored.table, scored.domain, limits(threads), threads)
