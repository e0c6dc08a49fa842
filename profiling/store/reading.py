"""Reading measurements page by page; records that break the rules are left out, and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.records import Measurement
from hetune.profiling.store import schema
from hetune.profiling.store.bounds import wrong_with
from hetune.profiling.store.rows import from_row
from hetune.variants.errors import ProgramError

PAGE = 500
DAMAGED = (ValueError, TypeError, LookupError, AttributeError, ProgramError)
"""What a row raises that is none of ours."""
_rows = select(schema.measurements, schema.programs.c.label, schema.programs.c.text).outerjoin(
    schema.programs, schema.programs.c.digest == schema.measurements.c.program
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A record: the measurement, or what is wrong with it."""

    id: int
    measurement: Measurement | None
    fingerprint: int
    wrong: str = ""


def records(
    connect: Callable[[], AbstractContextManager[Connection]], limits: list[ColumnElement[bool]]
) -> Iterator[Found]:
    """All records within limits, also those that break the rules, in the order of adding.

    Between pages no connection is held: who reads slowly keeps nobody from writing.
    """
    last = 0
    while True:
        with connect() as connection:
            page = list(_page(connection, [*limits, schema.measurements.c.id > last]))
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1].id


def good(
    found: Iterator[Found], fingerprints: Mapping[int, tuple[str, Fingerprint]], place: str
) -> Iterator[tuple[Measurement, Fingerprint]]:
    """Those that keep the rules, with their fingerprints; a log line counts the others."""
    bad, first = 0, ""
    for record in found:
        known = fingerprints.get(record.fingerprint)
        if record.measurement is not None and known is not None:
            yield record.measurement, known[1]
            continue
        bad += 1
        first = first or f"record {record.id}: {record.wrong or 'its fingerprint is damaged'}"
    if bad:
        _log.warning(
            "%d measurements in %s are damaged or out of bounds and do not count (%s): remove them "
            "with `hetune store prune --damaged`",
            bad,
            place,
            first,
        )


def _page(connection: Connection, limits: list[ColumnElement[bool]]) -> Iterator[Found]:
    table = schema.measurements
    order = table.c.id
    try:
        rows = connection.execute(_rows.where(*limits).order_by(order).limit(PAGE)).all()
    except DAMAGED:  # one of them holds no JSON: each alone
        ids = connection.execute(select(order).where(*limits).order_by(order).limit(PAGE)).scalars()
        yield from (_single(connection, id) for id in ids.all())
        return
    yield from map(_found, rows)


def _single(connection: Connection, id: int) -> Found:
    table = schema.measurements
    try:
        return _found(connection.execute(_rows.where(table.c.id == id)).one())
    except DAMAGED as error:
        return Found(id, None, 0, _text(error))


def _found(row: Row[Any]) -> Found:
    try:
        measurement = from_row(row)
        wrong = wrong_with(measurement)
    except DAMAGED as error:
        return Found(row.id, None, row.fingerprint, _text(error))
    return Found(row.id, None if wrong else measurement, row.fingerprint, wrong)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
