"""Credentials towards servers, encrypted, and the wrapped keys for that.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add two tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "credential_keys",
        sa.Column("key_id", text, nullable=False),
        sa.Column("wrapped_by", text, nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_credential_keys"),
    )
    op.create_table(
        "credentials",
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("subject", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("key_id", text, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("lease_by", text, nullable=False),
        sa.Column("lease_until", text, nullable=False),
        sa.Column("updated_at", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "server", "subject", "kind", name="pk_credentials"),
    )
