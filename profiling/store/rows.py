"""Measurements as rows of a table, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.store.bounds import wrong_with
from hetune.variants.errors import StoreError
from hetune.variants.program.labeled import LabeledProgram

_FIELDS = tuple(field.name for field in fields(Measurement) if field.name != "program")
_NUMBERS = ("prepare_seconds", "relative_error", "drift")


def to_row(measurement: Measurement, machine: str) -> dict[str, Any]:
    """The row of a measurement that was taken on a machine.

    Its fingerprint's id is missing yet, and its program is a row of another table (`program_row`).

    Raises:
        StoreError: As `check_row`.
    """
    check_row(measurement, machine)
    row = {name: getattr(measurement, name) for name in _FIELDS}
    for name, value in row.items():
        if isinstance(value, str):
            row[name] = clean(value)
    for name in _NUMBERS:
        row[name] = None if math.isnan(row[name]) else float(row[name])
    return {
        **row,
        "program": measurement.program.digest,
        "status": measurement.status.value,
        "graph_features": _floats(measurement.graph_features),
        "preparation": _floats(measurement.preparation),
        "clocks": _floats(measurement.clocks),
        "samples": _floats(measurement.samples),
        "launches": [
            [launch.kernel, launch.family, _floats(launch.columns), _floats(launch.samples)]
            for launch in measurement.launches
        ],
    }


def check_row(measurement: Measurement, machine: str) -> None:
    """Checks that a measurement of a machine can be stored.

    Raises:
        StoreError: The measurement contradicts itself, or is out of bounds. Nothing that is stored
            can be mended later, so it is looked at before.
    """
    if wrong := _wrong(measurement, machine):
        raise StoreError(
            f"the measurement of {measurement.variant} on {measurement.graph} (unit "
            f"{measurement.unit[:12]}) is not stored, nor is any other of its batch: {wrong}"
        )


def from_row(row: Row[Any]) -> Measurement:
    """The measurement of a row, which has the columns of its program, too.

    Raises:
        ValueError, TypeError, ProgramError: The row is damaged.
    """
    found: dict[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    for name in _NUMBERS:
        found[name] = math.nan if found[name] is None else found[name]
    found["status"] = Status(found["status"])
    found["graph_features"] = tuple(found["graph_features"])
    found["preparation"] = tuple(found["preparation"])
    found["samples"] = tuple(found["samples"])
    found["clocks"] = tuple(found["clocks"])
    found["launches"] = tuple(
        LaunchRecord(kernel, family, tuple(columns), tuple(samples))
        for kernel, family, columns, samples in found["launches"]
    )
    if (program := LabeledProgram.parse(row.text, clean(row.label))).digest != row.program:
        raise ValueError(f"its program's digest is not {row.program[:12]}")
    return Measurement(**found, program=program)


def program_row(program: LabeledProgram) -> dict[str, str]:
    """The row of a program."""
    return {"digest": program.digest, "label": clean(program.label), "text": program.text}


def _wrong(measurement: Measurement, machine: str) -> str:
    if measurement.machine != machine:
        return (
            f"it was taken on machine {measurement.machine}, and the fingerprint that came with "
            f"it is that of {machine}"
        )
    return wrong_with(measurement)


def _floats(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values]


def clean(text: str) -> str:
    """Without what databases refuse in texts: zeros, and halves of characters."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
