"""The usage log: which tools a search showed, and what became of them.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make two empty tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    double: sa.Double[float] = sa.Double()
    op.create_table(
        "usage_searches",
        sa.Column("search_id", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("model", text, nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("margin", double),
        sa.Column("weak", sa.Boolean(), nullable=False),
        sa.Column("query", text),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("search_id", name="pk_usage_searches"),
    )
    op.create_index("ix_usage_searches_project_id_at", "usage_searches", ["project_id", "at"])
    op.create_index("ix_usage_searches_at_search_id", "usage_searches", ["at", "search_id"])
    op.create_table(
        "usage_uses",
        sa.Column("use_id", text, nullable=False),
        sa.Column("search_id", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("outcome", text, nullable=False),
        sa.PrimaryKeyConstraint("use_id", name="pk_usage_uses"),
    )
    op.create_index("ix_usage_uses_search_id", "usage_uses", ["search_id"])
    op.create_index("ix_usage_uses_project_id_at", "usage_uses", ["project_id", "at"])
