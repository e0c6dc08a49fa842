"""The backward pass of a layer: its gradient's program, in stages."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.variants.passes.edge_gradients import Gradient, edge_gradients
from hetune.variants.passes.gradient import differentiate
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.passes.stages import Stage, stages, traffic
from hetune.variants.passes.sum_before_outer import SplitOuter, SumBeforeOuter
from hetune.variants.program.nodes import (
    End,
    Program,
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


def backward(program: Program, wanted: Iterable[str]) -> Backward:
    """The stages that compute gradients of parameters: see `differentiate` and `stages`.

    Gradients of weights are sums of outer products of both ends' rows. The rows of one end are
    added up first, of that which makes for less `traffic`: with gradients of sources' rows these
    are the destinations', whose sums those gradients need, too.

    Raises:
        ProgramError: There are none; says why.
    """
    return _backward(program, tuple(wanted))


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


@functools.lru_cache(maxsize=256)
def _backward(program: Program, wanted: tuple[str, ...]) -> Backward:
    if not wanted:
        return Backward((), ())
    whole = differentiate(program, wanted)
    first = SumBeforeOuter((End.SRC, End.DST))
    passes = (SplitOuter(), first), (first,), (SumBeforeOuter((End.DST, End.SRC)),)
    options = (run_passes(each, whole) for each in (*passes, (SumBeforeOuter((End.DST,)),)))
    found = (Backward(option.results, stages(option)) for option in options)
    return min(found, key=lambda option: traffic(option.stages))
