"""What a candidate must show before it may become the champion."""

from __future__ import annotations

import math
from collections import Counter

from hetune.costmodel.evaluate.metrics import FIXED, Outcome
from hetune.costmodel.evaluate.report import MODEL, Report


def objections(candidate: Report, champion: Report | None) -> tuple[str, ...]:
    """Why a candidate may not be promoted; empty if it may.

    It must not choose worse, by the geometric mean of regret, than the champion does on the same
    inputs, nor than the best fixed variant. A regret that is no finite number is compared with
    nothing: an evaluation that says so, of whomever, is no ground for a promotion.

    Args:
        candidate: The candidate on inputs that it was not trained on.
        champion: The champion on the same inputs; None if there is no champion.
    """
    scores = candidate.scores
    if MODEL not in scores:
        return (f"the evaluation holds no choices of the {MODEL!r}: run `hetune evaluate` on it",)
    regret = scores[MODEL].regret
    compared = {"its": regret}
    if FIXED in scores:
        compared["the best fixed variant's"] = scores[FIXED].regret
    if champion is not None and MODEL in champion.scores:
        compared["the champion's"] = champion.scores[MODEL].regret
    found = [
        f"{whose} regret of {value} is no finite number: look for measurements with times that "
        "are none, and evaluate again"
        for whose, value in compared.items()
        if not math.isfinite(value)
    ]
    if FIXED in scores and regret > scores[FIXED].regret:
        found.append(
            f"its regret of {regret:.3f} is worse than that of always taking the best fixed "
            f"variant, {scores[FIXED].regret:.3f}"
        )
    if champion is not None:
        if MODEL not in champion.scores or _inputs(candidate) != _inputs(champion):
            found.append(
                "it and the champion were not evaluated on the same inputs: evaluate both again"
            )
        elif regret > champion.scores[MODEL].regret:
            found.append(
                f"its regret of {regret:.3f} is worse than the champion's on the same inputs, "
                f"{champion.scores[MODEL].regret:.3f}"
            )
    return tuple(found)


def _inputs(report: Report) -> Counter[tuple[object, ...]]:
    return Counter(_input(outcome) for outcome in report.outcomes if MODEL in outcome.picks)


def _input(outcome: Outcome) -> tuple[object, ...]:
    what = outcome.program, outcome.threads, outcome.candidates
    return outcome.graph, outcome.family, *what
