"""Document collections and their passages."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from toolgate.store.engine.tables._base import ROW_NUMBER, TEXT, metadata, project_column

document_collections = Table(
    "document_collections",
    metadata,
    Column("collection_id", TEXT, primary_key=True),
    project_column(),
    Column("name", TEXT, nullable=False),
    Column("name_key", TEXT, nullable=False),  # without case
    Column("alias", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("model_identity", TEXT, nullable=False),
    Column("dim", Integer, nullable=False),
    Column("metric", TEXT, nullable=False),
    Column("place", TEXT, nullable=False),
    Column("shelf_id", TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", TEXT, nullable=False),
    UniqueConstraint("project_id", "name_key"),
)


def _collection_column() -> Column[str]:
    return Column(
        "collection_id",
        TEXT,
        ForeignKey("document_collections.collection_id", ondelete="CASCADE"),
        nullable=False,
    )


documents = Table(
    "documents",
    metadata,
    Column("document_id", TEXT, primary_key=True),
    _collection_column(),
    Column("origin", TEXT, nullable=False),
    Column("source", TEXT, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", TEXT, nullable=False),
    Column("content_hash", TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("added_at", TEXT, nullable=False),
    UniqueConstraint("collection_id", "origin", "source"),
)


document_failures = Table(
    "document_failures",
    metadata,
    Column(
        "collection_id",
        TEXT,
        ForeignKey("document_collections.collection_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("origin", TEXT, primary_key=True),
    Column("source", TEXT, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("failed_at", TEXT, nullable=False),
)


passages = Table(
    "passages",
    metadata,
    Column("passage_id", ROW_NUMBER, primary_key=True, autoincrement=False),
    _collection_column(),
    Column(
        "document_id",
        TEXT,
        ForeignKey("documents.document_id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("ordinal", Integer, nullable=False),
    Column("heading", Text, nullable=False),
    Column("page", Integer),
    Column("text", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("length", Integer, nullable=False),  # words
    Index(None, "collection_id", "passage_id"),
    Index(None, "document_id"),
)
