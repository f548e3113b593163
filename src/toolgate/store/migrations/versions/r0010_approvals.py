"""Calls that wait for a person, and what was decided about them.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add one table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "approvals",
        sa.Column("approval_id", text, nullable=False),
        sa.Column("slot", text),
        sa.Column("binding", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("who", text, nullable=False),
        sa.Column("client", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("arguments", text, nullable=False),
        sa.Column("arguments_sha256", text, nullable=False),
        sa.Column("reason", text, nullable=False),
        sa.Column("approver", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("expires_at", text, nullable=False),
        sa.Column("decided_at", text),
        sa.Column("decided_by", text, nullable=False),
        sa.Column("decided_via", text, nullable=False),
        sa.Column("comment", text, nullable=False),
        sa.Column("edited", text),
        sa.Column("used_at", text),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("record_id", text, nullable=False),
        sa.PrimaryKeyConstraint("approval_id", name="pk_approvals"),
        sa.UniqueConstraint("slot", name="uq_approvals_slot"),
    )
    op.create_index(
        "ix_approvals_created_at_approval_id", "approvals", ["created_at", "approval_id"]
    )
