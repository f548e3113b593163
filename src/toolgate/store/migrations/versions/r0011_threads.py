"""Threads of turns, and texts in place of prompts.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make empty tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    _create_threads(text)
    _create_spending(text)
    _create_prompt_versions(text)


def _create_threads(text: sa.types.TypeEngine[str]) -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("caller_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.Column("running", text, nullable=False),
        sa.Column("running_until", text, nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("used_at", text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_threads"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_threads_project_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "project_id", "caller_id", "name", name="uq_threads_project_id_caller_id_name"
        ),
    )
    op.create_index("ix_threads_used_at_thread_id", "threads", ["used_at", "thread_id"])
    op.create_table(
        "thread_messages",
        sa.Column("thread_id", text, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("turn_id", text, nullable=False),
        sa.Column("role", text, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("at", text, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "number", name="pk_thread_messages"),
        sa.ForeignKeyConstraint(
            ["thread_id"],
            ["threads.thread_id"],
            name="fk_thread_messages_thread_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "thread_artifacts",
        sa.Column("artifact_id", text, nullable=False),
        sa.Column("thread_id", text, nullable=False),
        sa.Column("turn_id", text, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("artifact_id", name="pk_thread_artifacts"),
        sa.ForeignKeyConstraint(
            ["thread_id"],
            ["threads.thread_id"],
            name="fk_thread_artifacts_thread_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_thread_artifacts_thread_id_turn_id", "thread_artifacts", ["thread_id", "turn_id"]
    )


def _create_spending(text: sa.types.TypeEngine[str]) -> None:
    op.create_table(
        "thread_spending",
        sa.Column("thread_id", text, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("turn_id", text, nullable=False),
        sa.Column("purpose", text, nullable=False),
        sa.Column("model", text, nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_tokens", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Double[float](), nullable=False),
        sa.Column("is_estimate", sa.Boolean(), nullable=False),
        sa.Column("at", text, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "number", name="pk_thread_spending"),
        sa.ForeignKeyConstraint(
            ["thread_id"],
            ["threads.thread_id"],
            name="fk_thread_spending_thread_id",
            ondelete="CASCADE",
        ),
    )


def _create_prompt_versions(text: sa.types.TypeEngine[str]) -> None:
    op.create_table(
        "prompt_versions",
        sa.Column("project_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("changed_at", text, nullable=False),
        sa.Column("changed_by", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "name", "version", name="pk_prompt_versions"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_prompt_versions_project_id",
            ondelete="CASCADE",
        ),
    )
