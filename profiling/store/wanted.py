"""Which measurements are read."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from sqlalchemy import ColumnElement

from hetune.profiling.records import Status
from hetune.profiling.store import schema


class Wanted(TypedDict, total=False):
    """Which measurements to read; what is left out, or None, does not limit them.

    Attributes:
        campaign: Those that this campaign asked for first.
        status: Those that ended so.
        layers: Those of these layers.
        families: Those on graphs of these families.
        protocol: Those of this version of the protocol.
        device: Those of variants for this device.
    """

    campaign: str | None
    status: Status | None
    layers: Collection[str] | None
    families: Collection[str] | None
    protocol: int | None
    device: str | None


def limits_of(wanted: Wanted) -> list[ColumnElement[bool]]:
    """The same as conditions on rows.

    Raises:
        TypeError: Measurements cannot be chosen by such a name.
    """
    if unknown := wanted.keys() - Wanted.__annotations__.keys():
        raise TypeError(f"measurements cannot be chosen by {', '.join(sorted(unknown))}")
    column = schema.measurements.c
    status = wanted.get("status")
    equal = {
        "campaign": wanted.get("campaign"),
        "status": None if status is None else status.value,
        "protocol": wanted.get("protocol"),
        "device": wanted.get("device"),
    }
    among = {"layer": wanted.get("layers"), "family": wanted.get("families")}
    limits = [column[name] == value for name, value in equal.items() if value is not None]
    limits += [
        column[name].in_(sorted(values)) for name, values in among.items() if values is not None
    ]
    return limits
