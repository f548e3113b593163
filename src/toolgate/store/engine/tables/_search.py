"""Vectors, and the logs of searches and of intent detection."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from toolgate.store.engine.tables._base import TEXT, metadata

# Models whose tool vectors are stored.
vector_models = Table(
    "vector_models",
    metadata,
    Column("collection_id", TEXT, primary_key=True),
    Column("model", TEXT, nullable=False),
    Column("dim", Integer, nullable=False),
    Column("used_at", TEXT, nullable=False),
)


# Read and written by `toolgate.store.vectors` in bulk, without SQLAlchemy. No foreign keys: other
# databases have none either, and vectors are written before their objects can be found.
vectors = Table(
    "vectors",
    metadata,
    Column("collection_id", TEXT, primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("group_id", TEXT),
    Column("vector", LargeBinary, nullable=False),  # float16 or float32, little-endian
    Index(
        None,
        "group_id",
        sqlite_where=text("group_id IS NOT NULL"),
    ),
)


# No foreign key: a row of a project that was just removed must not reject a whole batch.
usage_searches = Table(
    "usage_searches",
    metadata,
    Column("search_id", TEXT, primary_key=True),
    Column("at", TEXT, nullable=False),
    Column("project_id", TEXT, nullable=False),
    Column("caller_id", TEXT, nullable=False),
    Column("conversation", TEXT, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16, little-endian
    Column("shown", Text, nullable=False),
    Column("margin", Double),
    Column("weak", Boolean, nullable=False),
    Column("query", TEXT),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Index(None, "project_id", "at"),
    Index(None, "at", "search_id"),
)


usage_uses = Table(
    "usage_uses",
    metadata,
    Column("use_id", TEXT, primary_key=True),
    Column("search_id", TEXT, nullable=False),
    Column("at", TEXT, nullable=False),
    Column("project_id", TEXT, nullable=False),
    Column("tool", TEXT, nullable=False),
    Column("outcome", TEXT, nullable=False),
    Index(None, "search_id"),
    Index(None, "project_id", "at"),
)


# No foreign key, as for `usage_searches`.
detections = Table(
    "detections",
    metadata,
    Column("detection_id", TEXT, primary_key=True),
    Column("at", TEXT, nullable=False),
    Column("project_id", TEXT, nullable=False),
    Column("caller_id", TEXT, nullable=False),
    Column("conversation", TEXT, nullable=False),
    Column("door", TEXT, nullable=False),
    Column("outcome", TEXT, nullable=False),
    Column("stage", TEXT, nullable=False),
    Column("intent", TEXT, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("rival", TEXT, nullable=False),
    Column("rival_confidence", Double, nullable=False),
    Column("called", TEXT, nullable=False),
    Column("remembered", Boolean, nullable=False),
    Column("message", TEXT),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Index(None, "project_id", "at"),
    Index(None, "at", "detection_id"),
)
