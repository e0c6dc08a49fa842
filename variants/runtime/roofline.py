"""The analytic cost model: what a variant should take, from counts and the machine's limits.

It answers until models are trained on measurements, and knows nothing but counts: a kernel takes
the time of its arithmetic plus that of its traffic, each at the rate of the level of memory that
its rows fit in; threads share blocks of nodes; no node's edges are split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.nodes import Buffer, Gemm, Kernel, Launch, Schedule
from hetune.variants.kernel.walk import reads, writes
from hetune.variants.kernel.work import Work, work
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Space, Type
from hetune.variants.runtime.domain import Domain

_ELEMENT = 4


@dataclass(frozen=True, slots=True)
class MachineModel:
    """Rates of one core, and sizes of caches.

    The defaults were set by hand, after times of all variants of the three layers on aifb, mutag,
    FB15k-237, mag and a drawn biokg on one server. Only their proportions decide a choice.

    Attributes:
        matrix_flops: Floating-point operations of matrix products per second.
        vector_flops: Those of elementwise code.
        special: exp, division and the like per second.
        own_bytes: Size of a core's own cache.
        shared_bytes: Size of the last-level cache.
        own_rate: Bytes per second from a core's own cache.
        shared_rate: From the last-level cache.
        memory_rate: From memory.
        launch_seconds: Starting and ending a parallel region.
        unevenness: How much longer threads with a single block each take than their share: the
            slower one is waited for. With more blocks a thread, it fades with their square.
    """

    matrix_flops: float = 110e9
    vector_flops: float = 24e9
    special: float = 1.2e9
    own_bytes: int = 1 << 20
    shared_bytes: int = 32 << 20
    own_rate: float = 110e9
    shared_rate: float = 42e9
    memory_rate: float = 17e9
    launch_seconds: float = 6e-6
    unevenness: float = 0.25

    def rate(self, working_set: float) -> float:
        """Bytes per second of rows picked from a set of that many bytes."""
        if working_set <= self.own_bytes / 2:
            return self.own_rate
        if working_set <= self.shared_bytes / 2:
            return self.shared_rate
        return self.memory_rate


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of a variant, and by launch."""

    seconds: float
    launches: tuple[float, ...]


def estimate(
    plan: Plan,
    schedules: tuple[Schedule, ...],
    domain: Domain,
    machine: MachineModel,
    threads: int | None = None,
) -> Estimate:
    """What a run of a plan should take on a graph."""
    threads = threads or torch.get_num_threads()
    seconds = tuple(
        _launch_seconds(launch, schedule, domain, machine, threads)
        for launch, schedule in zip(plan.launches, schedules, strict=True)
    )
    return Estimate(sum(seconds), seconds)


def _launch_seconds(
    launch: Launch, schedule: Schedule, domain: Domain, machine: MachineModel, threads: int
) -> float:
    types = {buffer.name: buffer.type for buffer in launch.buffers}
    blocks = max(1, math.ceil(domain.graph.num_nodes / schedule.block_nodes))
    busy = sum(_kernel_seconds(kernel, types, blocks, domain, machine) for kernel in launch.kernels)
    if all(kernel.rows.space in (Space.SRC_PAIR, Space.SRC_DENSE) for kernel in launch.kernels):
        return busy / threads + machine.launch_seconds
    rounds = math.ceil(blocks / threads) / blocks
    waiting = 1 + machine.unevenness * (threads / blocks) ** 2 if threads > 1 else 1
    return busy * rounds * waiting + machine.launch_seconds


def _kernel_seconds(
    kernel: Kernel, types: dict[str, Type], blocks: int, domain: Domain, machine: MachineModel
) -> float:
    done = _work(kernel, types, domain)
    arithmetic = (
        done.matrix_flops / machine.matrix_flops
        + done.vector_flops / machine.vector_flops
        + done.special / machine.special
    )
    table = min(done.read_bytes, done.gathered_bytes)
    traffic = done.gathered_bytes / machine.rate(table)
    streamed = done.compulsory_bytes - table
    traffic += streamed / machine.rate(streamed)
    if isinstance(kernel, Gemm):
        traffic += _weight_seconds(kernel, types, blocks, domain, machine)
    return arithmetic + traffic


def _weight_seconds(
    kernel: Gemm, types: dict[str, Type], blocks: int, domain: Domain, machine: MachineModel
) -> float:
    """Loading an edge type's weight for each block that has rows of it, and adding up there."""
    if types[kernel.w].space is not Space.ETYPE:
        return 0.0
    size = kernel.heads * kernel.k * kernel.n * _ELEMENT
    stats = GraphIndex.of(domain.graph).relation_stats
    rows = stats.dst_pairs if kernel.rows.space is Space.DST_PAIR else stats.edges
    if kernel.rows.group:
        rows = rows[list(domain.groups[kernel.rows.group])]
    blocked = kernel.rows.space in (Space.DST_PAIR, Space.EDGE)
    groups = float(np.minimum(rows, blocks).sum()) if blocked else float(np.count_nonzero(rows))
    total = groups * size / machine.rate(float(size * np.count_nonzero(rows)))
    if kernel.scatter:
        width = kernel.heads * kernel.n * _ELEMENT
        block = domain.graph.num_nodes / blocks * width
        total += 2 * domain.count(kernel.rows) * width / machine.rate(block)
    return total


def _work(kernel: Kernel, types: Mapping[str, Type], domain: Domain) -> Work:
    def count() -> Work:
        names = {*writes(kernel), *(name for name, _ in reads(kernel))}
        buffers = tuple(Buffer(name, types[name]) for name in types if name in names)
        return work(Launch((kernel,), buffers), domain.count)

    return domain.graph.cached(("work", kernel), count)
