"""Brings the tables of a store up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from hetune.profiling.store.migrations.revision import REVISION, REVISIONS_TABLE


def stamp(connection: Connection) -> None:
    """Says of new tables that they are up to date, within the transaction that was begun."""
    context = MigrationContext.configure(connection, opts={"version_table": REVISIONS_TABLE})
    context.stamp(_script(), REVISION)


def upgrade(connection: Connection, found: str) -> bool:
    """Takes the steps that are missing, within the transaction that was begun.

    Args:
        connection: Of a transaction that holds the lock on writing.
        found: The revision of the tables.

    Returns:
        False if this hetune does not know the revision: nothing was done.
    """
    script = _script()
    try:
        script.get_revision(found)
    except CommandError:
        return False

    def steps(current: Any, _: MigrationContext) -> Any:
        return script._upgrade_revs(REVISION, current)

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection, version_table=REVISIONS_TABLE, transactional_ddl=True)
        environment.run_migrations()
    return True


def _script() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))
