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
from typing import Any, TypeAlias

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


def between_sessions(sessions: Sequence[Sequence[Problem]]) -> dict[str, Any] | None:
    """What the fastest variants of one session are worth in the next: no chooser can know better.

    Each session chooses for the one that follows, and the last one for the first. Its choices are
    compared with the fastest variant there, and with the best fixed variant of each layer there.

    Returns:
        How many inputs were compared, their mean regret, and the share on which the choice took
        longer than the best fixed variant; None without two sessions of the same inputs.
    """
    logs, worse = [], []
    for chosen_by, judged_by in zip(sessions, [*sessions[1:], *sessions[:1]], strict=True):
        known = {key(problem): _times(problem) for problem in chosen_by}
        judged = [problem for problem in judged_by if key(problem) in known]
        if chosen_by is judged_by or not judged:
            continue
        fixed = {name: _best_fixed(judged, name) for name in {p.program.label for p in judged}}
        for problem in judged:
            before, now = known[key(problem)], _times(problem)
            taken = now[min(before.keys() & now.keys(), key=before.__getitem__)]
            logs.append(math.log(taken / min(now.values())))
            worse.append(taken > now.get(fixed[problem.program.label], math.inf))
    if not logs:
        return None
    regret = math.exp(statistics.fmean(logs))
    shares = round(regret, 4), round(statistics.fmean(worse), 4)
    return {"inputs": len(logs), "regret": shares[0], "worse": shares[1]}


def _best_fixed(problems: Sequence[Problem], layer: str) -> str:
    """The variant with the least mean regret; where it is no finalist it is 40% slower or more."""
    mine = [_times(problem) for problem in problems if problem.program.label == layer]
    names = {name for times in mine for name in times}

    def loss(name: str) -> float:
        return statistics.fmean(
            math.log(min(times.get(name, math.inf) / min(times.values()), _NEAR)) for times in mine
        )

    return min(sorted(names), key=loss)


def _times(problem: Problem) -> dict[str, float]:
    return {candidate.variant: candidate.seconds for candidate in problem.candidates}


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
