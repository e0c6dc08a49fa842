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
    """Seconds of a variant's run on two threads, on average over a layer's variants.

    Attributes:
        variants: How many.
        run: Of any run.
        edge: For an edge and an element of its row out.
        edge_product: For an edge and a multiplication of its row.
        node_product: For a node and a multiplication of its row.
    """

    variants: int
    run: float
    edge: float
    edge_product: float
    node_product: float


# Fitted to the roofline model's times of all variants on the spanning corpus: half of the problems
# come out within a third, nine of ten within a factor of 3.
_RATES = {
    "rgcn": _Rates(24, 2.2e-5, 1.3e-10, 7.7e-12, 3.4e-11),
    "rgat": _Rates(24, 2.8e-5, 3.8e-10, 1.3e-11, 2.2e-12),
    "hgt": _Rates(64, 5.0e-5, 7.5e-10, 7.6e-12, 1.5e-10),
}
PLANS = {layer: rates.variants // 4 for layer, rates in _RATES.items()}
"""Plans of each layer, about; each has four schedules."""
_SETUP_SECONDS = 0.5
"""Making the graph, the inputs, the interpreter's result."""
_CANDIDATE_SECONDS = 0.02
"""Binding a candidate, checking it."""
_EDGE_SECONDS = 1e-7
"""Indexing the graph for a candidate, by edge."""
_FIRST_RUNS = 2
_MORE = 1.3
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
    """How many variants of a problem can be measured in so long; 0 or more."""
    each = _variant_seconds(problem, size, limits)
    return max(0, math.floor(min((seconds - _SETUP_SECONDS) / each, 1e9)))


def units_seconds(units: Iterable[Unit], limits: Limits) -> float:
    """Seconds to measure units, compiling left out.

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
    rates = _RATES[problem.layer]
    d_in, d_out = problem.d_in, problem.d_out
    run = (
        rates.run
        + edges * d_out * (rates.edge + d_in * rates.edge_product)
        + nodes * d_out * d_in * rates.node_product
    ) * (2 / problem.threads)
    is_lost = limits.rounds * run > limits.unit_seconds
    runs = 1 if is_lost else _FIRST_RUNS + _MORE * limits.rounds
    return _CANDIDATE_SECONDS + edges * _EDGE_SECONDS + runs * run
