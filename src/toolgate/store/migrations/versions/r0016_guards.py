"""Guards around calls that are made by command or API.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "guards",
        sa.Column("guard_id", text, nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.PrimaryKeyConstraint("guard_id", name="pk_guards"),
    )
