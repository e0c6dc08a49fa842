"""In what numbers a layer may store rows: the caller's decision, within which variants differ."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

from hetune.variants.errors import InputError

Precision: TypeAlias = Literal["float32", "bf16"]
"""``"float32"``: in float32 alone. ``"bf16"``: tables that edges read may be of bfloat16, and
operands of products on a GPU; sums, scores and softmaxes are float32 all the same. Results are off
by at most 1e-2 of the largest value."""


def check_precision(precision: object) -> Precision:
    """The precision, if there is one of that name.

    Raises:
        InputError: There is none.
    """
    if precision not in get_args(Precision):
        known = " or ".join(map(repr, get_args(Precision)))
        raise InputError(f"no precision {precision!r}: take {known}")
    return cast(Precision, precision)
