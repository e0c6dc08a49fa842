"""A softmax over each row's edges, as statements of a loop over the rows."""

from __future__ import annotations

from collections.abc import Iterable

from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    ForEach,
    Init,
    Read,
    Rows,
    Stmt,
    Store,
    Update,
)


def softmax_body(
    name: str, shape: tuple[int, ...], edges: Rows, top: str, scores: Iterable[Stmt]
) -> tuple[Stmt, ...]:
    """Walks the edges three times: scores, then exponentials, then shares go to one buffer.

    Args:
        name: The edge buffer; values are named after it.
        shape: Its row shape.
        edges: The edges to walk.
        top: Name of the scores' maximum, which is declared here.
        scores: Loops that store the scores and update their maximum.
    """
    total, inverse = f"{name}_total", f"{name}_inverse"
    score, power, share = f"{name}_score", f"{name}_power", f"{name}_share"
    return (
        Init(top, shape, "max"),
        *scores,
        Init(total, shape, "sum"),
        ForEach(
            edges,
            (
                Def(score, shape, Read(name)),
                Def(f"{score}_below", shape, Apply("sub", (score, top))),
                Def(power, shape, Apply("exp", (f"{score}_below",))),
                Store(name, power),
                Update(total, power),
            ),
        ),
        Def(inverse, shape, Apply("reciprocal", (total,))),
        ForEach(
            edges,
            (
                Def(f"{power}_read", shape, Read(name)),
                Def(share, shape, Apply("mul", (f"{power}_read", inverse))),
                Store(name, share),
            ),
        ),
    )
