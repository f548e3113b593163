"""Tokens, permission rules, settings of projects, and the counter that replicas look at.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add a column and make three empty tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("projects", sa.Column("settings", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "tokens",
        sa.Column("token_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("prefix", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("old_digest", text),
        sa.Column("old_until", text),
        sa.Column("user_name", text, nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("expires_at", text),
        sa.Column("rotated_at", text),
        sa.Column("revoked_at", text),
        sa.Column("last_used_at", text),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
    )
    op.create_table(
        "permissions",
        sa.Column("permission_id", text, nullable=False),
        sa.Column("effect", text, nullable=False),
        sa.Column("who", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("pattern", text, nullable=False),
        sa.Column("hint", text, nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.PrimaryKeyConstraint("permission_id", name="pk_permissions"),
    )
    op.create_index("ix_permissions_who", "permissions", ["who"])
    op.create_table(
        "access_state",
        sa.Column("state_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("state_id", name="pk_access_state"),
    )
