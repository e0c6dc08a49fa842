"""What a cost model has to beat: choosers that know less, or that pay for what they know.

Those that learn, learn from the training problems only; `best_fixed` may be given the very
problems that it is judged on, which is stronger than anyone could be in earnest.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from hetune.costmodel.evaluate import noise
from hetune.costmodel.evaluate.metrics import ROOFLINE, Chooser, Trial
from hetune.costmodel.features.devices import Rates, default_rates, roofline_of
from hetune.costmodel.features.graph import NAMES
from hetune.costmodel.model.ties import offered_of
from hetune.costmodel.problems import Problem
from hetune.variants.passes.choices import Placement, SumChoices
from hetune.variants.plan.choices import Choices, PlanChoices, ProgramChoices, SiteChoices
from hetune.variants.plan.variants import DEFAULT_SCHEDULES
from hetune.variants.program.nodes import Linear, Program, Softmax, Space

TRAINED_FIXED = "best fixed, in training"
BY_WIDTH = "by width only"
BY_GRAPH = "by graph only"
PYG = "PyG's heuristic"
FIRST_RUN = "first-run autotuning"

_NEIGHBOURS = 5
_WRITTEN = PlanChoices()
_AGGREGATED = PlanChoices(ProgramChoices((SiteChoices((), "", SumChoices(Placement.DST)),)))
_Graph: TypeAlias = tuple[str, str]
_Key = TypeVar("_Key", bound=Hashable)


def baselines(training: Sequence[Problem], machine: Rates | None = None) -> dict[str, Chooser]:
    """All baselines that learn from `training` or from nothing, by name.

    Args:
        training: Problems that are not evaluated on.
        machine: Of the roofline model; the default rates if None.
    """
    return {
        TRAINED_FIXED: best_fixed(training),
        BY_WIDTH: by_width(training),
        BY_GRAPH: by_graph(training),
        ROOFLINE: roofline(machine or default_rates(training[0].device)),
        PYG: pyg_heuristic,
        FIRST_RUN: first_run,
    }


def vanilla(problem: Problem) -> str | None:
    """The plan that does what the layer says, with the default schedule, if that was measured."""
    return _variant(_WRITTEN, problem)


def best_fixed(problems: Sequence[Problem]) -> Chooser:
    """For each layer always the same variant: the best one over `problems` by geometric mean.

    Where that one was not measured the next best is taken, and so on.
    """
    rankings = _rankings(problems, lambda problem: problem.program.label)
    everything = _ranking(problems)

    def choose(problem: Problem) -> str:
        return _first(rankings.get(problem.program.label, everything), problem)

    return choose


def by_width(training: Sequence[Problem]) -> Chooser:
    """For each layer and pair of widths the best variant; the nearest widths where unseen."""
    rankings = _rankings(training, lambda p: (p.program.label, p.program.d_in, p.program.d_out))

    def choose(problem: Problem) -> str:
        def distance(key: tuple[str, int, int]) -> tuple[bool, float]:
            label, d_in, d_out = key
            program = problem.program
            apart = abs(math.log(d_in / program.d_in)) + abs(math.log(d_out / program.d_out))
            return label != program.label, apart

        return _first(rankings[min(rankings, key=distance)], problem)

    return choose


def by_graph(training: Sequence[Problem]) -> Chooser:
    """For each layer the variant that is best on the nearest graphs, whatever the widths.

    Features are compared as standardized logarithms; the `_NEIGHBOURS` nearest graphs vote with
    all problems of the layer on them.
    """
    grouped: dict[str, dict[_Graph, list[Problem]]] = defaultdict(lambda: defaultdict(list))
    for problem in training:
        grouped[problem.program.label][problem.graph_key].append(problem)
    features = {p.graph_key: _logarithms(p.graph_features) for p in training}
    table = np.array(list(features.values()))
    scale = np.maximum(table.std(axis=0), 1e-9)
    remembered: dict[tuple[str, _Graph], list[str]] = {}

    def choose(problem: Problem) -> str:
        graphs = grouped.get(problem.program.label) or next(iter(grouped.values()))
        key = problem.program.label, problem.graph_key
        if key not in remembered:
            here = _logarithms(problem.graph_features)
            near = sorted(graphs, key=lambda g: float(np.sum(((features[g] - here) / scale) ** 2)))
            remembered[key] = _ranking([p for g in near[:_NEIGHBOURS] for p in graphs[g]])
        return _first(remembered[key], problem)

    return choose


def roofline(machine: Rates) -> Chooser:
    """The analytic model's predictions of what is offered."""

    def predict(problem: Problem) -> Mapping[str, float]:
        counts = [len(candidate.launches) for candidate in problem.candidates]
        columns = np.array([launch.columns for c in problem.candidates for launch in c.launches])
        seconds = roofline_of(columns, machine, problem.threads)
        owner = np.repeat(np.arange(len(counts)), counts)
        totals = np.bincount(owner, seconds, minlength=len(counts))
        offered = offered_of(problem, machine)
        found = zip(problem.candidates, totals.tolist(), offered, strict=True)
        return {candidate.variant: total for candidate, total, is_offered in found if is_offered}

    return predict


