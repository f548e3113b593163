"""Indexes by which records of the audit are found among a million.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Index servers, and of other columns what most records do not say."""
    op.create_index("ix_audit_server", "audit", ["server", "at", "record_id"])
    for name, common in (
        ("status", "ok"),
        ("action", "call"),
        ("project_id", "default"),
        ("caller_id", "local"),
    ):
        rest = sa.text(f"{name} != '{common}'")
        op.create_index(
            f"ix_audit_{name}",
            "audit",
            [name, "at", "record_id"],
            sqlite_where=rest,
            postgresql_where=rest,
        )
