"""What measuring a problem should take, by its sizes alone: before any graph is made."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.profiling.corpus import size_of
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.oracle import needs_all_rows, widest
from hetune.profiling.measure.problem import plan_ids, promoted_for
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.program.nodes import (
    Linear,
    Map,
    Program,
    Reduce,
    Softmax,
    Space,
    Take,
    operands,
)
from hetune.variants.program.outer_sums import outer_products

_RUN_SECONDS = 1e-5
_EDGE_SECONDS, _NODE_SECONDS = 4.7e-11, 9.6e-11
_EDGE_PRODUCT_SECONDS, _NODE_PRODUCT_SECONDS = 1.1e-12, 7.8e-12
_SCORE_SECONDS = 4e-10
"""Seconds of a run on two threads, on average over the variants of a program.

For any run; for an element of a row of edges or nodes; for a multiplication of such a row; for a
score. They are fitted to runs of the three layers that ship: most come out within a factor of two.
"""
_SETUP_SECONDS = 0.3
"""Making the graph, the inputs, and what outputs are compared with."""
_CANDIDATE_SECONDS = 0.004
"""Binding a candidate, checking it; and what that takes by edge and by node."""
_CANDIDATE_EDGE_SECONDS = 0.6e-7
_CANDIDATE_NODE_SECONDS = 1.1e-7
_FIRST_RUNS = 2
_MOST_ROWS, _ELEMENT = 1 << 30, 4
"""Bytes of the nodes' rows, in and out, of the largest problems that are drawn."""
_MOST_CHECKED = 1 << 24
"""Numbers in rows of nodes and edges that the oracle computes of what needs all of them."""
_ALL = 10**9
_MORE = 1.15
"""Rounds that are repeated, and those that only the fastest take part in."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What a program does for each edge and node, as it is written.

    Attributes:
        edge: Elements of edges' rows that are computed or summed.
        node: Elements of nodes' rows.
        edge_products: Multiplications of edges' rows by matrices.
        node_products: Those of nodes' rows.
        scores: Scores of an edge that a softmax takes.
    """

    edge: int = 0
    node: int = 0
    edge_products: int = 0
    node_products: int = 0
    scores: int = 0

    def seconds(self, nodes: int, edges: int) -> float:
        """Of a run on two threads."""
        by_edge = self.edge * _EDGE_SECONDS + self.edge_products * _EDGE_PRODUCT_SECONDS
        by_node = self.node * _NODE_SECONDS + self.node_products * _NODE_PRODUCT_SECONDS
        by_edge += self.scores * _SCORE_SECONDS
        return _RUN_SECONDS + edges * by_edge + nodes * by_node


@functools.lru_cache(maxsize=1024)
def _work_of(program: Program) -> _Work:
    types = program.types
    sums = outer_products(program, {*program.results})
    outer = {product.name for product in sums.values()}
    edge = node = edge_products = node_products = scores = 0
    for let in program.lets:
        rows, read = let.type, [types[name] for name in operands(let.op)]
        match let.op:
            case Take():
                continue
            case Map() if let.name in outer:
                edge_products += rows.width * rows.space.is_edgewise
                node_products += rows.width * (rows.space is Space.NODE)
                continue
            case Reduce() if let.name in sums:
                continue
            case Linear(x=x):
                products = types[x].shape[-1] * rows.width
                edge_products += products * rows.space.is_edgewise
                node_products += products * (rows.space is Space.NODE)
                continue
            case Softmax():
                scores += rows.width
        if rows.space.is_edgewise or any(kind.space.is_edgewise for kind in read):
            edge += max(rows.width, *(kind.width for kind in read if not kind.space.is_weight), 0)
        if rows.space is Space.NODE:
            node += rows.width
    return _Work(edge, node, edge_products, node_products, scores)


def least_variants(problem: ProblemSpec) -> int:
    """As many as half of the plans of its program, at least one."""
    return max(1, len(set(plan_ids(problem).values())) // 2)


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
    count = len(promoted_for(problem)) if variants is None else variants
    return _SETUP_SECONDS + count * _variant_seconds(problem, size, limits)


def affordable_variants(
    problem: ProblemSpec, size: tuple[int, int], limits: Limits, seconds: float
) -> int:
    """How many variants of a problem can be measured in so long; 0 if all would be given up.

    None of those whose rows of nodes take more than a gibibyte, or whose results are checked by
    more than 16 million numbers in all of their edges' and nodes' rows.

    More than there are for a GPU, of which no times are known.
    """
    if problem.device != "cpu":
        return _ALL
    if _is_lost(_run_seconds(problem, size), limits) or _rows_bytes(problem, size) > _MOST_ROWS:
        return 0
    if sum(size) * _checked_width(problem.program.program) > _MOST_CHECKED:
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
    return _work_of(problem.program.program).seconds(*size) * (2 / problem.threads)


@functools.lru_cache(maxsize=1024)
def _checked_width(program: Program) -> int:
    """Numbers that the oracle computes for every row; 0 where a sample of nodes does."""
    return widest(program) if needs_all_rows(program) else 0


def _rows_bytes(problem: ProblemSpec, size: tuple[int, int]) -> int:
    program = problem.program
    return size[0] * (program.d_in + program.d_out) * _ELEMENT


def _is_lost(run: float, limits: Limits) -> bool:
    """Whether a variant whose runs take so long is given up."""
    return limits.rounds * run > limits.unit_seconds
