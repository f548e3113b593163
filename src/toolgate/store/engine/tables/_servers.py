"""Projects, servers, their tools, and stored results."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from toolgate.store.engine.tables._base import TEXT, metadata, project_column

projects = Table(
    "projects",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("created_at", TEXT, nullable=False),
    Column("settings", Text, nullable=False, server_default="{}"),
)


servers = Table(
    "servers",
    metadata,
    Column("server_id", TEXT, primary_key=True),
    project_column(),
    Column("name", TEXT, nullable=False),
    Column("config", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("alias", TEXT),
    UniqueConstraint("project_id", "name"),
)


snapshots = Table(
    "snapshots",
    metadata,
    project_column(primary_key=True),
    Column("server", TEXT, primary_key=True),
    Column("listing", LargeBinary, nullable=False),  # zlib
    Column("digest", TEXT, nullable=False),
    Column("listed_at", TEXT, nullable=False),
    Column("seen_at", TEXT, nullable=False),  # last time that its server was known to exist
)


results = Table(
    "results",
    metadata,
    Column("handle", TEXT, primary_key=True),
    project_column(),
    Column("caller_id", TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("expires_at", TEXT, nullable=False),
    Index(None, "expires_at"),
)


programs = Table(
    "programs",
    metadata,
    Column("program_id", TEXT, primary_key=True),
    project_column(),
    Column("caller_id", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Column("expires_at", TEXT, nullable=False),
    Index(None, "expires_at"),
)


tool_texts = Table(
    "tool_texts",
    metadata,
    project_column(primary_key=True),
    Column("server", TEXT, primary_key=True),
    Column("tool", TEXT, primary_key=True),
    Column("text_hash", LargeBinary, nullable=False),
    Column("description", TEXT, nullable=False),
    Column("enriched", TEXT, nullable=False),  # the text that was embedded
    Column("definition_hash", TEXT, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Column("updated_at", TEXT, nullable=False),
    Index(None, "text_hash"),
)


# No foreign key: servers from files have no row.
seen_entries = Table(
    "seen_entries",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("server", TEXT, primary_key=True),
    Column("kind", TEXT, primary_key=True),  # tool, prompt, resource, template, instructions
    Column("name", TEXT, primary_key=True),
    Column("digest", TEXT, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # zlib
    Column("accepted_digest", TEXT, nullable=False),  # empty: none was accepted yet
    Column("accepted", LargeBinary, nullable=False),  # zlib
    Column("state", TEXT, nullable=False),
    Column("findings", Text, nullable=False),
    Column("seen_at", TEXT, nullable=False),
    Column("decided_at", TEXT, nullable=False),
    Column("decided_by", TEXT, nullable=False),
)


# Definitions from `seen_entries` that a server has replaced.
tool_versions = Table(
    "tool_versions",
    metadata,
    Column("version_id", TEXT, primary_key=True),
    Column("project_id", TEXT, nullable=False),
    Column("server", TEXT, nullable=False),
    Column("tool", TEXT, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # zlib
    Column("state", TEXT, nullable=False),
    Column("seen_at", TEXT, nullable=False),
    Column("replaced_at", TEXT, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Index(None, "project_id", "server", "tool"),
    Index(None, "replaced_at", "version_id"),
)
