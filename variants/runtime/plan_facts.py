"""What running a plan takes that no graph changes: found once for each plan."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.graph.small_index import KINDS
from hetune.variants.kernel.blocks import takes_any_order
from hetune.variants.kernel.nodes import Buffer, Gemm
from hetune.variants.plan.facts import reordered_features
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.nodes import (
    Einsum,
    Let,
    Param,
    Program,
    Reshape,
    Space,
    Take,
    Type,
    operands,
)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result, and its buffer.

    Attributes:
        buffer: The buffer's name.
        type: The result's.
        stored: Row shape of the buffer, which may be another one of as many elements.
    """

    buffer: str
    type: Type
    stored: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What runs are given, and give.

    Attributes:
        features: What runs are given.
        constants: Names of the constants that are given with the graph.
        reordered: Names of features of edges that launches read in the index's order.
        results: What runs return.
        groups: The kinds of rows that products may be grouped by, as bits of `SmallIndex`.
        takes_any_order: Whether launches read edges and pairs one by one, in whatever order.
        weights: The weights that are given.
        read: Names of weights, and of what is computed of them, that launches read.
        made: The program of what is computed of weights alone; None where nothing is.
        is_moved: Whether that has the elements of weights, in another order.
    """

    features: tuple[Param, ...]
    constants: tuple[str, ...]
    reordered: tuple[str, ...]
    results: tuple[StoredResult, ...]
    groups: int
    takes_any_order: bool
    weights: tuple[Param, ...]
    read: frozenset[str]
    made: Program | None
    is_moved: bool


@dataclass(frozen=True, slots=True)
class ArenaFacts:
    """What placing temporaries takes.

    Attributes:
        spans: First and last launch that touch each buffer.
        buffers: Those that lie in the arena.
    """

    spans: dict[str, tuple[int, int]]
    buffers: tuple[Buffer, ...]


@by_identity
def facts_of(plan: Plan) -> PlanFacts:
    """What is known of a plan's runs."""
    program, buffers = plan.program, {buffer.name: buffer for buffer in plan.temporaries}
    types, params = program.types, program.params
    edges, weights = reordered_features(program), tuple(p for p in params if p.role == "weight")
    read = {buffer.name for launch in plan.launches for buffer in launch.buffers}
    lets = plan.weights
    needed = {name for let in lets for name in operands(let.op)}
    made_of = tuple(param for param in weights if param.name in needed)
    return PlanFacts(
        tuple(param for param in params if param.role == "feature"),
        tuple(param.name for param in params if param.role == "constant"),
        tuple(param.name for param in edges if param.name in buffers),
        tuple(
            StoredResult(buffer, types[name], buffers[buffer].type.shape)
            for buffer, name in zip(plan.results, program.results, strict=True)
        ),
        _groups(plan),
        not plan.constants and all(map(takes_any_order, plan.launches)),
        weights,
        frozenset(read | {view.base for view in plan.views}),
        Program(program.name, made_of, lets, (lets[-1].name,)) if lets else None,
        all(map(_only_moves, lets)),
    )


def _groups(plan: Plan) -> int:
    kernels = (kernel for launch in plan.launches for kernel in launch.kernels)
    rows = {kernel.rows.space for kernel in kernels if isinstance(kernel, Gemm)}
    return sum(1 << place for place, (space, _) in enumerate(KINDS) if space in rows)


def _only_moves(let: Let) -> bool:
    """Whether a value has the elements of another one, in another order."""
    match let.op:
        case Einsum(spec=spec, args=(_,)):
            given, made = spec.split("->")
            return sorted(given) == sorted(made)
    return isinstance(let.op, Reshape | Take)


@by_identity
def arena_of(plan: Plan) -> ArenaFacts:
    """What is known of a plan's temporaries."""
    placed = (
        buffer
        for buffer in plan.temporaries
        if buffer.name not in plan.results or buffer.type.space is Space.EDGE
    )
    return ArenaFacts(_spans(plan), tuple(placed))


def _spans(plan: Plan) -> dict[str, tuple[int, int]]:
    base = {view.name: view.base for view in plan.views}
    spans = {param.name: (0, 0) for param in reordered_features(plan.program)}
    for step, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            name = base.get(buffer.name, buffer.name)
            first, _ = spans.get(name, (step, step))
            spans[name] = (first, step)
    last = len(plan.launches) - 1
    return spans | {name: (spans[name][0], last) for name in plan.results}
