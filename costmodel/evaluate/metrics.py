"""How good choices were: what a chooser picked on each problem, and the figures of many picks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.evaluate import noise
from hetune.costmodel.problems import CandidateSample, Problem
from hetune.variants.errors import InputError, VariantError
from hetune.variants.plan.choices import VANILLA

ORACLE = "oracle"
"""Takes the variant that was measured to be the fastest."""
FIXED = "best fixed, in hindsight"
"""For each layer the one variant that is best over the very problems it is judged on."""
ROOFLINE = "roofline model"
"""The analytic model, which knows counts and the machine's limits only."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An answer that was found by running candidates.

    Attributes:
        variant: The chosen variant.
        seconds: How long the runs took that it needed.
    """

    variant: str
    seconds: float


Answer: TypeAlias = str | Mapping[str, float] | Trial
"""A variant's id, or predicted seconds by id (the least is taken), or a trial."""
Chooser: TypeAlias = Callable[[Problem], Answer | None]
"""Chooses among the candidates of a problem without looking at their times.

None where it does not apply: such problems do not count for it.
"""


@dataclass(frozen=True, slots=True)
class Pick:
    """What a chooser chose on a problem, and how that was measured.

    Attributes:
        variant: The chosen variant.
        seconds: Its measured time.
        error: Standard error of that, in seconds.
        spent: Seconds that choosing took: those of trials, or of predictions where
            `with_prediction_times` timed them; None where nothing was timed.
    """

    variant: str
    seconds: float
    error: float
    spent: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A problem, and what each chooser picked on it.

    Attributes:
        graph: Name of the graph.
        family: Family of the graph.
        layer: Label of the program.
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out.
        heads: Number of heads.
        threads: Number of threads.
        candidates: How many variants were measured.
        floor: The regret that knowing the fastest variant would show: see `noise.floor`.
        picks: By name of the chooser; `ORACLE` and `FIXED` are always there.
        program: Digest of the program; empty in reports of before it was known.
    """

    graph: str
    family: str
    layer: str
    d_in: int
    d_out: int
    heads: int
    threads: int
    candidates: int
    floor: float
    picks: Mapping[str, Pick]
    program: str = ""

    def regret(self, name: str) -> float:
        """Time of what `name` picked over the least time that was measured; 1 is best."""
        return self.picks[name].seconds / self.picks[ORACLE].seconds

    @property
    def widths(self) -> str:
        """Both widths, e.g. ``"64x128"``."""
        return f"{self.d_in}x{self.d_out}"


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one chooser over many problems.

    Attributes:
        problems: How many.
        regret: Geometric mean of the regret.
        regret_p95: Its 95th percentile.
        regret_max: Its maximum.
        top1: Share of problems on which the fastest variant was picked.
        in_noise: Share of problems on which the pick cannot be told from the fastest.
        worse: Share of problems on which the pick took longer than the best fixed variant.
        clearly_worse: The same where the difference is more than noise.
        worst: Largest time over that of the best fixed variant.
        over_fixed: Geometric mean of the best fixed variant's time over the pick's.
        over_default: The same for the layer as it is written; None where it was not measured.
        over_roofline: The same for the roofline model's pick; None if that was not judged.
        overhead_runs: Mean time that choosing took, in runs of the pick; None where it was not
            timed for every problem.
    """

    problems: int
    regret: float
    regret_p95: float
    regret_max: float
    top1: float
    in_noise: float
    worse: float
    clearly_worse: float
    worst: float
    over_fixed: float
    over_default: float | None
    over_roofline: float | None
    overhead_runs: float | None


def pick(chooser: Chooser, problem: Problem) -> Pick | None:
    """What a chooser picks among the measured candidates of a problem; None if nothing.

    Raises:
        VariantError: It named a variant that was not measured there, or predicted none that was.
    """
    answer = chooser(problem)
    if answer is None:
        return None
    sample = _sample(problem, answer)
    spent = answer.seconds if isinstance(answer, Trial) else None
    return Pick(sample.variant, sample.seconds, sample.error, spent)


def score(outcomes: Sequence[Outcome], name: str) -> Score:
    """The figures of one chooser, over the problems that it picked a variant for.

    Raises:
        InputError: There are none.
    """
    outcomes = [outcome for outcome in outcomes if name in outcome.picks]
    if not outcomes:
        raise InputError(f"{name!r} picked nothing: evaluate it on a problem that it applies to")
    regret = np.array([outcome.regret(name) for outcome in outcomes])
    over_fixed = _ratios(outcomes, FIXED, name)
    return Score(
        problems=len(outcomes),
        regret=_geometric_mean(regret),
        regret_p95=float(np.quantile(regret, 0.95)),
        regret_max=float(regret.max()),
        top1=float(np.mean(regret <= 1)),
        in_noise=_share(not _clearly_slower(o.picks[name], o.picks[ORACLE]) for o in outcomes),
        worse=float(np.mean(over_fixed < 1)),
        clearly_worse=_share(_clearly_slower(o.picks[name], o.picks[FIXED]) for o in outcomes),
        worst=float(1 / over_fixed.min()),
        over_fixed=_geometric_mean(over_fixed),
        over_default=_mean_or_none(_ratios(outcomes, VANILLA, name)),
        over_roofline=_mean_or_none(_ratios(outcomes, ROOFLINE, name)),
        overhead_runs=_overhead([outcome.picks[name] for outcome in outcomes]),
    )


def noise_floor(outcomes: Sequence[Outcome]) -> float:
    """Geometric mean of the outcomes' floors: no chooser can be told to do better."""
    return _geometric_mean(np.array([outcome.floor for outcome in outcomes]))


def _overhead(picks: Sequence[Pick]) -> float | None:
    runs = [pick.spent / pick.seconds for pick in picks if pick.spent is not None]
    return float(np.mean(runs)) if len(runs) == len(picks) else None


def _sample(problem: Problem, answer: Answer) -> CandidateSample:
    by_id = {candidate.variant: candidate for candidate in problem.candidates}
    if isinstance(answer, Mapping):
        known = [variant for variant in by_id if variant in answer]
        if not known:
            raise VariantError(
                f"no prediction for any of the {len(by_id)} variants that were measured for "
                f"{problem}: predict one of {', '.join(by_id)}"
            )
        return by_id[min(known, key=answer.__getitem__)]
    name = answer.variant if isinstance(answer, Trial) else answer
    if name not in by_id:
        raise VariantError(
            f"{name} was chosen for {problem} but not measured there: "
            "choose among the problem's candidates"
        )
    return by_id[name]


def _ratios(outcomes: Sequence[Outcome], of: str, over: str) -> NDArray[np.float64]:
    """Time of one pick over that of another, on each problem that has both."""
    return np.array(
        [o.picks[of].seconds / o.picks[over].seconds for o in outcomes if of in o.picks]
    )


def _clearly_slower(this: Pick, other: Pick) -> bool:
    return this.seconds - other.seconds > noise.margin(this.error, other.error)


def _geometric_mean(values: NDArray[np.float64]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _mean_or_none(values: NDArray[np.float64]) -> float | None:
    return _geometric_mean(values) if values.size else None


def _share(truths: Iterable[bool]) -> float:
    return float(np.mean(list(truths)))
