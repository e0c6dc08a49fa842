"""Batch norm while it trains: torch runs it after the program, and it updates its statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional

from hetune.variants.frontend.tracing.expressions import (
    Expression,
    called,
    expressions_in,
    parameter,
)

_MEAN, _COUNT = "running_mean", "num_batches_tracked"


def normalized(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], counted: Collection[str]
) -> Expression:
    """Batch norm of rows after the program.

    Args:
        args: Of torch's function, expressions in place of tensors.
        kwargs: Likewise.
        counted: Buffers that the layer's forward counts up.
    """
    mean = args[1]
    name = mean.key.removesuffix(_MEAN) + _COUNT if isinstance(mean, Expression) else ""
    count = {"count": parameter(name)} if name in counted else {}
    return called(_batch_norm, args, {**kwargs, **count})


def _batch_norm(*args: Any, count: Tensor | None = None, **kwargs: Any) -> Tensor:
    if count is not None:
        count.add_(1)
    return functional.batch_norm(*args, **kwargs)


def updated_by(output: Any) -> Iterator[str]:
    """Names of the buffers that are written to where an output is computed."""
    for norm in expressions_in(output):
        named = dict(norm.kwargs)
        if norm.func is _batch_norm and named.get("training"):
            given = (*norm.args[1:3], named.get("count"))
            yield from (each.key for each in given if isinstance(each, Expression))
