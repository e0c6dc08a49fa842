"""Which kernels of a launch a GPU runs as one."""

from __future__ import annotations

from itertools import groupby

from hetune.variants.kernel.nodes import Kernel, Launch, Rows, Traversal
from hetune.variants.kernel.passes.phases import phase_of
from hetune.variants.program.nodes import Space


def gpu_kernels(launch: Launch) -> list[tuple[Kernel, ...]]:
    """The kernels of a `phased` launch in order, with walks over nodes that follow each other.

    A launch's later kernels read what earlier ones wrote in the rows of the same node only. Walks
    whose edges are shared out are each alone, as products are.
    """

    def joins(kernel: Kernel) -> bool:
        walks_nodes = isinstance(kernel, Traversal) and kernel.rows == Rows(Space.NODE)
        return walks_nodes and phase_of(kernel, launch) is None

    found: list[tuple[Kernel, ...]] = []
    for joined, run in groupby(launch.kernels, joins):
        same = tuple(run)
        found += [same] if joined else [(kernel,) for kernel in same]
    return found
