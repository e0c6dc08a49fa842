"""What Python's functions of lists mean in a function of a vertex."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import torch

from hetune.variants.errors import InputError
from hetune.variants.frontend.tracing.captured import with_globals
from hetune.variants.frontend.vertex.rows import (
    Neighbors,
    ValuePlace,
    VertexCount,
    VertexValue,
    reduced,
)


def _of_neighbors(values: list[Any]) -> bool:
    return bool(values) and all(
        isinstance(value, VertexValue) and value.place > ValuePlace.VERTEX for value in values
    )


def _sum(values: Iterable[Any], start: Any = 0) -> Any:
    found = list(values)
    if _of_neighbors(found):
        total = reduced(found, "sum")
        return total if isinstance(start, int) and start == 0 else total + start
    return builtins.sum(found, start)


def _extreme(fn: str) -> Callable[..., Any]:
    plain = getattr(builtins, fn)
    pair = getattr(torch, f"{fn}imum")
    bound = getattr(torch, f"clamp_{'min' if fn == 'max' else 'max'}")

    def extreme(*args: Any, **kwargs: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if kwargs and any(isinstance(value, VertexValue) for value in values):
            raise InputError(f"{fn} of values takes no {', '.join(kwargs)}")
        if len(args) == 1 and _of_neighbors(values):
            return reduced(values, fn)
        if not any(isinstance(value, VertexValue) for value in values):
            return plain(*args, **kwargs)
        found = next(value for value in values if isinstance(value, VertexValue))
        for value in values:
            if value is not found:
                found = (
                    pair(found, value) if isinstance(value, VertexValue) else bound(found, value)
                )
        return found

    return extreme


def _len(values: Any) -> Any:
    return values.count_value() if isinstance(values, Neighbors) else builtins.len(values)


def _range(*bounds: Any) -> range:
    return range(*(each.length if isinstance(each, VertexCount) else each for each in bounds))


_BUILTINS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "len": _len,
    "range": _range,
}


def with_own_builtins(function: FunctionType) -> Callable[..., Any]:
    """A function whose ``sum``, ``max``, ``min``, ``len`` and ``range`` are those of neighbours."""
    return with_globals(function, {**_BUILTINS, **function.__globals__})
