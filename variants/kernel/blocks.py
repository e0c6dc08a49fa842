"""Which launches run by blocks of destination nodes, and which in any order of the edges."""

from __future__ import annotations

from hetune.variants.kernel.nodes import (
    EdgeSoftmax,
    ForEach,
    Gemm,
    Kernel,
    Launch,
    Outer,
    SegmentSum,
    Traversal,
)
from hetune.variants.program.nodes import Space


def is_node_blocked(launch: Launch) -> bool:
    """Whether the blocks of a verified launch are ranges of destination nodes.

    Those of several kernels always are. One alone is if it walks nodes or adds rows up at them;
    pairs and edges that are walked alone are cut regardless of their nodes, and what is summed up
    into types is cut by type.
    """
    if len(launch.kernels) > 1:
        return True
    (kernel,) = launch.kernels
    if isinstance(kernel, Outer):
        return False
    return kernel.rows.space is Space.NODE or (isinstance(kernel, Gemm) and kernel.scatter)


def takes_any_order(launch: Launch) -> bool:
    """Whether a verified launch reads all edges, or pairs, one by one: their order is no matter."""
    return not is_node_blocked(launch) and all(map(reads_one_by_one, launch.kernels))


def reads_one_by_one(kernel: Kernel) -> bool:
    """Whether a kernel reads all edges, or pairs, one by one, and adds up nothing at nodes."""
    if kernel.rows.group or not kernel.rows.space.is_edgewise:
        return False
    match kernel:
        case Traversal(body=body):
            return not any(isinstance(statement, ForEach | EdgeSoftmax) for statement in body)
        case Gemm(x=x, scatter=scatter):
            return not scatter and not isinstance(x, SegmentSum)
        case Outer(factors=factors):
            return not any(isinstance(factor.x, SegmentSum) for factor in factors)
