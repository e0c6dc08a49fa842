"""When predictions cannot tell: then the usual variant of a layer is as good a choice as any.

A variant that is predicted to be a little faster than the usual one is slower about as often as it
is faster, and the usual one is never far from the best. So another variant has to be predicted to
be faster by more than a factor, the *tie*, which is learned: the largest that costs next to nothing
on graph families that were held out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.data import Problem
from hetune.variants.errors import InputError
from hetune.variants.plan.variants import Device, plan_of, usual, variants_of
from hetune.variants.runtime.build import layer_program

_TIES = tuple(1 + percent / 100 for percent in range(11))


def unless_tied(seconds: ArrayLike, usual: int | None, tie: float) -> int:
    """The position of the least time, or of the usual variant's where the two are tied.

    Args:
        seconds: Of each variant; float64 [variants].
        usual: Position of the usual variant; None if it is not among them.
        tie: How many times as long as the least it may take.
    """
    times = np.asarray(seconds)
    best = int(times.argmin())
    return best if usual is None or times[usual] > tie * times[best] else usual


def tie_of(regrets: Callable[[float], NDArray[np.float64]]) -> float:
    """The largest tie whose regret is within one standard error of the least.

    That is the rule by which trees are pruned (Breiman et al., Classification and Regression
    Trees, 1984): of all that are as good as the best, the one that trusts predictions least.

    Args:
        regrets: Of every problem under a tie; float64 [problems].
    """
    losses = {tie: np.log(regrets(tie)) for tie in _TIES}
    best = min(losses.values(), key=np.mean)
    bound = best.mean() + best.std() / math.sqrt(best.size)
    return max(tie for tie, loss in losses.items() if loss.mean() <= bound)


def schedule_of(problems: Sequence[Problem]) -> str:
    """The schedule in which usual plans ran fastest, as ids name it; empty if none was compared.

    Problems count whose usual plan was measured in as many schedules as that of any.
    """
    found = [_schedules(problem) for problem in problems]
    most = max(map(len, found), default=0)
    names = next((times.keys() for times in found if len(times) == most), {}.keys())
    compared = [times for times in found if times.keys() == names]
    if most < 2:
        return ""
    return min(compared[0], key=lambda name: sum(math.log(times[name]) for times in compared))


def usual_of(problem: Problem, schedule: str = "") -> int | None:
    """The position of the usual variant among a problem's candidates; None if not measured.

    Args:
        problem: Its times are not looked at.
        schedule: In place of the device's usual one.
    """
    if (plain := _usual_of(problem)) is None:
        return None
    wanted = f"{plan_of(plain)}/{schedule}" if schedule else plain
    found = (i for i, c in enumerate(problem.candidates) if c.variant == wanted)
    return next(found, None)


def _schedules(problem: Problem) -> dict[str, float]:
    """Seconds of the usual plan by schedule."""
    if (plain := _usual_of(problem)) is None:
        return {}
    start = f"{plan_of(plain)}/"
    return {
        c.variant.removeprefix(start): c.seconds
        for c in problem.candidates
        if c.variant.startswith(start)
    }


def _usual_of(problem: Problem) -> str | None:
    return _usual(problem.layer, problem.d_in, problem.d_out, problem.heads, problem.device)


@functools.lru_cache(maxsize=256)
def _usual(layer: str, d_in: int, d_out: int, heads: int, device: Device) -> str | None:
    try:
        program = layer_program(layer, d_in, d_out, heads)
    except InputError:
        return None
    return usual(variants_of(program, device)).id
