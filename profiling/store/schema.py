"""The tables of a store, and what makes a database one."""

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
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from hetune.variants.errors import StoreError

VERSION = 1
"""Version of the tables; a store of another one is refused."""

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
_metadata = MetaData()

schema = Table("profiling_schema", _metadata, Column("version", Integer, primary_key=True))

fingerprints = Table(
    "profiling_fingerprints",
    _metadata,
    Column("id", Id, primary_key=True),
    Column("machine", Text, nullable=False, index=True),  # the digest: what decides speed
    Column("facts_sha256", Text, nullable=False, unique=True),  # all facts, in canonical form
    Column("facts", JSON, nullable=False),
    sqlite_autoincrement=True,
)

measurements = Table(
    "profiling_measurements",
    _metadata,
    Column("id", Id, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("fingerprint", ForeignKey(fingerprints.c.id), nullable=False),
    Column("campaign", Text, nullable=False),
    Column("graph", Text, nullable=False),
    Column("graph_fingerprint", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("graph_features", JSON, nullable=False),
    Column("layer", Text, nullable=False),
    Column("d_in", BigInteger, nullable=False),
    Column("d_out", BigInteger, nullable=False),
    Column("heads", BigInteger, nullable=False),
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
    UniqueConstraint("machine", "unit"),
    sqlite_autoincrement=True,
)


def prepare(engine: Engine, place: str) -> None:
    """Create the tables where there are none.

    Args:
        engine: The database.
        place: What messages call it.

    Raises:
        StoreError: The tables are those of another version.
        SQLAlchemyError: The database cannot be used.
    """
    with engine.connect() as connection:
        if inspect(connection).has_table(schema.name):
            _check(connection, place)
            return
    with engine.connect() as connection:
        lock(connection)
        # Another process may have been faster.
        if inspect(connection).has_table(schema.name):
            _check(connection, place)
            return
        _metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))
        connection.commit()


def lock(connection: Connection) -> None:
    """Begin a transaction as the only one that writes, until it ends.

    Ids then grow in the order of commits, and writers cannot wait for each other in a circle.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})"))


def _check(connection: Connection, place: str) -> None:
    found = connection.execute(select(schema.c.version)).scalars().all()
    if found == [VERSION]:
        return
    versions = ", ".join(map(str, found)) or "none"
    newer = bool(found) and max(found) > VERSION
    mend = "upgrade hetune" if newer else "read it with the release of hetune that wrote it"
    raise StoreError(
        f"the store {place} has tables of version {versions}, and this hetune reads version "
        f"{VERSION}: {mend}, or set HETUNE_STORE to another store"
    )
