"""Products of a feature's rows that the program is given, instead of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetune.variants.passes.pipeline import clean, without_unread
from hetune.variants.program.nodes import (
    End,
    Let,
    Linear,
    Map,
    Param,
    Program,
    Reduce,
    Space,
    Take,
    Type,
)


@dataclass(frozen=True, slots=True)
class GivenProducts:
    """A program that is given the products of a feature's rows with weights that all rows share.

    Attributes:
        program: It has a feature for each product, under its name. The other one is left out unless
            something else reads it.
        feature: Whose products they are.
        weights: The weight of each product.
    """

    program: Program
    feature: str
    weights: Mapping[str, str]


def given_products(program: Program, least: int) -> GivenProducts | None:
    """The program without the products of its widest such feature; None where it has none.

    Args:
        program: A verified program.
        least: Columns that the feature has at least.
    """
    types = program.types
    wide = [
        param
        for param in program.params
        if (param.role, param.type.space) == ("feature", Space.NODE) and param.type.width >= least
    ]
    for feature in sorted(wide, key=lambda param: -param.type.width):
        found = {
            let.name: let.op.w
            for let in program.lets
            if isinstance(let.op, Linear)
            and let.op.x == feature.name
            and types[let.op.w].space is Space.SHARED
        }
        if found and len(feature.type.shape) == 1:
            return GivenProducts(_given(program, found), feature.name, found)
    return None


def _given(program: Program, names: Mapping[str, str]) -> Program:
    types = program.types
    features = tuple(Param(name, types[name], "feature") for name in names)
    lets = tuple(let for let in program.lets if let.name not in names)
    rest = clean(replace(program, params=(*program.params, *features), lets=lets))
    return without_unread(rest)


def sparse_product(width: int) -> Program:
    """A matrix of few entries times a dense one: the entries are edges from columns to rows.

    Parameters: w, ``source[width]``, the dense matrix's rows; and the constant value, ``edge``.
    """
    rows = Let("row", Type(Space.EDGE, (width,)), Take("w", Space.EDGE, End.SRC))
    terms = Let("term", rows.type, Map("mul", ("value", "row")))
    total = Let("out", Type(Space.NODE, (width,)), Reduce("term", Space.NODE, end=End.DST))
    params = (
        Param("w", Type(Space.SOURCE, (width,)), "feature"),
        Param("value", Type(Space.EDGE), "constant"),
    )
    return Program("sparse_product", params, (rows, terms, total), ("out",))
