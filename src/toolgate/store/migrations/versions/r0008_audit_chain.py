"""The chain of the audit: a hash in each record over it and the one before, and signed places.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add columns and two tables; records that are there stay out of the chain."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("audit", sa.Column("seq", sa.BigInteger()))
    op.add_column("audit", sa.Column("chain", text))
    op.create_index("ix_audit_seq", "audit", ["seq"], unique=True)
    op.create_table(
        "audit_state",
        sa.Column("state_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("chain", text, nullable=False),
        sa.Column("removed_seq", sa.BigInteger(), nullable=False),
        sa.Column("removed_chain", text, nullable=False),
        sa.PrimaryKeyConstraint("state_id", name="pk_audit_state"),
    )
    op.create_table(
        "audit_anchors",
        sa.Column("seq", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("chain", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("key_id", text, nullable=False),
        sa.Column("signature", text, nullable=False),
        sa.PrimaryKeyConstraint("seq", "kind", name="pk_audit_anchors"),
    )
