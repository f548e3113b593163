"""The tables of the present schema, the same in every database.

Times are text in UTC (`2026-07-28T09:30:00.123Z`), so that they sort and read the same everywhere.
What texts and JSON look like inside is the matter of `_rows`. A change here needs a new file in
`migrations/versions` and a new last entry of `REVISIONS`; a test compares both.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

__all__ = [
    "AUDIT_COMMON",
    "REVISIONS",
    "VERSION_TABLE",
    "access_state",
    "approvals",
    "audit",
    "audit_anchors",
    "audit_failed",
    "audit_outcome",
    "audit_rest",
    "audit_state",
    "credential_keys",
    "credentials",
    "detections",
    "document_collections",
    "documents",
    "guards",
    "metadata",
    "passage_vectors",
    "passages",
    "permissions",
    "projects",
    "prompt_versions",
    "results",
    "schema_versions",
    "secrets",
    "seen_tools",
    "servers",
    "sessions",
    "snapshots",
    "statements",
    "thread_artifacts",
    "thread_messages",
    "thread_spending",
    "threads",
    "tokens",
    "tool_texts",
    "tool_versions",
    "usage_searches",
    "usage_uses",
    "vector_models",
    "vectors",
    "versions",
]

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0013",
    "0012",
    "0011",
    "0014",
    "0015",
    "0016",
    "0017",
    "0018",
)
"""Every schema that was ever released, oldest first; the last one is the present one."""

VERSION_TABLE = "toolgate_schema"
"""Where Alembic keeps the revision; a name of our own, since databases may be shared."""

# Sorted by code point; PostgreSQL would sort by the language of the database.
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _project(*, primary_key: bool = False) -> Column[str]:
    return Column(
        "project_id",
        _TEXT,
        ForeignKey("projects.project_id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


projects = Table(
    "projects",
    metadata,
    Column("project_id", _TEXT, primary_key=True),
    Column("created_at", _TEXT, nullable=False),
    Column("settings", Text, nullable=False, server_default="{}"),
)

servers = Table(
    "servers",
    metadata,
    Column("server_id", _TEXT, primary_key=True),
    _project(),
    Column("name", _TEXT, nullable=False),
    Column("config", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("alias", _TEXT),
    UniqueConstraint("project_id", "name"),
)

snapshots = Table(
    "snapshots",
    metadata,
    _project(primary_key=True),
    Column("server", _TEXT, primary_key=True),
    Column("listing", LargeBinary, nullable=False),  # zlib
    Column("digest", _TEXT, nullable=False),
    Column("listed_at", _TEXT, nullable=False),
    Column("seen_at", _TEXT, nullable=False),  # last time that its server was known to exist
)

results = Table(
    "results",
    metadata,
    Column("handle", _TEXT, primary_key=True),
    _project(),
    Column("caller_id", _TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("expires_at", _TEXT, nullable=False),
    Index(None, "expires_at"),
)

# No foreign key: the audit outlives what it names.
audit = Table(
    "audit",
    metadata,
    Column("record_id", _TEXT, primary_key=True),
    Column("at", _TEXT, nullable=False),
    Column("action", _TEXT, nullable=False),
    Column("phase", _TEXT, nullable=False),
    Column("parent_id", _TEXT),
    Column("project_id", _TEXT, nullable=False),
    Column("caller_id", _TEXT, nullable=False),
    Column("client", _TEXT, nullable=False),
    Column("conversation", _TEXT, nullable=False),
    Column("request_id", _TEXT, nullable=False),
    Column("server", _TEXT),
    Column("target", _TEXT),
    Column("digest", _TEXT),
    Column("query", _TEXT),
    Column("status", _TEXT, nullable=False),
    Column("duration_ms", Double),
    Column("request_bytes", BigInteger),
    Column("response_bytes", BigInteger),
    Column("arguments_sha256", _TEXT),
    Column("response_sha256", _TEXT),
    Column("detail", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Column("seq", BigInteger),  # None: written before there was a chain
    Column("chain", _TEXT),
    Index(None, "at", "record_id"),
    Index(None, "seq", unique=True),
)

AUDIT_COMMON = {"status": "ok", "action": "call", "project_id": "default", "caller_id": "local"}
"""What most records say; what the others say is in small indexes. See `_audit_find`."""


def audit_rest(name: str) -> ColumnElement[bool]:
    """That a record does not say what most do."""
    return audit.c[name] != text(f"'{AUDIT_COMMON[name]}'")


def audit_outcome() -> ColumnElement[bool]:
    """That a record says how something ended: what people list."""
    return audit.c.phase == text("'outcome'")


def audit_failed() -> ColumnElement[bool]:
    """That a record says that something failed."""
    return literal_column("status NOT IN ('ok', 'input_required')")


Index(
    "ix_audit_failed",
    audit.c.server,
    audit.c.at,
    audit.c.record_id,
    sqlite_where=audit_failed(),
    postgresql_where=audit_failed(),
)

for _name in ("server", "target"):
    Index(
        f"ix_audit_{_name}",
        audit.c[_name],
        audit.c.at,
        audit.c.record_id,
        sqlite_where=audit_outcome(),
        postgresql_where=audit_outcome(),
    )

for _name in AUDIT_COMMON:
    Index(
        f"ix_audit_{_name}",
        audit.c[_name],
        audit.c.at,
        audit.c.record_id,
        sqlite_where=audit_rest(_name),
        postgresql_where=audit_rest(_name),
    )

# One row: where the chain of the audit ends, and where it begins since older records were removed.
audit_state = Table(
    "audit_state",
    metadata,
    Column("state_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("chain", _TEXT, nullable=False),
    Column("removed_seq", BigInteger, nullable=False),
    Column("removed_chain", _TEXT, nullable=False),
)

audit_anchors = Table(
    "audit_anchors",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", _TEXT, primary_key=True),
    Column("chain", _TEXT, nullable=False),
    Column("at", _TEXT, nullable=False),
    Column("key_id", _TEXT, nullable=False),
    Column("signature", _TEXT, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", _TEXT, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("created_at", _TEXT, nullable=False),
)

vector_models = Table(
    "vector_models",
    metadata,
    Column("model_id", Integer, primary_key=True, autoincrement=False),
    Column("model", _TEXT, nullable=False),
    Column("dim", Integer, nullable=False),
    Column("used_at", _TEXT, nullable=False),
    UniqueConstraint("model", "dim"),
)

# Read and written by `toolgate.store.vectors` in bulk, without SQLAlchemy.
vectors = Table(
    "vectors",
    metadata,
    Column(
        "model_id",
        Integer,
        ForeignKey("vector_models.model_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("text_hash", LargeBinary, primary_key=True),
    Column("vector", LargeBinary, nullable=False),  # float16, little-endian
    Column("stored_at", _TEXT, nullable=False),
)

tool_texts = Table(
    "tool_texts",
    metadata,
    _project(primary_key=True),
    Column("server", _TEXT, primary_key=True),
    Column("tool", _TEXT, primary_key=True),
    Column("text_hash", LargeBinary, nullable=False),
    Column("description", _TEXT, nullable=False),
    Column("enriched", _TEXT, nullable=False),  # the text that was embedded
    Column("definition_hash", _TEXT, nullable=False),
    Column("created_at", _TEXT, nullable=False),
    Column("updated_at", _TEXT, nullable=False),
    Index(None, "text_hash"),
)

# No foreign key: one row of a project that was just removed must not hold up a whole batch.
usage_searches = Table(
    "usage_searches",
    metadata,
    Column("search_id", _TEXT, primary_key=True),
    Column("at", _TEXT, nullable=False),
    Column("project_id", _TEXT, nullable=False),
    Column("caller_id", _TEXT, nullable=False),
    Column("conversation", _TEXT, nullable=False),
    Column("model", _TEXT, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16, little-endian
    Column("shown", Text, nullable=False),
    Column("margin", Double),
    Column("weak", Boolean, nullable=False),
    Column("query", _TEXT),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Index(None, "project_id", "at"),
    Index(None, "at", "search_id"),
)

usage_uses = Table(
    "usage_uses",
    metadata,
    Column("use_id", _TEXT, primary_key=True),
    Column("search_id", _TEXT, nullable=False),
    Column("at", _TEXT, nullable=False),
    Column("project_id", _TEXT, nullable=False),
    Column("tool", _TEXT, nullable=False),
    Column("outcome", _TEXT, nullable=False),
    Index(None, "search_id"),
    Index(None, "project_id", "at"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", _TEXT, primary_key=True),
    Column("name", _TEXT, nullable=False),
    Column("prefix", _TEXT, nullable=False),  # what a person recognises it by
    Column("digest", _TEXT, nullable=False),  # SHA-256, never the token itself
    Column("old_digest", _TEXT),  # of the one before, until old_until
    Column("old_until", _TEXT),
    Column("user_name", _TEXT, nullable=False),
    Column("details", Text, nullable=False),  # projects, roles, groups, limits
    Column("created_at", _TEXT, nullable=False),
    Column("expires_at", _TEXT),
    Column("rotated_at", _TEXT),
    Column("revoked_at", _TEXT),
    Column("last_used_at", _TEXT),
    UniqueConstraint("name"),
)

permissions = Table(
    "permissions",
    metadata,
    Column("permission_id", _TEXT, primary_key=True),
    Column("effect", _TEXT, nullable=False),
    Column("who", _TEXT, nullable=False),
    Column("kind", _TEXT, nullable=False),
    Column("pattern", _TEXT, nullable=False),
    Column("hint", _TEXT, nullable=False),
    Column("created_at", _TEXT, nullable=False),
    Index(None, "who"),
)

guards = Table(
    "guards",
    metadata,
    Column("guard_id", _TEXT, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("created_at", _TEXT, nullable=False),
)

# One row, counted up with each change of tokens, projects, rules and guards: replicas look at it.
access_state = Table(
    "access_state",
    metadata,
    Column("state_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# No foreign key: connections belong to files, and what was seen outlives them.
schema_versions = Table(
    "schema_versions",
    metadata,
    Column("version_id", _TEXT, primary_key=True),
    Column("project_id", _TEXT, nullable=False),
    Column("connection", _TEXT, nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", _TEXT, nullable=False),
    Column("at", _TEXT, nullable=False),
    Column("seen_at", _TEXT, nullable=False),  # last time that the database had this schema
    Column("content", LargeBinary, nullable=False),  # zlib
    Column("changes", LargeBinary, nullable=False),  # zlib
    Column("size_bytes", BigInteger, nullable=False),
    UniqueConstraint("project_id", "connection", "number"),
)

# No foreign key, as for `usage_searches`.
detections = Table(
    "detections",
    metadata,
    Column("detection_id", _TEXT, primary_key=True),
    Column("at", _TEXT, nullable=False),
    Column("project_id", _TEXT, nullable=False),
    Column("caller_id", _TEXT, nullable=False),
    Column("conversation", _TEXT, nullable=False),
    Column("door", _TEXT, nullable=False),
    Column("outcome", _TEXT, nullable=False),
    Column("stage", _TEXT, nullable=False),
    Column("intent", _TEXT, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("rival", _TEXT, nullable=False),
    Column("rival_confidence", Double, nullable=False),
    Column("called", _TEXT, nullable=False),
    Column("remembered", Boolean, nullable=False),
    Column("message", _TEXT),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Index(None, "project_id", "at"),
    Index(None, "at", "detection_id"),
)

# No foreign key: servers of files have no row.
seen_tools = Table(
    "seen_tools",
    metadata,
    Column("project_id", _TEXT, primary_key=True),
    Column("server", _TEXT, primary_key=True),
    Column("tool", _TEXT, primary_key=True),
    Column("digest", _TEXT, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # zlib
    Column("accepted_digest", _TEXT, nullable=False),  # empty: none was accepted yet
    Column("accepted", LargeBinary, nullable=False),  # zlib
    Column("state", _TEXT, nullable=False),
    Column("findings", Text, nullable=False),
    Column("seen_at", _TEXT, nullable=False),
    Column("decided_at", _TEXT, nullable=False),
    Column("decided_by", _TEXT, nullable=False),
)

# What was in `seen_tools` before a server changed a tool.
tool_versions = Table(
    "tool_versions",
    metadata,
    Column("version_id", _TEXT, primary_key=True),
    Column("project_id", _TEXT, nullable=False),
    Column("server", _TEXT, nullable=False),
    Column("tool", _TEXT, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # zlib
    Column("state", _TEXT, nullable=False),
    Column("seen_at", _TEXT, nullable=False),
    Column("replaced_at", _TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Index(None, "project_id", "server", "tool"),
    Index(None, "replaced_at", "version_id"),
)

credential_keys = Table(
    "credential_keys",
    metadata,
    Column("key_id", _TEXT, primary_key=True),
    Column("wrapped_by", _TEXT, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", _TEXT, nullable=False),
)

# No foreign key: servers of files have no row.
credentials = Table(
    "credentials",
    metadata,
    Column("project_id", _TEXT, primary_key=True),
    Column("server", _TEXT, primary_key=True),
    Column("subject", _TEXT, primary_key=True),  # empty: of everybody
    Column("kind", _TEXT, primary_key=True),
    Column("key_id", _TEXT, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("shown", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("lease_by", _TEXT, nullable=False),  # empty: nobody renews it
    Column("lease_until", _TEXT, nullable=False),
    Column("updated_at", _TEXT, nullable=False),
)

# No foreign key: what was decided outlives what it names.
approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", _TEXT, primary_key=True),
    Column("slot", _TEXT),  # the binding while it is waiting, or decided and not used
    Column("binding", _TEXT, nullable=False),
    Column("project_id", _TEXT, nullable=False),
    Column("caller_id", _TEXT, nullable=False),
    Column("who", _TEXT, nullable=False),
    Column("client", _TEXT, nullable=False),
    Column("conversation", _TEXT, nullable=False),
    Column("tool", _TEXT, nullable=False),
    Column("digest", _TEXT, nullable=False),
    Column("arguments", _TEXT, nullable=False),
    Column("arguments_sha256", _TEXT, nullable=False),
    Column("reason", _TEXT, nullable=False),
    Column("approver", _TEXT, nullable=False),
    Column("state", _TEXT, nullable=False),
    Column("created_at", _TEXT, nullable=False),
    Column("expires_at", _TEXT, nullable=False),
    Column("decided_at", _TEXT),
    Column("decided_by", _TEXT, nullable=False),
    Column("decided_via", _TEXT, nullable=False),
    Column("comment", _TEXT, nullable=False),
    Column("edited", _TEXT),
    Column("used_at", _TEXT),
    Column("step", Integer, nullable=False),
    Column("record_id", _TEXT, nullable=False),
    UniqueConstraint("slot"),
    Index(None, "created_at", "approval_id"),
)

document_collections = Table(
    "document_collections",
    metadata,
    Column("collection_id", _TEXT, primary_key=True),
    _project(),
    Column("name", _TEXT, nullable=False),
    Column("name_key", _TEXT, nullable=False),  # without case
    Column("alias", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("model", _TEXT, nullable=False),
    Column("model_identity", _TEXT, nullable=False),
    Column("dim", Integer, nullable=False),
    Column("metric", _TEXT, nullable=False),
    Column("place", _TEXT, nullable=False),
    Column("shelf_id", _TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", _TEXT, nullable=False),
    UniqueConstraint("project_id", "name_key"),
)


def _collection() -> Column[str]:
    return Column(
        "collection_id",
        _TEXT,
        ForeignKey("document_collections.collection_id", ondelete="CASCADE"),
        nullable=False,
    )


_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # there the number of the row

documents = Table(
    "documents",
    metadata,
    Column("document_id", _TEXT, primary_key=True),
    _collection(),
    Column("origin", _TEXT, nullable=False),
    Column("source", _TEXT, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", _TEXT, nullable=False),
    Column("content_hash", _TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("added_at", _TEXT, nullable=False),
    UniqueConstraint("collection_id", "origin", "source"),
)

passages = Table(
    "passages",
    metadata,
    Column("passage_id", _NUMBER, primary_key=True, autoincrement=False),
    _collection(),
    Column(
        "document_id",
        _TEXT,
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

# No foreign key to passages: vectors are written before what they are of can be found.
passage_vectors = Table(
    "passage_vectors",
    metadata,
    Column("shelf_id", _TEXT, primary_key=True),
    Column("passage_id", _NUMBER, primary_key=True, autoincrement=False),
    _collection(),
    Column("document_id", _TEXT, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Index(None, "document_id"),
    Index(None, "collection_id"),
)

versions = Table(
    VERSION_TABLE,
    MetaData(),  # Alembic's own: not compared with the migrations
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

# Who has logged in to the console.
sessions = Table(
    "sessions",
    metadata,
    Column("session_id", _TEXT, primary_key=True),
    Column("caller_id", _TEXT, nullable=False),
    Column("name", _TEXT, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", _TEXT, nullable=False),
    Column("seen_at", _TEXT, nullable=False),
    Column("expires_at", _TEXT, nullable=False),
    Column("address", _TEXT, nullable=False),
    Column("agent", _TEXT, nullable=False),
)

# What was asked of connected databases.
statements = Table(
    "statements",
    metadata,
    Column("statement_id", _TEXT, primary_key=True),
    Column("at", _TEXT, nullable=False),
    _project(),
    Column("caller_id", _TEXT, nullable=False),
    Column("conversation", _TEXT, nullable=False),
    Column("connection", _TEXT, nullable=False),
    Column("dialect", _TEXT, nullable=False),
    Column("tool", _TEXT, nullable=False),
    Column("statement", Text, nullable=False),
    Column("outcome", _TEXT, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rows", Integer),
    Column("elapsed_ms", Double),
    Column("size_bytes", Integer, nullable=False),
    Index(None, "at", "statement_id"),
    Index(None, "project_id", "caller_id", "at"),
)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", _TEXT, primary_key=True),
    _project(),
    Column("caller_id", _TEXT, nullable=False),
    Column("name", _TEXT, nullable=False),
    Column("settings", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("last_number", Integer, nullable=False),
    Column("running", _TEXT, nullable=False),  # the turn that has the right to; empty: none
    Column("running_until", _TEXT, nullable=False),
    Column("created_at", _TEXT, nullable=False),
    Column("used_at", _TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    UniqueConstraint("project_id", "caller_id", "name"),
    Index(None, "used_at", "thread_id"),
)


def _thread(*, primary_key: bool = False) -> Column[str]:
    return Column(
        "thread_id",
        _TEXT,
        ForeignKey("threads.thread_id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


# Only ever added to: what a prompt leaves out is decided when it is built.
thread_messages = Table(
    "thread_messages",
    metadata,
    _thread(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", _TEXT, nullable=False),
    Column("role", _TEXT, nullable=False),
    Column("body", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("at", _TEXT, nullable=False),
)

thread_artifacts = Table(
    "thread_artifacts",
    metadata,
    Column("artifact_id", _TEXT, primary_key=True),
    _thread(),
    Column("turn_id", _TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),  # zlib
    Index(None, "thread_id", "turn_id"),
)

thread_spending = Table(
    "thread_spending",
    metadata,
    _thread(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", _TEXT, nullable=False),
    Column("purpose", _TEXT, nullable=False),
    Column("model", _TEXT, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("cached_tokens", Integer, nullable=False),
    Column("cost", Double, nullable=False),
    Column("is_estimate", Boolean, nullable=False),
    Column("at", _TEXT, nullable=False),
)

prompt_versions = Table(
    "prompt_versions",
    metadata,
    _project(primary_key=True),
    Column("name", _TEXT, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text),
    Column("changed_at", _TEXT, nullable=False),
    Column("changed_by", _TEXT, nullable=False),
)
