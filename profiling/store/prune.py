"""Removing measurements: those of a machine or a campaign, or those that break the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from hetune.profiling.store import schema
from hetune.profiling.store.filters import limits_of
from hetune.profiling.store.store import Store
from hetune.variants.errors import InputError

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Prune:
    """Which measurements to remove: those that meet all that is given.

    Attributes:
        machine: Those of this machine, by the digest of its fingerprint.
        campaign: Those that this campaign asked for first.
        damaged: Those that are damaged or out of bounds, and are not read.
    """

    machine: str | None = None
    campaign: str | None = None
    damaged: bool = False


def matching(store: Store, which: Prune) -> tuple[int, ...]:
    """Numbers of the records to remove.

    Raises:
        InputError: Nothing is given, which would be all of them.
        StoreError: The database fails.
    """
    if which == Prune():
        raise InputError("nothing says which measurements: give --machine, --campaign or --damaged")
    column = schema.measurements.c
    limits = limits_of({"campaign": which.campaign})
    if which.machine is not None:
        limits.append(column.machine == which.machine)
    if which.damaged:
        return tuple(store.damaged(limits))
    with store.reading() as connection:
        found = select(column.id).where(*limits).order_by(column.id)
        return tuple(connection.execute(found).scalars())


def remove(store: Store, ids: Sequence[int]) -> int:
    """Removes records by their numbers, all or none, and machines and programs without any left.

    Returns:
        How many were there still.

    Raises:
        StoreError: The database fails.
    """
    table, machines, programs = schema.measurements, schema.fingerprints, schema.programs
    removed = 0
    with store.transaction() as connection:
        schema.lock(connection)
        for start in range(0, len(ids), _PAGE):
            chosen = table.c.id.in_(ids[start : start + _PAGE])
            removed += connection.execute(table.delete().where(chosen)).rowcount
        used = select(table.c.fingerprint)
        connection.execute(machines.delete().where(machines.c.id.not_in(used)))
        run = select(table.c.program)
        connection.execute(programs.delete().where(programs.c.digest.not_in(run)))
    return removed
