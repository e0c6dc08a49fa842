"""The tables of measurements, and the lock on writing."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

# Any number will do, as long as no other program on the server locks the same one.
_POSTGRESQL_LOCK = 0x6865_7475_6E65


class Utc(TypeDecorator[datetime]):
    """A moment: SQLite keeps no time zone, and PostgreSQL answers in the session's."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To a moment in UTC."""
        if value is None or value.tzinfo is not None:
            return None if value is None else value.astimezone(UTC)
        return value.replace(tzinfo=UTC)


Id = BigInteger().with_variant(Integer, "sqlite")
metadata = MetaData()
"""All tables of a store; those of jobs join it."""

fingerprints = Table(
    "profiling_fingerprints",
    metadata,
    Column("id", Id, primary_key=True),
    Column("machine", Text, nullable=False, index=True),  # the digest: what decides speed
    Column("facts_sha256", Text, nullable=False, unique=True),  # all facts, in canonical form
    Column("facts", JSON, nullable=False),
    sqlite_autoincrement=True,
)

programs = Table(
    "profiling_programs",
    metadata,
    Column("digest", Text, primary_key=True),  # of its canonical form
    Column("label", Text, nullable=False),  # for readers
    Column("text", Text, nullable=False),
)

measurements = Table(
    "profiling_measurements",
    metadata,
    Column("id", Id, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("fingerprint", ForeignKey(fingerprints.c.id), nullable=False),
    Column("campaign", Text, nullable=False),
    Column("graph", Text, nullable=False),
    Column("graph_fingerprint", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("graph_features", JSON, nullable=False),
    Column("threads", BigInteger, nullable=False),
    Column("variant", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("samples", JSON, nullable=False),
    Column("launches", JSON, nullable=False),  # [[kernel, family, columns, samples], ...]
    Column("preparation", JSON, nullable=False),
    Column("prepare_seconds", Double),  # null is "not a number", which SQLite cannot hold
    Column("relative_error", Double),
    Column("peak_bytes", BigInteger, nullable=False),
    Column("drift", Double),
    Column("protocol", Integer, nullable=False),
    Column("code_version", Text, nullable=False),
    Column("measured_at", Utc, nullable=False),
    Column("device", Text, nullable=False, server_default="cpu"),
    Column("clocks", JSON, nullable=False, server_default="[]"),
    Column("program", Text, nullable=False, server_default=""),  # the digest
    UniqueConstraint("machine", "unit"),
    sqlite_autoincrement=True,
)


def lock(connection: Connection) -> None:
    """Begin a transaction as the only one that writes, until it ends.

    Ids then grow in the order of commits, and writers cannot wait for each other in a circle.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})"))
