"""When predictions cannot tell: then the default variant of a layer is as good a choice as any.

A variant that is predicted to be a little faster than the default one is slower about as often as
it is faster, and the default one is never far from the best. So another variant has to be predicted
to be faster by more than a factor, the *tie*, which is learned: the largest that costs next to
nothing on graph families that were held out. These were measured in the same hours, though. Where
cores are virtual, what they take to fetch rows from each other changes later on, and with it the
order of variants; so the tie has a floor.

There is no tie with a variant that the roofline model, too, says is faster than the default one: it
knows nothing of the measurements, and two that err for different reasons seldom agree by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.features.devices import Rates
from hetune.costmodel.features.graph import side
from hetune.costmodel.problems import Problem
from hetune.variants.kernel.device import Device
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.gpu_roofline import GpuModel
from hetune.variants.runtime.launch_columns import COLUMNS

_TABLE = COLUMNS.index("table_bytes")
_TIES = tuple(1 + percent / 100 for percent in range(21))
LEAST_TIES: Mapping[Device, float] = MappingProxyType({"cpu": 1.12, "cuda": 1.0})
"""What times of variants move by from one session to the next, which one session cannot tell.

So a tie is no less, whatever a model has learned.
"""


def unless_tied(seconds: ArrayLike, roofline: ArrayLike, default: int | None, tie: float) -> int:
    """The position of the least time, or of the default variant's where the two are tied.

    Args:
        seconds: Of each variant, infinite if it is not offered; float64 [variants].
        roofline: What the roofline model says; float64 [variants].
        default: Position of the default variant; None if it is not among them.
        tie: How many times as long as the least it may take.
    """
    times = np.asarray(seconds)
    best = int(times.argmin())
    if default is None or faster_by_roofline(roofline, default)[best]:
        return best
    return best if times[default] > tie * times[best] else default


def faster_by_roofline(roofline: ArrayLike, default: int | None) -> NDArray[np.bool_]:
    """Which variants the roofline model says are faster than the default one; bool [variants]."""
    times = np.asarray(roofline)
    return np.zeros(len(times), bool) if default is None else times < times[default]


def tie_of(regrets: Callable[[float], NDArray[np.float64]], device: Device) -> float:
    """The largest tie whose regret is within one standard error of the least.

    But no less than is known of the device.

    That is the rule by which trees are pruned (Breiman et al., Classification and Regression
    Trees, 1984): of all that are as good as the best, the one that trusts predictions least.

    Args:
        regrets: Of every problem under a tie; float64 [problems].
        device: What variants are made for.
    """
    losses = {tie: np.log(regrets(tie)) for tie in _TIES}
    best = min(losses.values(), key=np.mean)
    bound = best.mean() + best.std() / math.sqrt(best.size)
    found = max(tie for tie, loss in losses.items() if loss.mean() <= bound)
    return max(found, LEAST_TIES[device])


def offered_of(problem: Problem, machine: Rates) -> NDArray[np.bool_]:
    """Which of a problem's candidates may be chosen: see `MachineModel.offers`; bool [variants]."""
    if isinstance(machine, GpuModel):
        return np.ones(len(problem.candidates), bool)
    variants = variants_of(problem.program.program, problem.device)
    special = {each.id for each in variants if each.choices.plan.scores_edges}
    tables = [sum(launch.columns[_TABLE] for launch in c.launches) for c in problem.candidates]
    scores_edges = np.array([c.variant in special for c in problem.candidates])
    found: NDArray[np.bool_] = machine.offers(scores_edges, np.array(tables))
    return found


def default_of(problem: Problem) -> int | None:
    """The position of the default variant among a problem's candidates; None if not measured.

    The times are not looked at.
    """
    variants = variants_of(problem.program.program, problem.device)
    wanted = default_variant(variants, side(problem.graph_features)).id
    found = (i for i, c in enumerate(problem.candidates) if c.variant == wanted)
    return next(found, None)
