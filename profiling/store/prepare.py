"""Makes the tables of a store, or brings those of an older release up to date."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, inspect, select, text

from hetune.profiling.store.job_tables import jobs
from hetune.profiling.store.migrations.revision import REVISION, REVISIONS_TABLE
from hetune.profiling.store.schema import lock, measurements
from hetune.variants.errors import StoreError


def prepare(engine: Engine, place: str) -> None:
    """Makes the tables where there are none, and brings those of older releases up to date.

    All of it or nothing; of several processes one does it, and the others wait.

    Args:
        engine: The database.
        place: What messages call it.

    Raises:
        StoreError: The tables are none of this hetune, nor of one that it brings up to date.
        SQLAlchemyError: The database cannot be used.
    """
    with engine.connect() as connection:
        if _revision(connection) == REVISION:
            return
    with engine.connect() as connection:
        lock(connection)
        found = _revision(connection)
        if found == REVISION:  # another process was faster
            return
        from hetune.profiling.store.migrations import run  # seldom needed

        if found is None and not inspect(connection).has_table(measurements.name):
            jobs.metadata.create_all(connection)
            run.stamp(connection)
        elif found is None or not run.upgrade(connection, found):
            tables = f"revision {found}" if found else "no revision"
            upgrade = "upgrade hetune, or " if found and found > REVISION else ""
            raise StoreError(
                f"the store {place} has tables of {tables}, which this hetune does not know: "
                f"{upgrade}set HETUNE_STORE to another store"
            )
        connection.commit()


def _revision(connection: Connection) -> str | None:
    """The revision that the tables are said to have; None where nothing says."""
    if not inspect(connection).has_table(REVISIONS_TABLE):
        return None
    found = connection.execute(select(text("version_num")).select_from(text(REVISIONS_TABLE)))
    return ", ".join(map(str, found.scalars().all())) or None
