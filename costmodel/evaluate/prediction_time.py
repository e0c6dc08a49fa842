"""What predicting takes, beside runs of what was chosen."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from hetune.costmodel.evaluate.points import Predictor, times_of
from hetune.costmodel.evaluate.report import MODEL, Report
from hetune.costmodel.features.devices import Rates
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.problems import LaunchBatch, Problem

_CALLS = 3


def with_prediction_times(
    report: Report, model: Predictor, problems: Sequence[Problem], machine: Rates
) -> Report:
    """A report whose picks of the model say how long predictions took (`Pick.spent`).

    That is timed here and now: the features and the predictions of all launches of a problem, in
    one batch, as a selector asks for them; the median of three times, after one that does not
    count. What a selector computes before is left out, for a store holds no graphs: the features
    of the graph, and the launches' amounts. Nothing is timed for problems of another machine than
    this one, whose runs are no measure of it.

    Args:
        report: How the model chose on the problems.
        model: Any of those that were judged: predictions take as long whatever it was fitted to.
        problems: The report's, in its order.
        machine: Rates that the model is asked with.

    Raises:
        ValueError: There are more problems than outcomes, or fewer.
    """
    here = this_machine().digest
    outcomes = []
    for outcome, problem in zip(report.outcomes, problems, strict=True):
        spent = prediction_seconds(model, problem, machine) if problem.machine == here else None
        picks = {**outcome.picks, MODEL: replace(outcome.picks[MODEL], spent=spent)}
        outcomes.append(replace(outcome, picks=picks))
    return replace(report, outcomes=tuple(outcomes))


def prediction_seconds(model: Predictor, problem: Problem, machine: Rates) -> float:
    """What predicting all launches of a problem takes, in one batch, once warm."""
    launches = LaunchBatch.of(problem, times_of(problem))
    model.predict(launches, machine)
    seconds = []
    for _ in range(_CALLS):
        start = time.perf_counter()
        model.predict(launches, machine)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
