"""Nobody claims a unit under a key any more."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Drops the keys."""
    op.drop_index("profiling_job_units_claim", "profiling_job_units")
    op.drop_column("profiling_job_units", "claim_key")
