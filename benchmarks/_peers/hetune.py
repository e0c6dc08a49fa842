"""hetune itself: the compiled module, called with a graph in place of the edge tensors."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from _peers.problem import Candidate, Layer, Problem


def _build(problem: Problem) -> Callable[[], Any]:
    import hetune

    # Preparation is shown apart, for peers too: it counts for nothing in the choice either.
    module, graph = hetune.compile(problem.conv, expected_runs=math.inf), problem.graph
    x = problem.rows
    # The first call builds indexes, chooses a variant and loads its kernels; it is timed apart.
    return lambda: module(x, graph)


def _build_small(problem: Problem) -> Callable[[], Any]:
    """Within the least memory that any variant can do with."""
    import hetune

    module, graph = hetune.compile(problem.conv, expected_runs=math.inf), problem.graph
    x = problem.rows

    @cache
    def least() -> int:
        return min(candidate.peak_bytes for candidate in module.explain(x, graph).candidates)

    return lambda: module(x, graph, memory_limit=least())


def candidates(layer: Layer) -> list[Candidate]:
    """The one that everything else is compared with, and what it does with less."""
    return [
        Candidate("hetune/compile", layer, _build),
        Candidate("hetune/least memory", layer, _build_small, by_name=True),
    ]
