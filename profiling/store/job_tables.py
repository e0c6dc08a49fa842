"""The tables of jobs, which stand beside the store's."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
)

from hetune.profiling.store.schema import Id, Utc, metadata

jobs = Table(
    "profiling_jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("campaign", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of all that was asked for
    Column("limits", JSON, nullable=False),
    Column("retrain", Boolean, nullable=False),
    Column("machine", Text),
    Column("idempotency_key", Text, unique=True),
    Column("state", Text, nullable=False, index=True, default="queued"),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("model", Text),
    Column("error", Text, nullable=False, default=""),
    Column("created", Utc, nullable=False),
    Column("started", Utc),
    Column("finished", Utc),
    sqlite_autoincrement=True,
)

# A task that is queued in a job that is final was never begun, and counts as cancelled.
tasks = Table(
    "profiling_job_units",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job", ForeignKey(jobs.c.id), nullable=False),
    Column("is_training", Boolean, nullable=False),
    Column("problem", JSON),
    Column("variants", JSON, nullable=False),  # [[id, plan], ...]
    Column("size", Integer, nullable=False),  # how many variants
    Column("state", Text, nullable=False, default="queued"),
    Column("attempt", Integer, nullable=False, default=0),
    Column("token", BigInteger, nullable=False, default=0),
    Column("owner", Text, nullable=False, default=""),
    Column("machine", Text, nullable=False, default=""),
    Column("lease_expires", Utc),
    Column("heartbeat", Utc),
    Column("endings", JSON, nullable=False, default={}),
    Column("error", Text, nullable=False, default=""),
    Index("profiling_job_units_state", "job", "state"),
    sqlite_autoincrement=True,
)

log = Table(
    "profiling_job_log",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job", ForeignKey(jobs.c.id), nullable=False, index=True),
    Column("moment", Utc, nullable=False),
    Column("line", Text, nullable=False),
    sqlite_autoincrement=True,
)
