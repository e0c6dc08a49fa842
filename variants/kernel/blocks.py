"""Which launches run by blocks of destination nodes."""

from __future__ import annotations

from hetune.variants.kernel.nodes import Gemm, Launch, Outer
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
