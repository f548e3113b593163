"""Tools as they were seen first and last, and what somebody decided about them.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "seen_tools",
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_digest", text, nullable=False),
        sa.Column("accepted", sa.LargeBinary(), nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.Column("decided_at", text, nullable=False),
        sa.Column("decided_by", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "server", "tool", name="pk_seen_tools"),
    )
