"""Vectors of texts, the models that made them, and which tool has which text.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Make three empty tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "vector_models",
        sa.Column("model_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("model", text, nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("used_at", text, nullable=False),
        sa.PrimaryKeyConstraint("model_id", name="pk_vector_models"),
        sa.UniqueConstraint("model", "dim", name="uq_vector_models_model_dim"),
    )
    op.create_table(
        "vectors",
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", text, nullable=False),
        sa.PrimaryKeyConstraint("model_id", "text_hash", name="pk_vectors"),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["vector_models.model_id"],
            name="fk_vectors_model_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "tool_texts",
        sa.Column("project_id", text, nullable=False),
        sa.Column("server", text, nullable=False),
        sa.Column("tool", text, nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("description", text, nullable=False),
        sa.Column("enriched", text, nullable=False),
        sa.Column("definition_hash", text, nullable=False),
        sa.Column("created_at", text, nullable=False),
        sa.Column("updated_at", text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "server", "tool", name="pk_tool_texts"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_tool_texts_project_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_tool_texts_text_hash", "tool_texts", ["text_hash"])
