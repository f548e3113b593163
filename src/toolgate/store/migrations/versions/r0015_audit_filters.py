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
    """Index where things ended, and of other columns what most records do not say."""
    for name, condition in (
        ("server", "phase = 'outcome'"),
        ("target", "phase = 'outcome'"),
        ("status", "status != 'ok'"),
        ("action", "action != 'call'"),
        ("project_id", "project_id != 'default'"),
        ("caller_id", "caller_id != 'local'"),
    ):
        rest = sa.text(condition)
        op.create_index(
            f"ix_audit_{name}",
            "audit",
            [name, "at", "record_id"],
            sqlite_where=rest,
            postgresql_where=rest,
        )
