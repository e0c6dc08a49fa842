"""The backward pass of a layer: its gradient's program, in stages."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.variants.passes.edge_gradients import Gradient, edge_gradients
from hetune.variants.passes.gradient import differentiate
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.passes.stages import Stage, stages, traffic
from hetune.variants.passes.sum_before_outer import SplitOuter, SumBeforeOuter
from hetune.variants.passes.traffic import to_compute, to_store
from hetune.variants.program.nodes import (
    ALL_EDGES,
    End,
    Fold,
    Let,
    Program,
    Reduce,
    Space,
    operands,
)


@dataclass(frozen=True, slots=True)
class Backward:
    """How gradients are computed.

    Attributes:
        results: The names of the wanted parameters' gradients: results of stages or, where nothing
            is to compute, parameters of the gradient's program.
        stages: What computes them, in order.
    """

    results: tuple[str, ...]
    stages: tuple[Stage, ...]


def backward(program: Program, wanted: Iterable[str], saved: Iterable[str] = ()) -> Backward:
    """The stages that compute gradients of parameters: see `differentiate` and `stages`.

    Gradients of weights are sums of outer products of both ends' rows. The rows of one end are
    added up first, of that which makes for less `traffic`: with gradients of sources' rows these
    are the destinations', whose sums those gradients need, too.

    Raises:
        ProgramError: There are none; says why.
    """
    return _backward(program, tuple(wanted), tuple(saved))


def backward_by_edges(
    program: Program, wanted: Iterable[str]
) -> tuple[tuple[Gradient, ...], tuple[Stage, ...]] | None:
    """Gradients, and what computes them, where edges come once; None: they are not by edges.

    Raises:
        ProgramError: There are none; says why.
    """
    return _backward_by_edges(program, tuple(wanted))


@functools.lru_cache(maxsize=256)
def _backward_by_edges(
    program: Program, wanted: tuple[str, ...]
) -> tuple[tuple[Gradient, ...], tuple[Stage, ...]] | None:
    found = edge_gradients(program, wanted)
    return None if found is None else (found[1], stages(found[0]))


def worth_saving(program: Program, wanted: Iterable[str]) -> tuple[str, ...]:
    """The values that the forward pass had better keep for gradients: rows of nodes, or of edges.

    Those that cost more to compute again than to store.
    """
    return _worth_saving(program, tuple(wanted))


@functools.lru_cache(maxsize=256)
def _worth_saving(program: Program, wanted: tuple[str, ...]) -> tuple[str, ...]:
    types, costs = program.types, dict.fromkeys((param.name for param in program.params), 0.0)
    again: dict[str, float] = {}
    for let in program.lets:
        again[let.name] = to_compute(let, types) + sum(costs[arg] for arg in operands(let.op))
        costs[let.name] = min(again[let.name], _to_save(let))
    lets = {let.name: let for let in program.lets}
    able = [name for name, let in lets.items() if _to_save(let) < math.inf]
    read = differentiate(program, wanted, able).params
    ahead = [param.name for param in read if param.name in lets]
    found: dict[str, None] = {}
    while ahead:
        name = ahead.pop()
        if _to_save(lets[name]) < again[name]:
            found[name] = None
        else:
            ahead += [arg for arg in operands(lets[name].op) if arg in lets]
    return tuple(name for name in lets if name in found)


def _to_save(let: Let) -> float:
    """Edges' rows are many to hold, and kernels that need not store them are faster.

    Gradients of largest and least rows look for them: see `stages`.
    """
    kind = let.type
    if isinstance(let.op, Reduce | Fold) and let.op.fn in ("max", "min"):
        return math.inf
    if kind.group != ALL_EDGES or kind.space not in (Space.NODE, Space.SOURCE, Space.EDGE):
        return math.inf
    return to_store(kind) * (4 if kind.space is Space.EDGE else 1)


@functools.lru_cache(maxsize=256)
def _backward(program: Program, wanted: tuple[str, ...], saved: tuple[str, ...]) -> Backward:
    if not wanted:
        return Backward((), ())
    whole = differentiate(program, wanted, saved)
    first = SumBeforeOuter((End.SRC, End.DST))
    passes = (SplitOuter(), first), (first,), (SumBeforeOuter((End.DST, End.SRC)),)
    options = (run_passes(each, whole) for each in (*passes, (SumBeforeOuter((End.DST,)),)))
    found = (Backward(option.results, stages(option)) for option in options)
    return min(found, key=lambda option: traffic(option.stages))
