"""A claim may be repeated under a key, and releases without migrations stay out.

Those look at `profiling_schema`, and say of its version 2 that hetune has to be upgraded.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the column, and drops the version of jobs' tables, which nobody reads any more."""
    op.add_column("profiling_job_units", sa.Column("claim_key", sa.Text))
    op.create_index("profiling_job_units_claim", "profiling_job_units", ["claim_key"])
    op.drop_table("profiling_jobs_schema", if_exists=True)
    op.execute("UPDATE profiling_schema SET version = 2")
