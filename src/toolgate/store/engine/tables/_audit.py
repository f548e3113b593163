"""The audit log, and the histories of statements and database schemas."""

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

from toolgate.store.engine.tables._base import TEXT, metadata, project_column

# No foreign key: the audit log outlives what it refers to.
audit = Table(
    "audit",
    metadata,
    Column("record_id", TEXT, primary_key=True),
    Column("at", TEXT, nullable=False),
    Column("action", TEXT, nullable=False),
    Column("phase", TEXT, nullable=False),
    Column("parent_id", TEXT),
    Column("project_id", TEXT, nullable=False),
    Column("caller_id", TEXT, nullable=False),
    Column("client", TEXT, nullable=False),
    Column("conversation", TEXT, nullable=False),
    Column("request_id", TEXT, nullable=False),
    Column("server", TEXT),
    Column("target", TEXT),
    Column("digest", TEXT),
    Column("query", TEXT),
    Column("status", TEXT, nullable=False),
    Column("duration_ms", Double),
    Column("request_bytes", BigInteger),
    Column("response_bytes", BigInteger),
    Column("arguments_sha256", TEXT),
    Column("response_sha256", TEXT),
    Column("detail", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Column("seq", BigInteger),  # None: written before there was a chain
    Column("chain", TEXT),
    Index(None, "at", "record_id"),
    Index(None, "seq", unique=True),
)


AUDIT_COMMON = {"status": "ok", "action": "call", "project_id": "default", "caller_id": "local"}
"""Values of most records; records with other values are in small partial indexes. See
`_audit_find`."""


def audit_rest(name: str) -> ColumnElement[bool]:
    """The condition that a column does not have its common value."""
    return audit.c[name] != text(f"'{AUDIT_COMMON[name]}'")


def audit_outcome() -> ColumnElement[bool]:
    """The condition that a record is an outcome, which is what people list."""
    return audit.c.phase == text("'outcome'")


def audit_failed() -> ColumnElement[bool]:
    """The condition that a record is a failure."""
    return literal_column("status NOT IN ('ok', 'input_required')")


Index(
    "ix_audit_failed",
    audit.c.server,
    audit.c.at,
    audit.c.record_id,
    sqlite_where=audit_failed(),
)


for _name in ("server", "target"):
    Index(
        f"ix_audit_{_name}",
        audit.c[_name],
        audit.c.at,
        audit.c.record_id,
        sqlite_where=audit_outcome(),
    )


for _name in AUDIT_COMMON:
    Index(
        f"ix_audit_{_name}",
        audit.c[_name],
        audit.c.at,
        audit.c.record_id,
        sqlite_where=audit_rest(_name),
    )


# One row: the end of the audit chain, and its start after older records were deleted.
audit_state = Table(
    "audit_state",
    metadata,
    Column("state_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("chain", TEXT, nullable=False),
    Column("removed_seq", BigInteger, nullable=False),
    Column("removed_chain", TEXT, nullable=False),
)


audit_anchors = Table(
    "audit_anchors",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", TEXT, primary_key=True),
    Column("chain", TEXT, nullable=False),
    Column("at", TEXT, nullable=False),
    Column("key_id", TEXT, nullable=False),
    Column("signature", TEXT, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
)


# The processes that write records, while they run; a killed process leaves its row behind.
audit_writers = Table(
    "audit_writers",
    metadata,
    Column("writer_id", TEXT, primary_key=True),
    Column("started_at", TEXT, nullable=False),
    Column("seen_at", TEXT, nullable=False),
)


# No foreign key: connections belong to files, and their history outlives them.
schema_versions = Table(
    "schema_versions",
    metadata,
    Column("version_id", TEXT, primary_key=True),
    Column("project_id", TEXT, nullable=False),
    Column("connection", TEXT, nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", TEXT, nullable=False),
    Column("at", TEXT, nullable=False),
    Column("seen_at", TEXT, nullable=False),  # last time that the database had this schema
    Column("content", LargeBinary, nullable=False),  # zlib
    Column("changes", LargeBinary, nullable=False),  # zlib
    Column("size_bytes", BigInteger, nullable=False),
    UniqueConstraint("project_id", "connection", "number"),
)


# SQL statements run on connected databases.
statements = Table(
    "statements",
    metadata,
    Column("statement_id", TEXT, primary_key=True),
    Column("at", TEXT, nullable=False),
    project_column(),
    Column("caller_id", TEXT, nullable=False),
    Column("conversation", TEXT, nullable=False),
    Column("connection", TEXT, nullable=False),
    Column("dialect", TEXT, nullable=False),
    Column("tool", TEXT, nullable=False),
    Column("statement", Text, nullable=False),
    Column("outcome", TEXT, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rows", Integer),
    Column("elapsed_ms", Double),
    Column("size_bytes", Integer, nullable=False),
    Index(None, "at", "statement_id"),
    Index(None, "project_id", "caller_id", "at"),
)
