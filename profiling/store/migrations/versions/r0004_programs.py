"""A measurement is of a program, in place of a layer's name with widths and heads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_TABLE = "profiling_measurements"


def upgrade() -> None:
    """Adds the table and the column of programs, fills them, and drops the names."""
    op.create_table(
        "profiling_programs",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.add_column(_TABLE, sa.Column("program", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    tables = map(sa.table, (_TABLE, "profiling_job_units"))
    if any(
        connection.execute(sa.select(sa.exists().select_from(table))).scalar() for table in tables
    ):
        from hetune.profiling.store.migrations.named_layers import convert  # seldom needed

        convert(connection)
    for name in ("layer", "d_in", "d_out", "heads"):
        op.drop_column(_TABLE, name)
    op.drop_table("profiling_schema", if_exists=True)  # which nobody reads any more
