"""Chat threads and prompts."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from toolgate.store.engine.tables._base import TEXT, metadata, project_column

threads = Table(
    "threads",
    metadata,
    Column("thread_id", TEXT, primary_key=True),
    project_column(),
    Column("caller_id", TEXT, nullable=False),
    Column("name", TEXT, nullable=False),
    Column("settings", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("last_number", Integer, nullable=False),
    Column("running", TEXT, nullable=False),  # the turn that has the right to; empty: none
    Column("running_until", TEXT, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Column("used_at", TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    UniqueConstraint("project_id", "caller_id", "name"),
    Index(None, "used_at", "thread_id"),
)


def _thread_column(*, primary_key: bool = False) -> Column[str]:
    return Column(
        "thread_id",
        TEXT,
        ForeignKey("threads.thread_id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


# Append-only: what a prompt leaves out is decided when it is built.
thread_messages = Table(
    "thread_messages",
    metadata,
    _thread_column(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", TEXT, nullable=False),
    Column("role", TEXT, nullable=False),
    Column("body", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("at", TEXT, nullable=False),
)


thread_artifacts = Table(
    "thread_artifacts",
    metadata,
    Column("artifact_id", TEXT, primary_key=True),
    _thread_column(),
    Column("turn_id", TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),  # zlib
    Index(None, "thread_id", "turn_id"),
)


thread_spending = Table(
    "thread_spending",
    metadata,
    _thread_column(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", TEXT, nullable=False),
    Column("purpose", TEXT, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("cached_tokens", Integer, nullable=False),
    Column("cost", Double, nullable=False),
    Column("is_estimate", Boolean, nullable=False),
    Column("at", TEXT, nullable=False),
)


prompt_versions = Table(
    "prompt_versions",
    metadata,
    project_column(primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text),
    Column("changed_at", TEXT, nullable=False),
    Column("changed_by", TEXT, nullable=False),
)
