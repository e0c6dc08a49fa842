"""The tables of jobs, which stand beside the store's."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    inspect,
    select,
)

from hetune.profiling.store.schema import Id, Utc, lock
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError

VERSION = 1
"""Version of the tables; those of another one are refused."""

_metadata = MetaData()

schema = Table("profiling_jobs_schema", _metadata, Column("version", Integer, primary_key=True))

jobs = Table(
    "profiling_jobs",
    _metadata,
    Column("id", Id, primary_key=True),
    Column("campaign", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of all that was asked for
    Column("limits", JSON, nullable=False),
    Column("retrain", Boolean, nullable=False),
    Column("machine", Text),
    Column("idempotency_key", Text, unique=True),
    Column("state", Text, nullable=False, index=True),
    Column("cancel_requested", Boolean, nullable=False),
    Column("model", Text),
    Column("error", Text, nullable=False),
    Column("created", Utc, nullable=False),
    Column("started", Utc),
    Column("finished", Utc),
    sqlite_autoincrement=True,
)

# A unit that is queued in a job that is final was never begun, and counts as cancelled.
units = Table(
    "profiling_job_units",
    _metadata,
    Column("id", Id, primary_key=True),
    Column("job", ForeignKey(jobs.c.id), nullable=False),
    Column("is_training", Boolean, nullable=False),
    Column("problem", JSON),
    Column("variants", JSON, nullable=False),  # [[id, plan], ...]
    Column("size", Integer, nullable=False),  # how many variants
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("lease_expires", Utc),
    Column("heartbeat", Utc),
    Column("endings", JSON, nullable=False),
    Column("error", Text, nullable=False),
    Index("profiling_job_units_state", "job", "state"),
    sqlite_autoincrement=True,
)

log = Table(
    "profiling_job_log",
    _metadata,
    Column("id", Id, primary_key=True),
    Column("job", ForeignKey(jobs.c.id), nullable=False, index=True),
    Column("moment", Utc, nullable=False),
    Column("line", Text, nullable=False),
    sqlite_autoincrement=True,
)


def prepare(store: Store) -> None:
    """Create the tables where there are none.

    Raises:
        StoreError: The tables are those of another version, or the database fails.
    """
    with store.reading() as connection:
        if _is_there(connection, store.place):
            return
    with store.transaction() as connection:
        lock(connection)
        # Another process may have been faster.
        if not _is_there(connection, store.place):
            _metadata.create_all(connection)
            connection.execute(schema.insert().values(version=VERSION))


def _is_there(connection: Connection, place: str) -> bool:
    if not inspect(connection).has_table(schema.name):
        return False
    found = connection.execute(select(schema.c.version)).scalars().all()
    if found != [VERSION]:
        versions = ", ".join(map(str, found)) or "none"
        raise StoreError(
            f"the store {place} has tables of jobs of version {versions}, and this hetune reads "
            f"version {VERSION}: use the release of hetune that wrote them, or set HETUNE_STORE "
            "to another store"
        )
    return True
