"""What measuring a problem should take, by its sizes alone: before any graph is made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.profiling.corpus import size_of
from hetune.profiling.measure.limits import Limits
from hetune.profiling.units import ProblemSpec, Unit


@dataclass(frozen=True, slots=True)
class _Rates:
    """Seconds of a run on two threads, on average over the variants of a layer or kernel.

    Attributes:
        plans: How many there are.
        variants: How many they make on a CPU: most plans come in every size of blocks.
        run: Of any run.
        edge: For an edge and an element of its row out.
        node: For a node and an element of its row out.
        edge_product: For an edge and a multiplication of its row.
        node_product: For a node and a multiplication of its row.
    """

    plans: int
    variants: int
    run: float
    edge: float
    node: float
    edge_product: float
    node_product: float


# Those of layers are fitted to 311 problems of the campaign `default` on two cores: runs of two
# problems of three come out within a factor of 1.6, and all problems together within a tenth.
# Those of kernels are rough: what is in cache takes a third of it, what is not a few times as much.
_RATES = {
    "rgcn": _Rates(7, 19, 1.5e-5, 0.5e-10, 0.6e-10, 1.3e-12, 8e-12),
    "rgat": _Rates(9, 21, 1.4e-5, 1.8e-10, 3.9e-10, 2.5e-12, 2.8e-12),
    "hgt": _Rates(17, 49, 2.1e-5, 0.4e-10, 16e-10, 4.3e-12, 19e-12),
    "linear": _Rates(1, 3, 1.2e-5, 0.0, 1.0e-10, 0.0, 8e-12),
    "aggregate": _Rates(1, 3, 1.2e-5, 1.0e-10, 0.6e-10, 0.0, 0.0),
    "attention": _Rates(1, 3, 1.2e-5, 3.0e-10, 0.6e-10, 0.0, 0.0),
}
LEAST_VARIANTS = {name: max(1, rates.plans // 2) for name, rates in _RATES.items()}
"""As many as half of the plans; a kernel has one plan."""
_SETUP_SECONDS = 0.3
"""Making the graph, the inputs, and what outputs are compared with."""
_CANDIDATE_SECONDS = 0.004
"""Binding a candidate, checking it; and what that takes by edge and by node."""
_CANDIDATE_EDGE_SECONDS = 0.6e-7
_CANDIDATE_NODE_SECONDS = 1.1e-7
_FIRST_RUNS = 2
_ALL = 10**9
_MORE = 1.15
"""Rounds that are repeated, and those that only the fastest take part in."""


def problem_seconds(
    problem: ProblemSpec, size: tuple[int, int], limits: Limits, variants: int | None = None
) -> float:
    """Seconds to measure a problem, compiling left out.

    Args:
        problem: The problem.
        size: Nodes and edges of its graph.
        limits: What measuring may cost.
        variants: How many variants are measured; by default all.
    """
    count = _RATES[problem.layer].variants if variants is None else variants
    return _SETUP_SECONDS + count * _variant_seconds(problem, size, limits)


def affordable_variants(
    problem: ProblemSpec, size: tuple[int, int], limits: Limits, seconds: float
) -> int:
    """How many variants of a problem can be measured in so long; 0 if all would be given up.

    More than there are for a GPU, of which no times are known.
    """
    if problem.device != "cpu":
        return _ALL
    if _is_lost(_run_seconds(problem, size), limits):
        return 0
    each = _variant_seconds(problem, size, limits)
    return max(0, math.floor(min((seconds - _SETUP_SECONDS) / each, _ALL)))


def units_seconds(units: Iterable[Unit], limits: Limits) -> float:
    """Seconds to measure units on a CPU, compiling left out.

    Raises:
        GraphError: A file cannot be read.
    """
    counts = Counter(unit.problem for unit in units)
    sizes = {graph: size_of(graph) for graph in {problem.graph for problem in counts}}
    return sum(
        problem_seconds(problem, sizes[problem.graph], limits, count)
        for problem, count in counts.items()
    )


def _variant_seconds(problem: ProblemSpec, size: tuple[int, int], limits: Limits) -> float:
    """Seconds for a variant, on average."""
    nodes, edges = size
    run = _run_seconds(problem, size)
    runs = 1 if _is_lost(run, limits) else _FIRST_RUNS + _MORE * limits.rounds
    bound = edges * _CANDIDATE_EDGE_SECONDS + nodes * _CANDIDATE_NODE_SECONDS
    return _CANDIDATE_SECONDS + bound + runs * run


def _run_seconds(problem: ProblemSpec, size: tuple[int, int]) -> float:
    nodes, edges = size
    rates = _RATES[problem.layer]
    d_in, d_out = problem.d_in, problem.d_out
    element = edges * rates.edge + nodes * rates.node
    product = edges * rates.edge_product + nodes * rates.node_product
    on_two = rates.run + d_out * (element + d_in * product)
    return on_two * (2 / problem.threads)


def _is_lost(run: float, limits: Limits) -> bool:
    """Whether a variant whose runs take so long is given up."""
    return limits.rounds * run > limits.unit_seconds
