"""What was asked of connected databases.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "statements",
        sa.Column("statement_id", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("connection", text, nullable=False),
        sa.Column("dialect", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("outcome", text, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=True),
        sa.Column("elapsed_ms", sa.Double[float](), nullable=True),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("statement_id", name="pk_statements"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_statements_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_statements_at_statement_id", "statements", ["at", "statement_id"])
    op.create_index(
        "ix_statements_project_id_caller_id_at", "statements", ["project_id", "caller_id", "at"]
    )
