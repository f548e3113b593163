"""Programs that wait for a person.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Create the table."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "programs",
        sa.Column("program_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("expires_at", text, nullable=False),
        sa.PrimaryKeyConstraint("program_id", name="pk_programs"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_programs_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_programs_expires_at", "programs", ["expires_at"])
