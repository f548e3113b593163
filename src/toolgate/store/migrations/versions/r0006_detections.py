"""What messages were taken for: counts, doubts, and candidates for example prompts.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make an empty table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "detections",
        sa.Column("detection_id", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("door", text, nullable=False),
        sa.Column("outcome", text, nullable=False),
        sa.Column("stage", text, nullable=False),
        sa.Column("intent", text, nullable=False),
        sa.Column("confidence", sa.Double[float](), nullable=False),
        sa.Column("rival", text, nullable=False),
        sa.Column("rival_confidence", sa.Double[float](), nullable=False),
        sa.Column("called", text, nullable=False),
        sa.Column("remembered", sa.Boolean(), nullable=False),
        sa.Column("message", text, nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("detection_id", name="pk_detections"),
    )
    op.create_index("ix_detections_project_id_at", "detections", ["project_id", "at"])
    op.create_index("ix_detections_at_detection_id", "detections", ["at", "detection_id"])
