"""Where a plan's temporaries lie: one arena, shared by buffers that do not live together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetune.variants.backends.base import TERMS
from hetune.variants.backends.triton.parts import carried
from hetune.variants.backends.triton.shared import carried_width, cut_of
from hetune.variants.graph.float_memory import ELEMENT
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.graph.type_chunks import most_chunks, most_terms, num_terms
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Buffer, Launch, Outer, Traversal
from hetune.variants.kernel.passes.phases import phase_of, phased
from hetune.variants.kernel.scratch import scratch_layout, whole_scratch
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Space, Type
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.plan_facts import arena_of

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets of temporaries in the arena. Results have memory of their own.

    Those in rows of edges are in the arena, too: they are returned in the graph's order.

    Attributes:
        offsets: Start of each temporary, and of the terms of sums into types (`TERMS`), which all
            launches use in turn.
        arena_bytes: Size of the arena.
        scratch_bytes: Size of a thread's scratch, which all launches use in turn.
        result_bytes: Size of the results.
        shares: How many have scratch of their own; None: as many as torch has threads.
    """

    offsets: dict[str, int]
    arena_bytes: int
    scratch_bytes: int
    result_bytes: int
    shares: int | None = None

    @property
    def peak_bytes(self) -> int:
        """The most that a run holds at once, with the threads there are now.

        Counted are its temporaries, scratch, and its results. Features and copies of them, weights,
        those folded from others among them, the graph with its indexes and orders of edges, and
        what a plan computes from these once (`constants_of`) are not.
        """
        return self.run_bytes + self.result_bytes

    @property
    def run_bytes(self) -> int:
        """Temporaries and scratch: what a run needs while it runs, and a CUDA graph of it keeps."""
        shares = kernel_threads() if self.shares is None else self.shares
        return self.arena_bytes + self.scratch_bytes * shares


def layout_of(plan: Plan, schedules: tuple[AnySchedule, ...], domain: Domain) -> Layout:
    """The memory of a plan on a graph. On a GPU all of a launch's scratch is there at once."""
    scratch = max(
        _scratch(launch, schedule, domain)
        for launch, schedule in zip(plan.launches, schedules, strict=True)
    )
    if isinstance(schedules[0], GpuSchedule):
        return lay_out(plan, domain.buffer_rows, scratch * ELEMENT, shares=1)
    terms = max(_terms(launch, domain) for launch in plan.launches)
    return lay_out(plan, domain.buffer_rows, scratch * ELEMENT, term_bytes=terms * ELEMENT)


def _terms(launch: Launch, domain: Domain) -> int:
    """Elements of the terms of sums into types."""
    kernel = launch.kernels[0]
    if not isinstance(kernel, Outer):
        return 0
    width = kernel.heads * kernel.k * kernel.n
    rows, types, chunks = kernel.rows, launch.type_of(kernel.out).space, most_chunks(width)
    if rows.space is Space.EDGE and types is Space.ETYPE and domain.takes_other_edges:
        return most_terms(domain.count(rows), chunks) * width
    return num_terms(domain.rows_by_type(rows, types), chunks) * width


def _scratch(launch: Launch, schedule: AnySchedule, domain: Domain) -> int:
    """Elements of scratch, of a thread's share or of a GPU."""
    if isinstance(schedule, GpuSchedule):
        launch = phased(launch)
        walks = (kernel for kernel in launch.kernels if isinstance(kernel, Traversal))
        partial_rows = (
            carried(cut_of(walk, phase, schedule), domain.index) * carried_width(phase)
            for walk in walks
            if (phase := phase_of(walk, launch)) is not None
        )
        return sum(whole_scratch(launch, domain.count).values()) + sum(partial_rows)
    return scratch_layout(launch, schedule.block_nodes, domain.index).stride


def lay_out(
    plan: Plan,
    rows: Callable[[Type], int],
    scratch_bytes: int = 0,
    shares: int | None = None,
    term_bytes: int | None = None,
) -> Layout:
    """Places every temporary at the lowest offset that is free while it lives.

    Largest first, which keeps the arena within a few percent of the true peak in practice.
    """
    facts = arena_of(plan)
    spans = facts.spans
    size = {b.name: rows(b.type) * b.row_bytes for b in plan.temporaries}
    placed: list[tuple[Buffer, int]] = []
    offsets: dict[str, int] = {}
    for buffer in sorted(facts.buffers, key=lambda b: (-size[b.name], b.name)):
        first, last = spans[buffer.name]
        offset = 0
        for other, start in sorted(placed, key=lambda item: item[1]):
            begin, end = spans[other.name]
            if begin <= last and first <= end:
                if offset + size[buffer.name] <= start:
                    break
                offset = max(offset, start + _aligned(size[other.name]))
        offsets[buffer.name] = offset
        placed.append((buffer, offset))
    arena = max((offsets[b.name] + _aligned(size[b.name]) for b, _ in placed), default=0)
    if term_bytes is not None:
        offsets[TERMS], arena = arena, arena + _aligned(term_bytes)
    results = sum(size[name] for name in plan.results)
    return Layout(offsets, arena, scratch_bytes, results, shares)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
