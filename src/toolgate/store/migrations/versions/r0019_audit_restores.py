"""What a signed position of the audit chain says of itself, and which processes write the audit.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add a column that restores use, and a table of processes."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column(
        "audit_anchors", sa.Column("detail", sa.Text(), nullable=False, server_default="")
    )
    op.create_table(
        "audit_writers",
        sa.Column("writer_id", text, nullable=False),
        sa.Column("started_at", text, nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.PrimaryKeyConstraint("writer_id", name="pk_audit_writers"),
    )
