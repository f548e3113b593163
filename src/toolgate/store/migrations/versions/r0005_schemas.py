"""Versions of the schemas of connected databases, each with what it changed.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "schema_versions",
        sa.Column("version_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("connection", text, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("changes", sa.LargeBinary(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version_id", name="pk_schema_versions"),
        sa.UniqueConstraint(
            "project_id",
            "connection",
            "number",
            name="uq_schema_versions_project_id_connection_number",
        ),
    )
