"""What differs between the kernels of variants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from hetune.variants.backends.triton.lower import lower
from hetune.variants.backends.triton.target import TritonFunction, TritonUnit
from hetune.variants.plan.variants import Variant

unit_of = cache(lower)


def units_of(variant: Variant) -> tuple[TritonUnit, ...]:
    """The modules of a variant's launches."""
    launches = zip(variant.plan.launches, variant.schedules, strict=True)
    return tuple(unit_of(launch, schedule, "ieee")[0] for launch, schedule in launches)


def distinct(units: Iterable[TritonUnit]) -> tuple[TritonFunction, ...]:
    """All kernels that differ by more than name and comment, in order."""
    blank = (replace(f, name="", comment="") for unit in units for f in unit.functions)
    return tuple(dict.fromkeys(blank))


def kernels_of(variant: Variant) -> frozenset[TritonFunction]:
    """The kernels that a variant starts, without name and comment."""
    return frozenset(distinct(units_of(variant)))
