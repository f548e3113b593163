"""Definitions of prompts, resources, templates and instructions beside those of tools.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_COPIED = (
    "digest, definition, accepted_digest, accepted, state, findings, seen_at, decided_at,"
    " decided_by"
)


def upgrade() -> None:
    """Move the tools to a table whose key has the kind of a definition."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "seen_entries",
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_digest", text, nullable=False),
        sa.Column("accepted", sa.LargeBinary(), nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.Column("decided_at", text, nullable=False),
        sa.Column("decided_by", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "server", "kind", "name", name="pk_seen_entries"),
    )
    op.execute(
        f"INSERT INTO seen_entries (project_id, server, kind, name, {_COPIED})"  # noqa: S608 - constants
        f" SELECT project_id, server, 'tool', tool, {_COPIED} FROM seen_tools"
    )
    op.drop_table("seen_tools")
