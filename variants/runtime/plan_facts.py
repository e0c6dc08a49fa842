"""What running a plan takes that no graph changes: found once for each plan."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.kernel.nodes import Buffer
from hetune.variants.plan.facts import reordered_features
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Param, Space, Type

_MOST = 1024


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
    """Of one plan.

    Attributes:
        plan: The plan.
        spans: First and last launch that touch each buffer.
        arena: Temporaries that lie in the arena.
        features: What runs are given.
        constants: Names of the constants that are given with the graph.
        reordered: Names of features of edges that launches read in the index's order.
        results: What runs return.
    """

    plan: Plan
    spans: dict[str, tuple[int, int]]
    arena: tuple[Buffer, ...]
    features: tuple[Param, ...]
    constants: tuple[str, ...]
    reordered: tuple[str, ...]
    results: tuple[StoredResult, ...]


_KNOWN: dict[int, PlanFacts] = {}
"""By the id of the plan: to hash what it is takes longer."""


def facts_of(plan: Plan) -> PlanFacts:
    """What is known of a plan, once for the same object."""
    found = _KNOWN.get(id(plan))
    if found is None:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        found = _KNOWN[id(plan)] = _found(plan)
    return found


def _found(plan: Plan) -> PlanFacts:
    program, buffers = plan.program, {buffer.name: buffer for buffer in plan.temporaries}
    types, params = program.types, program.params
    edges = reordered_features(program)
    return PlanFacts(
        plan,
        _spans(plan),
        tuple(
            buffer
            for buffer in plan.temporaries
            if buffer.name not in plan.results or buffer.type.space is Space.EDGE
        ),
        tuple(param for param in params if param.role == "feature"),
        tuple(param.name for param in params if param.role == "constant"),
        tuple(param.name for param in edges if param.name in buffers),
        tuple(
            StoredResult(buffer, types[name], buffers[buffer].type.shape)
            for buffer, name in zip(plan.results, program.results, strict=True)
        ),
    )


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
