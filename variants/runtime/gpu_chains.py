"""How long a kernel's slowest program takes on a GPU, in steps of which each waits for the last.

Programs run side by side, and a kernel has ended when all have: the one with the longest parts of
rows decides, however fast the card is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import ForEach, Gemm, Kernel, Launch, SegmentSum, Traversal
from hetune.variants.kernel.passes.phases import phase_of
from hetune.variants.kernel.walk import statements
from hetune.variants.kernel.widths import widest
from hetune.variants.program.nodes import ALL_EDGES, Space
from hetune.variants.runtime.domain import Domain


@dataclass(frozen=True, slots=True)
class Longest:
    """The most edges that a node has, and about the most that a node has of one type."""

    node: int
    pair: int

    @classmethod
    def of(cls, domain: Domain) -> Longest:
        """Those of a graph."""
        index = domain.index(ALL_EDGES)
        degree = index.in_degree
        node = index.step("largest degree", lambda: int(degree.max()) if degree.numel() else 0)
        return cls(node, min(node, int(index.relation_stats.edges.max(initial=0))))


@dataclass(frozen=True, slots=True)
class Chain:
    """A loop of a kernel's slowest program.

    Attributes:
        rows: What is walked: edges or pairs.
        of: Whose: a node's, or a pair's.
        group: The group of relations whose they are.
        at_once: How many of them a step takes.
        elements: Float32 elements that a step loads, for all rows of the program.
        least: With fewer there is no such program.
        most: The program has so many at most; 0: as many as there are.
        passes: How often it walks them.
    """

    rows: Space
    of: Space
    group: str
    at_once: int
    elements: int
    least: int = 0
    most: int = 0
    passes: int = 1

    def steps(self, longest: Longest, domain: Domain) -> int:
        """How many steps it takes on a graph."""
        count = longest.node if self.of is Space.NODE else longest.pair
        if self.group and (edges := domain.rows(Space.EDGE)):
            # As if the node's edges were of all groups in proportion.
            count = math.ceil(count * domain.rows(Space.EDGE, self.group) / edges)
        if self.rows is not Space.EDGE:
            count = min(count, domain.rows(Space.ETYPE, self.group))
        if count < self.least:
            return 0
        return self.passes * math.ceil(min(count, self.most or count) / self.at_once)


def chains_of(kernels: Sequence[Kernel], launch: Launch, schedule: GpuSchedule) -> Iterator[Chain]:
    """The chains of kernels that are started as one (`gpu_kernels`).

    Args:
        kernels: A product, or walks.
        launch: Theirs, as it runs (`phased`).
        schedule: How.
    """
    first = kernels[0]
    if isinstance(first, Gemm):
        if isinstance(first.x, SegmentSum):
            width = min(first.k, 2 * schedule.k_of_tile(True))
            yield Chain(
                Space.EDGE,
                Space.DST_PAIR,
                first.rows.group,
                schedule.edges,
                schedule.rows_of_tile(True) * schedule.edges * width,
                most=schedule.edges_of_sum(first),
                passes=math.ceil(first.k / width),
            )
        return
    walks = [kernel for kernel in kernels if isinstance(kernel, Traversal)]
    width = widest(walks, launch)
    of = Space.DST_PAIR if first.rows.space is Space.DST_PAIR else Space.NODE
    if (phase := phase_of(first, launch)) is not None:
        edges, most = schedule.edges, schedule.part_edges
        elements = schedule.parts_of_walk(width) * edges * width
        for rows in (loop.rows for loop in phase.loops):
            yield Chain(rows.space, of, rows.group, edges, elements, most=most)
        rows = phase.loops[0].rows
        yield Chain(rows.space, of, rows.group, edges, elements, least=most + 1, most=most)
        return
    elements = schedule.rows_of_walk(width) * width
    for loop in (s for walk in walks for s in statements(walk.body) if isinstance(s, ForEach)):
        yield Chain(loop.rows.space, of, loop.rows.group, 1, elements)
