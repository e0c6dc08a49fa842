"""Finals: the variants that a first measurement could hardly tell apart, measured again, and again.

The fastest of dozens of noisy times is fast by luck as well, and what else a machine does may meet
one variant in all rounds of a problem. So finals are several sessions, some time apart, each in a
process of its own and a store of its own. Finalists are chosen by the first measurement
alone, and their times are those of the finals alone, so that luck does not count; other variants
keep their times, scaled by how the finalists' changed in between.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hetune.costmodel.problems import CandidateSample, Problem
from hetune.profiling.records import Measurement

_NEAR = 1.4
"""Finalists are at most this much slower than the fastest: other work has slowed some that much."""

Key: TypeAlias = tuple[str | int, ...]


def finalists(problem: Problem) -> frozenset[str]:
    """Variants that may be the fastest, by a first measurement; none if there is but one."""
    bound = _NEAR * problem.best.seconds
    found = frozenset(c.variant for c in problem.candidates if c.seconds <= bound)
    return found if len(found) > 1 else frozenset()


def key(of: Problem | Measurement) -> Key:
    """What tells problems apart, and finds a problem's finals and its measurements."""
    return (
        *(of.graph, of.family, of.program.label, of.program.digest),
        *(of.program.d_in, of.program.d_out, of.threads, of.machine),
    )


def settled(problem: Problem, finals: Sequence[Problem]) -> Problem:
    """A problem whose finalists have the times of its finals: medians over their sessions.

    What all times of a session have in common is the machine's, and taken out before.
    """
    chosen = finalists(problem)
    sessions = [{c.variant: c for c in f.candidates if c.variant in chosen} for f in finals]
    again = frozenset[str].intersection(*map(frozenset, sessions)) if sessions else frozenset()
    if len(again) < 2:
        return problem
    first = {c.variant: c.seconds for c in problem.candidates}
    levels = [statistics.median(s[v].seconds / first[v] for v in again) for s in sessions]
    change = statistics.median(levels)
    scaled = [
        {v: _scaled(session[v], change / level) for v in again}
        for session, level in zip(sessions, levels, strict=True)
    ]
    between = _deviation(scaled)
    return replace(
        problem,
        candidates=tuple(
            _median([session[c.variant] for session in scaled], between)
            if c.variant in again
            else _scaled(c, change)
            for c in problem.candidates
        ),
    )


def settle(problems: Iterable[Problem], sessions: Sequence[Sequence[Problem]]) -> list[Problem]:
    """All problems, those with finals settled by them.

    Args:
        problems: As first measured.
        sessions: The problems of each session.
    """
    known = [{key(final): final for final in finals} for finals in sessions]
    return [settled(p, [finals[key(p)] for finals in known if key(p) in finals]) for p in problems]


def _scaled(candidate: CandidateSample, change: float) -> CandidateSample:
    return replace(
        candidate,
        seconds=candidate.seconds * change,
        iqr=candidate.iqr * change,
        error=candidate.error * change,
    )


def _median(sessions: Sequence[CandidateSample], between: float) -> CandidateSample:
    """The median over sessions; what it may be wrong by is what sessions differ by, if more."""
    seconds = statistics.median(c.seconds for c in sessions)
    inside = statistics.median(c.error for c in sessions)
    error = max(inside, seconds * between / math.sqrt(len(sessions)))
    return replace(
        sessions[0], seconds=seconds, iqr=statistics.median(c.iqr for c in sessions), error=error
    )


def _deviation(sessions: Sequence[Mapping[str, CandidateSample]]) -> float:
    """The standard deviation of a variant's relative time between sessions, of all variants."""
    if len(sessions) < 2:
        return 0.0
    logs = [[math.log(session[v].seconds) for session in sessions] for v in sessions[0]]
    return math.sqrt(statistics.fmean(statistics.variance(times) for times in logs))
