"""Measurements and jobs, as hetune made them before it had migrations.

Tables that are there stay as they are: a store of that time is adopted by this.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_UTC = sa.DateTime(timezone=True)
_MADE = {"sqlite_autoincrement": True, "if_not_exists": True}


def upgrade() -> None:
    """Makes the tables that are missing."""
    _measurements()
    _jobs()


def _measurements() -> None:
    schema = op.create_table(
        "profiling_schema",
        sa.Column("version", sa.Integer, primary_key=True),
        if_not_exists=True,
    )
    connection = op.get_bind()
    if not connection.execute(sa.select(schema.c.version)).all():
        connection.execute(schema.insert().values(version=1))
    op.create_table(
        "profiling_fingerprints",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("facts_sha256", sa.Text, nullable=False, unique=True),
        sa.Column("facts", sa.JSON, nullable=False),
        **_MADE,
    )
    op.create_index(
        "ix_profiling_fingerprints_machine",
        "profiling_fingerprints",
        ["machine"],
        if_not_exists=True,
    )
    op.create_table(
        "profiling_measurements",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("fingerprint", _ID, sa.ForeignKey("profiling_fingerprints.id"), nullable=False),
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("graph", sa.Text, nullable=False),
        sa.Column("graph_fingerprint", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("graph_features", sa.JSON, nullable=False),
        sa.Column("layer", sa.Text, nullable=False),
        sa.Column("d_in", sa.BigInteger, nullable=False),
        sa.Column("d_out", sa.BigInteger, nullable=False),
        sa.Column("heads", sa.BigInteger, nullable=False),
        sa.Column("threads", sa.BigInteger, nullable=False),
        sa.Column("variant", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("samples", sa.JSON, nullable=False),
        sa.Column("launches", sa.JSON, nullable=False),
        sa.Column("preparation", sa.JSON, nullable=False),
        sa.Column("prepare_seconds", sa.Double),
        sa.Column("relative_error", sa.Double),
        sa.Column("peak_bytes", sa.BigInteger, nullable=False),
        sa.Column("drift", sa.Double),
        sa.Column("protocol", sa.Integer, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("measured_at", _UTC, nullable=False),
        sa.UniqueConstraint("machine", "unit"),
        **_MADE,
    )


def _jobs() -> None:
    op.create_table(
        "profiling_jobs",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.Column("retrain", sa.Boolean, nullable=False),
        sa.Column("machine", sa.Text),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created", _UTC, nullable=False),
        sa.Column("started", _UTC),
        sa.Column("finished", _UTC),
        **_MADE,
    )
    op.create_index("ix_profiling_jobs_state", "profiling_jobs", ["state"], if_not_exists=True)
    op.create_table(
        "profiling_job_units",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("job", _ID, sa.ForeignKey("profiling_jobs.id"), nullable=False),
        sa.Column("is_training", sa.Boolean, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("variants", sa.JSON, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("lease_expires", _UTC),
        sa.Column("heartbeat", _UTC),
        sa.Column("endings", sa.JSON, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        **_MADE,
    )
    op.create_index(
        "profiling_job_units_state", "profiling_job_units", ["job", "state"], if_not_exists=True
    )
    op.create_table(
        "profiling_job_log",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("job", _ID, sa.ForeignKey("profiling_jobs.id"), nullable=False),
        sa.Column("moment", _UTC, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        **_MADE,
    )
    op.create_index("ix_profiling_job_log_job", "profiling_job_log", ["job"], if_not_exists=True)
