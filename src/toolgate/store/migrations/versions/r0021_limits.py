"""What counts against limits per day and per minute.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Create both tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "limit_days",
        sa.Column("day", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "name", name="pk_limit_days"),
    )
    op.create_table(
        "limit_minutes",
        sa.Column("name", text, nullable=False),
        sa.Column("remaining", sa.Double[float](), nullable=False),
        sa.Column("at", sa.Double[float](), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_limit_minutes"),
    )
