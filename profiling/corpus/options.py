"""The options of a recipe: the fields of the maker that its kind names, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from functools import cache
from types import NoneType
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from hetune.variants.errors import CampaignError
from hetune.variants.graph.hetero import HeteroGraph

Scalar = str | int | float | bool


class Maker(Protocol):
    """A kind of graph, with its options as fields."""

    def make(self) -> HeteroGraph:
        """The graph, equal to the last bit whenever the options are equal."""

    def size(self) -> tuple[int, int]:
        """About how many nodes and edges it has, without making it where that can be told."""


_Made = TypeVar("_Made")


def option(
    default: Any = MISSING,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    """A maker's field: a scalar with a range, both ends included, or some texts to choose from."""
    return field(default=default, metadata={"low": low, "high": high, "choices": choices})


def share(default: Any = MISSING) -> Any:
    """A field from 0 to 1."""
    return option(default, low=0.0, high=1.0)


def read(kind: type[_Made], options: Mapping[str, object], where: str) -> _Made:
    """The dataclass with these values of its fields: a maker, or another part of a campaign.

    Args:
        kind: The class.
        options: Values by name; an int passes for a float.
        where: How messages call what the options are of.

    Raises:
        CampaignError: An option is unknown, missing, of another type, or refused.
    """
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    types = _types_of(kind)  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise CampaignError(f"{where}: no option {name!r}; it takes {', '.join(sorted(known))}")
    for name, f in known.items():
        if f.default is MISSING and name not in options:
            raise CampaignError(f"{where}: the option {name!r} is missing: give it")
    try:
        return kind(**{name: _checked(known[name], types[name], v) for name, v in options.items()})
    except CampaignError as error:
        raise CampaignError(f"{where}: {error}") from error


@cache
def _types_of(kind: type) -> dict[str, Any]:
    """Those of its options; finding them takes longer than the rest of `read`."""
    return get_type_hints(kind)


def _checked(f: Field[Any], wanted: type, value: object) -> object:
    kinds = [kind for kind in get_args(wanted) or (wanted,) if kind is not NoneType]
    if type(value) is int and float in kinds:
        value = float(value)
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise CampaignError(
            f"{f.name} is {value!r}, of type {type(value).__name__}: give one of type {names}"
        )
    limits = f.metadata
    if limits.get("choices") and value not in limits["choices"]:
        raise CampaignError(f"{f.name} is {value!r}: take one of {', '.join(limits['choices'])}")
    if (
        limits
        and isinstance(value, int | float)
        and not limits["low"] <= float(value) <= limits["high"]
    ):
        raise CampaignError(f"{f.name} is {value}: {_range(limits)}")
    return value


def _range(limits: Mapping[str, Any]) -> str:
    low, high = limits["low"], limits["high"]
    if math.isinf(high):
        return f"it is at least {low:g}" if math.isfinite(low) else "it is a number"
    return f"it is from {low:g} to {high:g}"
