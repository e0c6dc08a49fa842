"""How long a kernel's slowest program takes on a GPU, in steps of which each waits for the last.

Programs run side by side, and a kernel has ended when all have: where a node has a fifth of all
edges, one program that takes them a few at a time decides, however fast the card is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetune.variants.kernel.gpu_schedule import MOST_EDGES, GpuSchedule
from hetune.variants.kernel.nodes import ForEach, Gemm, Kernel, Launch, SegmentSum, Traversal
from hetune.variants.kernel.passes.edge_chunks import edge_loop, most_summed
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
        launch: Theirs, as it runs.
        schedule: How.
    """
    first = kernels[0]
    if isinstance(first, Gemm):
        if isinstance(first.x, SegmentSum):
            width = min(first.k, schedule.k_of_tile(True))
            yield Chain(
                Space.EDGE,
                Space.DST_PAIR,
                first.rows.group,
                at_once=1,
                elements=schedule.rows_of_tile(True) * width,
                most=most_summed(first),
                passes=math.ceil(first.k / width),
            )
        return
    walks = [kernel for kernel in kernels if isinstance(kernel, Traversal)]
    width = widest(walks, launch)
    if (shared := edge_loop(first, schedule)) is not None:
        # What chunks have of a node that reaches over their ends is added up, many at once.
        chunk = schedule.edges_of_chunk(width)
        parts = min(chunk, MOST_EDGES)
        yield Chain(Space.EDGE, Space.NODE, shared.rows.group, chunk * parts, parts * width)
        return
    of = Space.DST_PAIR if first.rows.space is Space.DST_PAIR else Space.NODE
    hubs = schedule.hub_edges if of is Space.NODE and schedule.degree_order else 0
    for walk in walks:
        for loop in statements(walk.body):
            if not isinstance(loop, ForEach):
                continue
            rows, group = loop.rows.space, loop.rows.group
            is_edge = rows is Space.EDGE
            size = schedule.rows_of_walk(width, has_loops=True)
            at_once = schedule.edges if is_edge else 1
            yield Chain(rows, of, group, at_once, size * at_once * width, most=hubs)
            if hubs:
                at_once = schedule.edges_of_hub(width) if is_edge else 1
                yield Chain(rows, of, group, at_once, at_once * width, least=hubs)
