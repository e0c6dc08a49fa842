"""Evaluating choosers on problems, and what comes of it as a value that can be kept as JSON."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from hetune.costmodel.evaluate import baselines, metrics, noise
from hetune.costmodel.evaluate.metrics import (
    FIXED,
    ORACLE,
    Chooser,
    Outcome,
    Pick,
    Score,
)
from hetune.costmodel.evaluate.points import Points, Predictor, merged, predict_launches
from hetune.costmodel.features.devices import Rates, default_rates
from hetune.costmodel.problems import Problem
from hetune.variants.errors import InputError
from hetune.variants.plan.choices import VANILLA
from hetune.variants.registry.sealed_json import sealed, unsealed

MODEL = "cost model"
"""The name of what is judged, among the baselines'."""
MEASUREMENTS = "measurements"
"""The fact of a report, in `Report.about`, that says which measurements do not count, and why."""
SCHEMA = 1
Facet: TypeAlias = Literal["layer", "family", "graph", "widths", "threads"]
Fit: TypeAlias = Callable[[Sequence[Problem]], Predictor]
"""Trains a model on problems."""


@dataclass(frozen=True, slots=True)
class Report:
    """What choosers picked on many problems.

    Attributes:
        outcomes: One for each problem.
        about: Facts for the reader: how the data were split, the machine and the like.
        points: What the model predicted for launches, thinned out, by kernel family.
    """

    outcomes: tuple[Outcome, ...]
    about: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Points] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The choosers that picked anything."""
        return tuple(dict.fromkeys(name for outcome in self.outcomes for name in outcome.picks))

    @property
    def noise_floor(self) -> float:
        """The regret that always knowing the fastest variant would show (`noise.floor`)."""
        return metrics.noise_floor(self.outcomes)

    @property
    def scores(self) -> dict[str, Score]:
        """The figures of all choosers by name."""
        return {name: self.score(name) for name in self.names}

    def score(self, name: str = MODEL) -> Score:
        """The figures of one chooser.

        Raises:
            InputError: It picked nothing.
        """
        return metrics.score(self.outcomes, name)

    def by(self, facet: Facet) -> dict[str, Report]:
        """A report for each layer, family, graph, pair of widths or thread count, by its name."""
        groups: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault(str(getattr(outcome, facet)), []).append(outcome)
        return {name: Report(tuple(members), self.about) for name, members in groups.items()}

    def as_json(self) -> str:
        """The report as JSON text, with the digest of its content."""
        return json.dumps(sealed({"schema": SCHEMA, **asdict(self)})) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `as_json` made the text of.

        Raises:
            InputError: The text is no report, or a damaged one, or one of another version.
        """
        try:
            record = unsealed(json.loads(text))
            if record["schema"] != SCHEMA:
                raise InputError(
                    f"a report of version {record['schema']}, where {SCHEMA} is read: evaluate anew"
                )
            points = {
                family: Points(tuple(found["measured"]), tuple(found["predicted"]))
                for family, found in record["points"].items()
            }
            outcomes = tuple(map(_outcome, record["outcomes"]))
            return cls(outcomes, dict(record["about"]), points)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"this is no evaluation report ({error}): evaluate anew") from error


def evaluate(
    problems: Sequence[Problem],
    choosers: Mapping[str, Chooser],
    about: Mapping[str, str] | None = None,
) -> Report:
    """What choosers pick on problems, beside the oracle, the best fixed variant and vanilla.

    Args:
        problems: Measured inputs that no chooser was trained on.
        choosers: By name.
        about: Facts for the reader.

    Raises:
        InputError: There are no problems.
        VariantError: A chooser named a variant that was not measured.
    """
    if not problems:
        raise InputError("no problems to evaluate on: measure some first")
    everyone: dict[str, Chooser] = {
        ORACLE: lambda problem: problem.best.variant,
        FIXED: baselines.best_fixed(problems),
        VANILLA: baselines.vanilla,
        **choosers,
    }
    return Report(tuple(_judge(problem, everyone) for problem in problems), dict(about or {}))


