"""Running calls, for limits on calls at the same time.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Create the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "limit_slots",
        sa.Column("name", text, nullable=False),
        sa.Column("call_id", text, nullable=False),
        sa.Column("until", sa.Double[float](), nullable=False),
        sa.PrimaryKeyConstraint("name", "call_id", name="pk_limit_slots"),
    )
    op.create_index("ix_limit_slots_call_id", "limit_slots", ["call_id"])
