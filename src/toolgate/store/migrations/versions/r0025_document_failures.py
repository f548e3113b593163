"""Documents that could not be imported.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Create the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "document_failures",
        sa.Column("collection_id", text, nullable=False),
        sa.Column("origin", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failed_at", text, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "origin", "source", name="pk_document_failures"),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["document_collections.collection_id"],
            name="fk_document_failures_collection_id",
            ondelete="CASCADE",
        ),
    )
