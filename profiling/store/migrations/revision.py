"""Which revision the tables of a store have."""

REVISION = "0005"
"""The last of `hetune.profiling.store.migrations.versions`: that of the tables in `schema`."""
REVISIONS_TABLE = "profiling_migrations"
"""Where a database keeps the revision of its tables."""
