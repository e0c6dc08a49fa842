"""Which measurements are read."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from sqlalchemy import ColumnElement, select

from hetune.profiling.records import Status
from hetune.profiling.store import schema


class Filters(TypedDict, total=False):
    """Which measurements to read; what is left out, or None, does not limit them.

    Attributes:
        campaign: Those that this campaign asked for first.
        status: Those that ended so.
        labels: Those of programs with these labels.
        device: Those of variants for this device.
    """

    campaign: str | None
    status: Status | None
    labels: Collection[str] | None
    device: str | None


def limits_of(wanted: Filters) -> list[ColumnElement[bool]]:
    """The same as conditions on rows.

    Raises:
        TypeError: Measurements cannot be chosen by such a name.
    """
    if unknown := wanted.keys() - Filters.__annotations__.keys():
        raise TypeError(f"measurements cannot be chosen by {', '.join(sorted(unknown))}")
    column = schema.measurements.c
    status = wanted.get("status")
    equal = {
        "campaign": wanted.get("campaign"),
        "status": None if status is None else status.value,
        "device": wanted.get("device"),
    }
    limits = [column[name] == value for name, value in equal.items() if value is not None]
    if (labels := wanted.get("labels")) is not None:
        programs = schema.programs.c
        labeled = select(programs.digest).where(programs.label.in_(sorted(labels)))
        limits.append(column.program.in_(labeled))
    return limits
