"""Documents: collections, what is in them, the pieces they are cut into, and vectors of those.

Written out, not taken from `_tables`: what was released stays as it was.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0013"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add four tables."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "document_collections",
        sa.Column("collection_id", text, nullable=False),
        sa.Column("project_id", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("name_key", text, nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("model", text, nullable=False),
        sa.Column("model_identity", text, nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("metric", text, nullable=False),
        sa.Column("place", text, nullable=False),
        sa.Column("shelf_id", text, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", text, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", name="pk_document_collections"),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.project_id"],
            name="fk_document_collections_project_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "project_id", "name_key", name="uq_document_collections_project_id_name_key"
        ),
    )
    op.create_table(
        "documents",
        sa.Column("document_id", text, nullable=False),
        sa.Column("collection_id", text, nullable=False),
        sa.Column("origin", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("media_type", text, nullable=False),
        sa.Column("content_hash", text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("passages", sa.Integer(), nullable=False),
        sa.Column("added_at", text, nullable=False),
        sa.PrimaryKeyConstraint("document_id", name="pk_documents"),
        _of_collection("documents"),
        sa.UniqueConstraint(
            "collection_id", "origin", "source", name="uq_documents_collection_id_origin_source"
        ),
    )
    op.create_table(
        "passages",
        sa.Column("passage_id", number, nullable=False, autoincrement=False),
        sa.Column("collection_id", text, nullable=False),
        sa.Column("document_id", text, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("heading", sa.Text(), nullable=False),
        sa.Column("page", sa.Integer()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("passage_id", name="pk_passages"),
        _of_collection("passages"),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["documents.document_id"],
            name="fk_passages_document_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_passages_collection_id_passage_id", "passages", ["collection_id", "passage_id"]
    )
    op.create_index("ix_passages_document_id", "passages", ["document_id"])
    op.create_table(
        "passage_vectors",
        sa.Column("shelf_id", text, nullable=False),
        sa.Column("passage_id", number, nullable=False, autoincrement=False),
        sa.Column("collection_id", text, nullable=False),
        sa.Column("document_id", text, nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("shelf_id", "passage_id", name="pk_passage_vectors"),
        _of_collection("passage_vectors"),
    )
    op.create_index("ix_passage_vectors_document_id", "passage_vectors", ["document_id"])
    op.create_index("ix_passage_vectors_collection_id", "passage_vectors", ["collection_id"])


def _of_collection(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["collection_id"],
        ["document_collections.collection_id"],
        name=f"fk_{table}_collection_id",
        ondelete="CASCADE",
    )
