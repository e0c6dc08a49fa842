"""Programs of score functions of the literature, by the width of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from hetune.variants.frontend.kge.formulas import FORMULAS
from hetune.variants.frontend.kge.layer import RowPlace, ScoreArgument, ScoreLayer
from hetune.variants.frontend.kge.trace import trace_score
from hetune.variants.program.nodes import Program

RELATIONS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"transe": (1,), "distmult": (1,), "transh": (1, 1), "transr": (1, 2), "rescal": (2,)}
)
"""Some scores, and how many axes the rows of each table of relations have."""


def score_program(name: str, width: int) -> Program:
    """The program that `hetune.kge.scores` runs for tables of one width.

    Args:
        name: One of `RELATIONS`.
        width: Of rows, and of both sides of matrices.
    """
    axes = RELATIONS[name]
    tables = {f"r_{i}": torch.empty(1, *[width] * count) for i, count in enumerate(axes)}
    if len(axes) == 1:
        tables = {"r": tables["r_0"]}
    of_relation = tuple(tables) if len(axes) > 1 else "r"
    arguments = (
        ScoreArgument("h", RowPlace.HEAD, "entity"),
        ScoreArgument("r", RowPlace.RELATION, of_relation),
        ScoreArgument("t", RowPlace.TAIL, "entity"),
    )
    layer = ScoreLayer(FORMULAS[name], arguments, tables, {})
    return trace_score(layer, {"entity": torch.empty(1, width)}).program
