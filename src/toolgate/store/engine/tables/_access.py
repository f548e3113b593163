"""Secrets, tokens, permissions, guards, credentials, approvals and sessions."""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from toolgate.store.engine.tables._base import TEXT, metadata

secrets = Table(
    "secrets",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("created_at", TEXT, nullable=False),
)


tokens = Table(
    "tokens",
    metadata,
    Column("token_id", TEXT, primary_key=True),
    Column("name", TEXT, nullable=False),
    Column("prefix", TEXT, nullable=False),  # what a person recognises it by
    Column("digest", TEXT, nullable=False),  # SHA-256, never the token itself
    Column("old_digest", TEXT),  # of the one before, until old_until
    Column("old_until", TEXT),
    Column("user_name", TEXT, nullable=False),
    Column("details", Text, nullable=False),  # projects, roles, groups, limits
    Column("created_at", TEXT, nullable=False),
    Column("expires_at", TEXT),
    Column("rotated_at", TEXT),
    Column("revoked_at", TEXT),
    Column("last_used_at", TEXT),
    UniqueConstraint("name"),
)


permissions = Table(
    "permissions",
    metadata,
    Column("permission_id", TEXT, primary_key=True),
    Column("effect", TEXT, nullable=False),
    Column("who", TEXT, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("pattern", TEXT, nullable=False),
    Column("hint", TEXT, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Index(None, "who"),
)


guards = Table(
    "guards",
    metadata,
    Column("guard_id", TEXT, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("created_at", TEXT, nullable=False),
)


# One row, incremented with each change of tokens, projects, rules and guards; replicas poll it.
access_state = Table(
    "access_state",
    metadata,
    Column("state_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)


# Usage counted against daily limits.
limit_days = Table(
    "limit_days",
    metadata,
    Column("day", TEXT, primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)


# A token bucket for each limit per minute; shared by replicas.
limit_minutes = Table(
    "limit_minutes",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("remaining", Double, nullable=False),
    Column("at", Double, nullable=False),  # seconds since 1970
)


# A running call, for each concurrency limit that it counts against.
limit_slots = Table(
    "limit_slots",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("call_id", TEXT, primary_key=True),
    Column("until", Double, nullable=False),  # seconds since 1970
    Index(None, "call_id"),
)


credential_keys = Table(
    "credential_keys",
    metadata,
    Column("key_id", TEXT, primary_key=True),
    Column("wrapped_by", TEXT, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", TEXT, nullable=False),
)


# No foreign key: servers from files have no row.
credentials = Table(
    "credentials",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("server", TEXT, primary_key=True),
    Column("subject", TEXT, primary_key=True),  # empty: of everybody
    Column("kind", TEXT, primary_key=True),
    Column("key_id", TEXT, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("shown", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("lease_by", TEXT, nullable=False),  # empty: nobody renews it
    Column("lease_until", TEXT, nullable=False),
    Column("updated_at", TEXT, nullable=False),
)


# No foreign key: decisions outlive what they refer to.
approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", TEXT, primary_key=True),
    Column("slot", TEXT),  # the binding while it is waiting, or decided and not used
    Column("binding", TEXT, nullable=False),
    Column("project_id", TEXT, nullable=False),
    Column("caller_id", TEXT, nullable=False),
    Column("who", TEXT, nullable=False),
    Column("client", TEXT, nullable=False),
    Column("conversation", TEXT, nullable=False),
    Column("tool", TEXT, nullable=False),
    Column("digest", TEXT, nullable=False),
    Column("arguments", TEXT, nullable=False),
    Column("arguments_sha256", TEXT, nullable=False),
    Column("reason", TEXT, nullable=False),
    Column("approver", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Column("expires_at", TEXT, nullable=False),
    Column("decided_at", TEXT),
    Column("decided_by", TEXT, nullable=False),
    Column("decided_via", TEXT, nullable=False),
    Column("comment", TEXT, nullable=False),
    Column("edited", TEXT),
    Column("used_at", TEXT),
    Column("step", Integer, nullable=False),
    Column("record_id", TEXT, nullable=False),
    UniqueConstraint("slot"),
    Index(None, "created_at", "approval_id"),
)


# Logins to the console.
sessions = Table(
    "sessions",
    metadata,
    Column("session_id", TEXT, primary_key=True),
    Column("caller_id", TEXT, nullable=False),
    Column("name", TEXT, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", TEXT, nullable=False),
    Column("seen_at", TEXT, nullable=False),
    Column("expires_at", TEXT, nullable=False),
    Column("address", TEXT, nullable=False),
    Column("agent", TEXT, nullable=False),
)
