"""Sessions of the console.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "sessions",
        sa.Column("session_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.Column("expires_at", text, nullable=False),
        sa.Column("address", text, nullable=False),
        sa.Column("agent", text, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
    )
