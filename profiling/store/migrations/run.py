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


def upgrade(connection: Connection, found: str | None, to: str = REVISION) -> bool:
    """Takes the steps that are missing, within the transaction that was begun.

    Args:
        connection: Of a transaction that holds the lock on writing.
        found: The revision of the tables; None for those from before there were any.
        to: The revision to bring them to.

    Returns:
        False if this hetune does not know the revision: nothing was done.
    """
    script = ScriptDirectory(str(Path(__file__).parent))
    if found is not None and not _is_known(script, found):
        return False

    def steps(current: Any, _: MigrationContext) -> Any:
        return script._upgrade_revs(to, current)

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection, version_table=REVISIONS_TABLE, transactional_ddl=True)
        environment.run_migrations()
    return True


def _is_known(script: ScriptDirectory, revision: str) -> bool:
    try:
        return script.get_revision(revision) is not None
    except CommandError:
        return False
