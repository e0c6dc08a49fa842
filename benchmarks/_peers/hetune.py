"""hetune itself: the compiled module, called with a graph in place of the edge tensors."""

import math
from collections.abc import Callable
from typing import Any

from _peers.problem import Candidate, Layer, Problem


def _build(problem: Problem) -> Callable[[], Any]:
    import hetune

    # Preparation is shown apart, for peers too: it counts for nothing in the choice either.
    module, graph = hetune.compile(problem.conv, expected_runs=math.inf), problem.graph
    x = problem.x_dict if problem.layer == "hgt" else problem.x
    # The first call builds indexes, chooses a variant and loads its kernels; it is timed apart.
    return lambda: module(x, graph)


def candidates(layer: Layer) -> list[Candidate]:
    """The one candidate that everything else is compared with."""
    return [Candidate("hetune/compile", layer, _build)]
