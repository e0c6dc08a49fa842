"""Which kernels of a launch a GPU runs as one."""

from __future__ import annotations

from itertools import groupby

from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Kernel, Rows, Traversal
from hetune.variants.kernel.passes.edge_chunks import edge_loop
from hetune.variants.program.nodes import Space


def gpu_kernels(kernels: tuple[Kernel, ...], schedule: GpuSchedule) -> list[tuple[Kernel, ...]]:
    """The kernels in order, with walks over nodes that follow each other side by side.

    A launch's later kernels read what earlier ones wrote in the rows of the same node only. Walks
    whose edges are shared out are each alone, as products are.
    """

    def joins(kernel: Kernel) -> bool:
        walks_nodes = isinstance(kernel, Traversal) and kernel.rows == Rows(Space.NODE)
        return walks_nodes and edge_loop(kernel, schedule) is None

    found: list[tuple[Kernel, ...]] = []
    for joined, run in groupby(kernels, joins):
        same = tuple(run)
        found += [same] if joined else [(kernel,) for kernel in same]
    return found
