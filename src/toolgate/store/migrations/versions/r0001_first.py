"""The first schema: projects, servers, listings, large results, audit, secrets.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make all tables and the default project."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    projects = op.create_table(
        "projects",
        sa.Column("project_id", text, nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name="pk_projects"),
    )
    op.create_table(
        "servers",
        sa.Column("server_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("alias", text),
        sa.PrimaryKeyConstraint("server_id", name="pk_servers"),
        sa.UniqueConstraint("project_id", "name", name="uq_servers_project_id_name"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_servers_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "snapshots",
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("listing", sa.LargeBinary(), nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("listed_at", text, nullable=False),
        sa.Column("seen_at", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "server", name="pk_snapshots"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_snapshots_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "results",
        sa.Column("handle", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", text, nullable=False),
        sa.PrimaryKeyConstraint("handle", name="pk_results"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_results_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_results_expires_at", "results", ["expires_at"])
    _create_audit(text)
    op.create_table(
        "secrets",
        sa.Column("name", text, nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.bulk_insert(projects, [{"project_id": "default", "created_at": "1970-01-01T00:00:00.000Z"}])


def _create_audit(text: sa.types.TypeEngine[str]) -> None:
    double: sa.Double[float] = sa.Double()
    op.create_table(
        "audit",
        sa.Column("record_id", text, nullable=False),
        sa.Column("at", text, nullable=False),
        sa.Column("action", text, nullable=False),
        sa.Column("phase", text, nullable=False),
        sa.Column("parent_id", text),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("client", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("request_id", text, nullable=False),
        sa.Column("server", text),
        sa.Column("target", text),
        sa.Column("digest", text),
        sa.Column("query", text),
        sa.Column("status", text, nullable=False),
        sa.Column("duration_ms", double),
        sa.Column("request_bytes", sa.BigInteger()),
        sa.Column("response_bytes", sa.BigInteger()),
        sa.Column("arguments_sha256", text),
        sa.Column("response_sha256", text),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("record_id", name="pk_audit"),
    )
    op.create_index("ix_audit_at_record_id", "audit", ["at", "record_id"])
