"""Vectors of tools and of passages come into one table, under keys of 16 bytes.

Written out, not taken from `_tables`: what was released stays as it was.
"""

import hashlib
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_KEY_BYTES = 16
"""Bytes of a key in the table of vectors."""
_PORTION = 1_000
"""Rows moved at a time; chosen: some MB."""


def upgrade() -> None:
    """Move all vectors; what pgvector searches is made anew from them by the next start."""
    connection = op.get_bind()
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.execute("DROP VIEW IF EXISTS mcp_tool_embeddings")
    op.execute("DROP TABLE IF EXISTS vector_nearest")
    op.execute("DROP TABLE IF EXISTS passage_nearest")
    op.rename_table("vectors", "old_vectors")
    op.rename_table("vector_models", "old_models")
    if connection.dialect.name == "postgresql":
        # The names of constraints stay when their table is renamed, and are wanted again.
        op.execute("ALTER TABLE old_vectors RENAME CONSTRAINT pk_vectors TO pk_old_vectors")
        op.execute("ALTER TABLE old_models RENAME CONSTRAINT pk_vector_models TO pk_old_models")
    op.create_table(
        "vector_models",
        sa.Column("collection_id", text, nullable=False),
        sa.Column("model", text, nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("used_at", text, nullable=False),
        sa.PrimaryKeyConstraint("collection_id", name="pk_vector_models"),
    )
    op.create_table(
        "vectors",
        sa.Column("collection_id", text, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("group_id", text, nullable=True),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "key", name="pk_vectors"),
    )
    _move_tools(connection)
    _move_passages(connection)
    op.drop_table("old_vectors")
    op.drop_table("old_models")
    op.drop_table("passage_vectors")
    op.create_index(
        "ix_vectors_group_id",
        "vectors",
        ["group_id"],
        sqlite_where=sa.text("group_id IS NOT NULL"),
        postgresql_where=sa.text("group_id IS NOT NULL"),
    )


def _move_tools(connection: sa.Connection) -> None:
    models = connection.execute(sa.text("SELECT model_id, model, dim, used_at FROM old_models"))
    for model_id, model, dim, used_at in models.all():
        collection_id = _collection_id(model, dim)
        connection.execute(
            sa.text("INSERT INTO vector_models VALUES (:collection_id, :model, :dim, :used_at)"),
            {"collection_id": collection_id, "model": model, "dim": dim, "used_at": used_at},
        )
        connection.execute(
            sa.text(
                "INSERT INTO vectors (collection_id, key, vector)"
                " SELECT :collection_id, text_hash, vector FROM old_vectors"
                " WHERE model_id = :model_id"
            ),
            {"collection_id": collection_id, "model_id": model_id},
        )


def _collection_id(model: str, dim: int) -> str:
    """As `search.semantic.tool_vector_store` names the vectors of a model."""
    return hashlib.blake2b(f"{dim} {model}".encode(), digest_size=8).hexdigest()


def _move_passages(connection: sa.Connection) -> None:
    """By portions: neither database turns a number into bytes in every version."""
    last: tuple[str, int] = ("", -1)
    while rows := connection.execute(
        sa.text(
            "SELECT shelf_id, passage_id, document_id, vector FROM passage_vectors"
            " WHERE shelf_id > :shelf OR (shelf_id = :shelf AND passage_id > :passage)"
            " ORDER BY shelf_id, passage_id LIMIT :portion"
        ),
        {"shelf": last[0], "passage": last[1], "portion": _PORTION},
    ).all():
        connection.execute(
            sa.text(
                "INSERT INTO vectors (collection_id, key, group_id, vector)"
                " VALUES (:collection_id, :key, :group_id, :vector)"
            ),
            [
                {
                    "collection_id": shelf,
                    "key": passage.to_bytes(_KEY_BYTES),
                    "group_id": document,
                    "vector": bytes(vector),
                }
                for shelf, passage, document, vector in rows
            ],
        )
        last = rows[-1][0], rows[-1][1]