def judge(
    training: Sequence[Problem],
    problems: Sequence[Problem],
    fit: Fit,
    *,
    machine: Rates | None = None,
    about: Mapping[str, str] | None = None,
) -> Report:
    """Trains on some problems; evaluates the model and all baselines on others.

    Args:
        training: What the model and the baselines learn from.
        problems: What they are judged on: other graph families.
        fit: Trains a model.
        machine: Of the roofline model; the default rates if None.
        about: Facts for the reader.

    Raises:
        InputError: A family is in both, or one of them is empty.
    """
    machine = machine or _default_rates(problems)
    model = _fit(training, problems, fit)
    choosers = _choosers(model, training, machine)
    points = merged([predict_launches(model, problems, machine)])
    return replace(evaluate(problems, choosers, about), points=points)


def cross_validate(
    problems: Sequence[Problem],
    fit: Fit,
    *,
    folds: int | None = None,
    machine: Rates | None = None,
    about: Mapping[str, str] | None = None,
    progress: Callable[[int, int, str], None] = lambda done, total, held_out: None,
) -> Report:
    """Judges every graph family by a model that was trained on the others only.

    Args:
        problems: Measured inputs of two families or more.
        fit: Trains a model, once for each fold.
        folds: Deal the families into so many groups, instead of leaving out one at a time.
        machine: Of the roofline model; the default rates if None.
        about: Facts for the reader.
        progress: Called before each fold with how many are done, how many there are, and what is
            held out.

    Raises:
        InputError: There are fewer than two families or folds.
    """
    machine = machine or _default_rates(problems)
    groups = family_folds(problems, folds)
    fitted: dict[str, dict[str, Chooser]] = {}
    points: list[dict[str, Points]] = []
    for done, held_out in enumerate(groups):
        progress(done, len(groups), ", ".join(held_out))
        training = [p for p in problems if p.family not in held_out]
        judged = [p for p in problems if p.family in held_out]
        model = _fit(training, judged, fit)
        fitted |= dict.fromkeys(held_out, _choosers(model, training, machine))
        points.append(predict_launches(model, judged, machine))

    def chooser(name: str) -> Chooser:
        return lambda problem: fitted[problem.family][name](problem)

    names = next(iter(fitted.values()))
    report = evaluate(problems, {name: chooser(name) for name in names}, about)
    return replace(report, points=merged(points))


def family_folds(
    problems: Sequence[Problem], folds: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """The families of problems in groups of about equally many problems.

    Args:
        problems: Measured inputs.
        folds: How many groups; by default one for each family.

    Raises:
        InputError: There are fewer than two families or folds.
    """
    sizes = Counter(problem.family for problem in problems)
    if len(sizes) < 2 or (folds is not None and folds < 2):
        raise InputError(
            f"{len(sizes)} graph families in {folds or len(sizes)} folds leave nothing to train "
            "on: measure graphs of two families or more, and take two folds or more"
        )
    count = min(folds or len(sizes), len(sizes))
    groups: list[list[str]] = [[] for _ in range(count)]
    for family, _ in sizes.most_common():
        min(groups, key=lambda group: sum(sizes[name] for name in group)).append(family)
    return tuple(tuple(group) for group in groups)


def _fit(training: Sequence[Problem], problems: Sequence[Problem], fit: Fit) -> Predictor:
    if not training:
        raise InputError("no problems to train on: measure some first")
    shared = {p.family for p in training} & {p.family for p in problems}
    if shared:
        raise InputError(
            f"trained and judged on the same graph families ({', '.join(sorted(shared)[:5])}): "
            "split problems by family"
        )
    return fit(training)


def _default_rates(problems: Sequence[Problem]) -> Rates:
    return default_rates(problems[0].device if problems else "cpu")


def _choosers(model: Predictor, training: Sequence[Problem], machine: Rates) -> dict[str, Chooser]:
    learned = functools.partial(model.choose, machine=machine)
    return {MODEL: learned, **baselines.baselines(training, machine)}


def _judge(problem: Problem, choosers: Mapping[str, Chooser]) -> Outcome:
    found = {name: metrics.pick(chooser, problem) for name, chooser in choosers.items()}
    return Outcome(
        graph=problem.graph,
        family=problem.family,
        layer=problem.program.label,
        d_in=problem.program.d_in,
        d_out=problem.program.d_out,
        heads=problem.program.heads,
        threads=problem.threads,
        candidates=len(problem.candidates),
        floor=noise.floor(problem),
        picks={name: pick for name, pick in found.items() if pick is not None},
        program=problem.program.digest,
    )


def _outcome(record: dict[str, Any]) -> Outcome:
    picks = {name: Pick(**pick) for name, pick in record["picks"].items()}
    return Outcome(**{**record, "picks": picks})
