"""What indexing a graph and binding a variant to it takes: a rate for each amount."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetune.costmodel.problems import Problem
from hetune.variants.runtime.table import PREPARATION


def fit_preparation(problems: Sequence[Problem]) -> tuple[float, ...]:
    """Seconds per unit of each amount of `PREPARATION`, none negative.

    Least squares of relative errors over all variants whose preparation was measured.

    Returns:
        A rate for each amount; all 0 if nothing was measured.
    """
    measured = [
        (candidate.preparation, candidate.prepare_seconds)
        for problem in problems
        for candidate in problem.candidates
        if candidate.prepare_seconds > 0 and len(candidate.preparation) == len(PREPARATION)
    ]
    if not measured:
        return (0.0,) * len(PREPARATION)
    from scipy.optimize import nnls  # seldom needed

    amounts = np.array([columns for columns, _ in measured])
    seconds = np.array([taken for _, taken in measured])
    scale = np.maximum(amounts.max(axis=0), 1.0)
    rates, _ = nnls(amounts / scale / seconds[:, None], np.ones(len(seconds)))
    return tuple((rates / scale).tolist())
