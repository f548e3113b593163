"""Definitions of tools that were replaced by others.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "tool_versions",
        sa.Column("version_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.Column("replaced_at", text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version_id", name="pk_tool_versions"),
    )
    op.create_index(
        "ix_tool_versions_project_id_server_tool",
        "tool_versions",
        ["project_id", "server", "tool"],
    )
    op.create_index(
        "ix_tool_versions_replaced_at_version_id", "tool_versions", ["replaced_at", "version_id"]
    )