def first_run(problem: Problem) -> Trial:
    """Runs every candidate once and keeps the fastest (SENSEi's naive selection).

    One noisy run each is drawn from the measured time and range; what was spent is their sum.
    """
    runs = noise.single_runs(problem)
    return Trial(problem.candidates[int(runs.argmin())].variant, float(runs.sum()))


def pyg_heuristic(problem: Problem) -> str | None:
    """What PyG's `RGCNConv` would do: products of all edges at once, or relation by relation.

    PyG asks a linear model of the number of relations, the size of the largest one and the widths.
    Products of all edges at once are our "vanilla" plan; relation by relation it aggregates first,
    as our "dst" plan does. Both are taken with the default schedule. None for programs that are no
    such layer, for which PyG chooses nothing, and where PyG is not installed.
    """
    if not _is_convolution(problem.program.program) or (rule := _pyg_rule()) is None:
        return None
    features = dict(zip(NAMES, problem.graph_features, strict=True))
    at_once = rule(
        num_segments=int(features["num_etypes"]),
        max_segment_size=int(features["relation_edges_max"]),
        in_channels=problem.program.d_in,
        out_channels=problem.program.d_out,
    )
    return _variant(_WRITTEN if at_once else _AGGREGATED, problem)


def _is_convolution(program: Program) -> bool:
    """Whether it is one linear map of edges, whose weight is whole, and no attention."""
    types = program.types
    maps = [let.op for let in program.lets if isinstance(let.op, Linear)]
    weights = [types[op.w] for op in maps if types[op.x].space is Space.EDGE]
    has_attention = any(isinstance(let.op, Softmax) for let in program.lets)
    return not has_attention and [len(w.shape) for w in weights] == [2]


@functools.cache
def _pyg_rule() -> Callable[..., bool] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # import-time noise that no caller can mend
        try:
            from torch_geometric.backend import use_segment_matmul_heuristic
        except ImportError:
            return None
    found: Callable[..., bool] = use_segment_matmul_heuristic
    return found


def _variant(plan: PlanChoices, problem: Problem) -> str | None:
    """A plan with the default schedule of the problem's device; None if it was not measured."""
    wanted = Choices(plan, DEFAULT_SCHEDULES[problem.device]).id
    return next((c.variant for c in problem.candidates if c.variant == wanted), None)


def _rankings(problems: Sequence[Problem], key: Callable[[Problem], _Key]) -> dict[_Key, list[str]]:
    groups: dict[_Key, list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[key(problem)].append(problem)
    return {name: _ranking(members) for name, members in groups.items()}


def _ranking(problems: Sequence[Problem]) -> list[str]:
    """Variants by geometric mean of their regret; where one is missing it counts as the slowest."""
    losses = [
        {c.variant: math.log(c.seconds / problem.best.seconds) for c in problem.candidates}
        for problem in problems
    ]
    worst = [max(loss.values()) for loss in losses]
    variants = dict.fromkeys(variant for loss in losses for variant in loss)
    total = {
        variant: sum(loss.get(variant, most) for loss, most in zip(losses, worst, strict=True))
        for variant in variants
    }
    return sorted(variants, key=total.__getitem__)


def _first(ranking: Sequence[str], problem: Problem) -> str:
    measured = {candidate.variant for candidate in problem.candidates}
    found = (variant for variant in ranking if variant in measured)
    return next(found, problem.candidates[0].variant)


def _logarithms(features: Sequence[float]) -> np.ndarray:
    values = np.asarray(features, np.float64)
    return np.sign(values) * np.log1p(np.abs(values))
