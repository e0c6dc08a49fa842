"""Finals: the variants that a first measurement could hardly tell apart, measured once more.

The fastest of dozens of noisy times is fast by luck as well. Finalists are chosen by the first
measurement alone, and their times are those of the final alone, so that luck does not count; other
variants keep their times, scaled by how the finalists' changed in between.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hetune.costmodel.data import CandidateSample, Problem

_NEAR = 1.08
"""Finalists are at most this much slower than the fastest."""


def finalists(problem: Problem) -> frozenset[str]:
    """Variants that may be the fastest, by a first measurement; none if there is but one."""
    bound = _NEAR * problem.best.seconds
    found = frozenset(c.variant for c in problem.candidates if c.seconds <= bound)
    return found if len(found) > 1 else frozenset()


def key(problem: Problem) -> tuple[str | int, ...]:
    """What tells problems apart, and finds a problem's final."""
    return (
        *(problem.graph, problem.family, problem.layer, problem.d_in, problem.d_out),
        *(problem.heads, problem.threads, problem.machine),
    )


def settled(problem: Problem, final: Problem) -> Problem:
    """A problem whose finalists have the times of their final."""
    again = {c.variant: c for c in final.candidates if c.variant in finalists(problem)}
    if len(again) < 2:
        return problem
    change = statistics.median(
        again[c.variant].seconds / c.seconds for c in problem.candidates if c.variant in again
    )
    return replace(
        problem,
        candidates=tuple(again.get(c.variant) or _scaled(c, change) for c in problem.candidates),
    )


def settle(problems: Iterable[Problem], finals: Sequence[Problem]) -> list[Problem]:
    """All problems, those with a final settled by it."""
    known = {key(final): final for final in finals}
    return [settled(p, known[key(p)]) if key(p) in known else p for p in problems]


def _scaled(candidate: CandidateSample, change: float) -> CandidateSample:
    return replace(
        candidate,
        seconds=candidate.seconds * change,
        iqr=candidate.iqr * change,
        error=candidate.error * change,
    )
