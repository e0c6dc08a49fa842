"""The store of measurements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

from sqlalchemy import ColumnElement, Connection, Text, cast, func, select

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.closeable import Closeable
from hetune.profiling.records import Measurement, Status
from hetune.profiling.store import schema
from hetune.profiling.store.connect import Address, connect, find
from hetune.profiling.store.engines import Shared, reaching, release
from hetune.profiling.store.faults import explained
from hetune.profiling.store.filters import Filters, limits_of
from hetune.profiling.store.prepare import prepare
from hetune.profiling.store.reading import DAMAGED, PAGE, good, records
from hetune.profiling.store.rows import program_row, to_row
from hetune.variants.errors import StoreError
from hetune.variants.program.labeled import LabeledProgram

ALL = "all"
"""In place of a machine's digest: measurements of all machines, mixed on purpose."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class AddedCounts:
    """What became of a batch: `new` measurements were stored, `known` were there before."""

    new: int
    known: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a store.

    Attributes:
        digest: Digest of its fingerprint.
        fingerprints: What was known of it, in the order in which it came in: facts that the
            digest leaves out, as a package's version, may have changed.
        measurements: How many were taken on it.
    """

    digest: str
    fingerprints: tuple[Fingerprint, ...]
    measurements: int


@dataclass(frozen=True, slots=True)
class Tally:
    """How many measurements agree in these."""

    machine: str
    campaign: str
    label: str
    status: Status
    count: int


class Store(Closeable):
    """Measurements in a database; they are added, and never changed or removed.

    Safe with many threads and processes at once, each of which opens its own; all of one process
    share an engine. A store does not survive a fork, and where one is open in a file, the new
    process cannot open that. What `add` has returned for is on disk.
    """

    def __init__(self, shared: Shared, address: Address) -> None:
        """Use `open`."""
        self._shared, self._place, self._secrets = shared, address.place, address.secrets
        self._is_open = True

    @classmethod
    def open(cls, url: str | Path | None = None) -> Self:
        """Open a store, and create it where there is none.

        Args:
            url: Path of an SQLite file, or ``sqlite:///PATH``, or
                ``postgresql+psycopg://USER:PASSWORD@HOST/DATABASE``; by default HETUNE_STORE, or
                else a file in the user's data folder.

        Raises:
            StoreError: The URL is wrong, the database cannot be reached or read, or its tables
                are those of another version.
        """
        address = find(url)
        shared = connect(address)
        try:
            with (
                reaching(address.url),
                explained("open", address.place, address.secrets),
            ):
                prepare(shared.engine, address.place)
        except BaseException:
            release(shared)
            raise
        return cls(shared, address)

    @property
    def place(self) -> str:
        """The file, or the URL without its password."""
        return self._place

    def close(self) -> None:
        """Give the connections back; a closed store cannot be used any more."""
        is_open, self._is_open = self._is_open, False
        if is_open:
            release(self._shared)

    def check(self) -> None:
        """Checks, without asking the database, that the store may be used.

        Raises:
            StoreError: It was closed, or its file was deleted or replaced, or the process forked.
        """
        if not self._is_open:
            raise StoreError(f"the store {self._place} was closed: open it again")
        self._shared.check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place!r})"

    def add(self, measurements: Iterable[Measurement], fingerprint: Fingerprint) -> AddedCounts:
        """Store a batch, all of it or nothing.

        Args:
            measurements: Of one machine. A unit that this machine has been measured on already
                is left as it is: the first measurement stays.
            fingerprint: That machine's.

        Raises:
            StoreError: A measurement contradicts itself, or the database fails: nothing of the
                batch is stored then.
        """
        batch = list(measurements)
        if not batch:
            return AddedCounts(0, 0)
        with self.transaction() as connection:
            schema.lock(connection)
            return self.add_within(connection, batch, fingerprint)

    def add_within(
        self, connection: Connection, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> AddedCounts:
        """As `add`, as a part of a transaction: the batch is stored if that is committed.

        Args:
            connection: Of `transaction`, after `hetune.profiling.store.schema.lock`.
            measurements: As in `add`.
            fingerprint: Likewise.

        Raises:
            StoreError: A measurement contradicts itself; let that end the transaction.
        """
        batch = list(measurements)
        rows = [to_row(measurement, fingerprint.digest) for measurement in batch]
        known = self.done_within(connection, fingerprint.digest, [row["unit"] for row in rows])
        new: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row["unit"] not in known:
                new.setdefault(row["unit"], row)
        if new:
            origin = _fingerprint_id(connection, fingerprint)
            complete = [{**row, "fingerprint": origin} for row in new.values()]
            _add_programs(connection, (measurement.program for measurement in batch))
            connection.execute(schema.measurements.insert(), complete)
        return AddedCounts(len(new), len(rows) - len(new))

    def done_within(self, connection: Connection, machine: str, units: Sequence[str]) -> set[str]:
        """Those of the units, by their keys, that a machine has been measured on already."""
        column, found = schema.measurements.c, set[str]()
        for start in range(0, len(units), PAGE):
            wanted = column.unit.in_(units[start : start + PAGE])
            statement = select(column.unit).where(column.machine == machine, wanted)
            found.update(connection.execute(statement).scalars())
        return found

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Write to this database, also to tables of others: all of it, or nothing after an error.

        The connection has begun nothing yet: whoever uses it takes the locks that it needs.

        Raises:
            StoreError: The database fails; nothing is written then.
        """
        with self._connection("write to") as connection:
            yield connection
            connection.commit()
            self._shared.check()  # or it is in a file that nobody will ever see

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read this database, also tables of others.

        Raises:
            StoreError: The database fails.
        """
        with self._connection("read") as connection:
            yield connection

    def done(self, machine: str) -> set[str]:
        """Keys of the units that a machine has been measured on, however that ended."""
        table = schema.measurements
        with self._connection("read") as connection:
            statement = select(table.c.unit).where(table.c.machine == machine)
            return set(connection.execute(statement).scalars())

    def measurements(
        self, machine: str | None = None, **wanted: Unpack[Filters]
    ) -> Iterator[Measurement]:
        """The measurements that were there when this was called, in the order of adding.

        Args:
            machine: Digest of the machine; `ALL` mixes them. May be left out where the store
                knows only one.
            **wanted: Only those of a campaign, a status and so on: see `Filters`.

        Raises:
            StoreError: The store knows several machines and none is named, or the database fails;
                the latter also while the measurements are read.
        """
        pairs = self.with_fingerprints(machine, **wanted)
        return (measurement for measurement, _ in pairs)

    def with_fingerprints(
        self, machine: str | None = None, **wanted: Unpack[Filters]
    ) -> Iterator[tuple[Measurement, Fingerprint]]:
        """As `measurements`, each with all that was known of the machine when it was added."""
        column = schema.measurements.c
        limits = limits_of(wanted)
        if (digest := self._one_machine(machine)) is not None:
            limits.append(column.machine == digest)
        with self._connection("read") as connection:
            last = connection.execute(select(func.max(column.id))).scalar() or 0
        found = records(partial(self._connection, "read"), [*limits, column.id <= last])
        return good(found, self._fingerprints(), self._place)

    def damaged(self, limits: list[ColumnElement[bool]]) -> Iterator[int]:
        """Numbers of the records within limits that are damaged or out of bounds.

        Args:
            limits: Conditions on rows of `hetune.profiling.store.schema.measurements`.
        """
        known = self._fingerprints()
        for found in records(partial(self._connection, "read"), limits):
            if found.measurement is None or found.fingerprint not in known:
                yield found.id

    def machines(self) -> tuple[Machine, ...]:
        """The machines that measurements were taken on, in the order in which they came in."""
        column = schema.measurements.c
        with self._connection("read") as connection:
            grouped = select(column.machine, func.count()).group_by(column.machine)
            counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(grouped)}
        found: dict[str, list[Fingerprint]] = {}
        for digest, fingerprint in self._fingerprints().values():
            found.setdefault(digest, []).append(fingerprint)
        return tuple(
            Machine(digest, tuple(fingerprints), counts.get(digest, 0))
            for digest, fingerprints in found.items()
        )

    def summary(self) -> tuple[Tally, ...]:
        """How many measurements there are by machine, campaign, label and status, sorted so."""
        column, programs = schema.measurements.c, schema.programs
        keys = (column.machine, column.campaign, programs.c.label, column.status)
        counted = select(*keys, func.count()).join(programs, programs.c.digest == column.program)
        with self._connection("read") as connection:
            rows = connection.execute(counted.group_by(*keys)).all()
        return tuple(
            Tally(machine, campaign, label, Status(status), count)
            for machine, campaign, label, status, count in sorted(map(tuple, rows))
            if status in set(Status)
        )

    def _one_machine(self, machine: str | None) -> str | None:
        if machine is not None:
            return None if machine == ALL else machine
        known = self.machines()
        if len(known) <= 1:
            return known[0].digest if known else None
        raise StoreError(
            f"the store {self._place} holds measurements of {len(known)} machines, which say "
            f"little about each other: name one of {named(known)}, or {ALL!r} to mix them"
        )

    def _fingerprints(self) -> dict[int, tuple[str, Fingerprint]]:
        """Digest and facts of the fingerprints by their ids, in the order of adding."""
        table, found = schema.fingerprints, dict[int, tuple[str, Fingerprint]]()
        wanted = select(table.c.id, table.c.machine, cast(table.c.facts, Text))
        with self._connection("read") as connection:
            for id, machine, facts in connection.execute(wanted.order_by(table.c.id)):
                with suppress(*DAMAGED):  # its measurements are, too
                    found[id] = machine, Fingerprint.from_dict(json.loads(facts))
        return found

    @contextmanager
    def _connection(self, doing: str) -> Iterator[Connection]:
        self.check()
        with reaching(self._shared.url), explained(doing, self._place, self._secrets):
            connection = self._shared.engine.connect()
        with explained(doing, self._place, self._secrets), connection:
            yield connection


def _fingerprint_id(connection: Connection, fingerprint: Fingerprint) -> int:
    """Id of a fingerprint, which is added if it is new; the caller holds the lock."""
    table, facts = schema.fingerprints, fingerprint.as_dict()
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    statement = select(table.c.id).where(table.c.facts_sha256 == key)
    found: int | None = connection.execute(statement).scalar()
    if found is None:
        row = {"machine": fingerprint.digest, "facts_sha256": key, "facts": facts}
        connection.execute(table.insert(), row)
        found = connection.execute(statement).scalar_one()
    return found


def _add_programs(connection: Connection, programs: Iterable[LabeledProgram]) -> None:
    """Adds those that are new; the caller holds the lock. Who was there first keeps its names."""
    table = schema.programs
    rows = {program.digest: program_row(program) for program in programs}
    known = select(table.c.digest).where(table.c.digest.in_(rows))
    there = set(connection.execute(known).scalars())
    new = [row for digest, row in rows.items() if digest not in there]
    if new:
        connection.execute(table.insert(), new)


def named(machines: Sequence[Machine]) -> str:
    """The first few machines, for a message: digests, processors and counts of measurements."""
    names = [f"{m.digest} ({m.fingerprints[-1].cpu}, {m.measurements})" for m in machines]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
