"""An index of what failed at a server, among a million records.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Index failures by server."""
    failed = sa.text("status NOT IN ('ok', 'input_required')")
    op.create_index(
        "ix_audit_failed",
        "audit",
        ["server", "at", "record_id"],
        sqlite_where=failed,
        postgresql_where=failed,
    )
