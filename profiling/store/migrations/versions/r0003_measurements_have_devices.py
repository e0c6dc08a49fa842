"""A measurement has a device, and a GPU's clocks; what was measured before is of CPUs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TABLE = "profiling_measurements"


def upgrade() -> None:
    """Adds the columns."""
    op.add_column(_TABLE, sa.Column("device", sa.Text, nullable=False, server_default="cpu"))
    op.add_column(_TABLE, sa.Column("clocks", sa.JSON, nullable=False, server_default="[]"))
