"""The tables of the present schema, the same in every database.

Times are text in UTC (`2026-07-28T09:30:00.123Z`), so that they sort and read the same everywhere.
A change here needs a new file in `migrations/versions` and a new last entry of `REVISIONS`; a test
compares both.
"""

import json
import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

__all__ = [
    "REVISIONS",
    "VERSION_TABLE",
    "audit",
    "metadata",
    "projects",
    "results",
    "secrets",
    "servers",
    "snapshots",
    "versions",
]

REVISIONS = ("0001",)
"""Every schema that was ever released, oldest first; the last one is the present one."""

VERSION_TABLE = "toolgate_schema"
"""Where Alembic keeps the revision; a name of our own, since databases may be shared."""

_UNKEEPABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


class AnyText(TypeDecorator[str]):
    """Text that comes back exactly, whatever a client sent.

    PostgreSQL keeps no NUL, and neither database keeps half a surrogate pair, but JSON may hold
    both. They are written as SUB (U+001A) and four hex digits. Sorted by code point everywhere.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """PostgreSQL would sort by the language of the database otherwise."""
        collation = "C" if dialect.name == "postgresql" else None
        return dialect.type_descriptor(Text(collation=collation))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Escape what cannot be kept."""
        if value is None or _UNKEEPABLE.search(value) is None:
            return value
        return _UNKEEPABLE.sub(lambda found: f"\x1a{ord(found[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Undo the escapes."""
        if value is None or "\x1a" not in value:
            return value
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)


class JsonText(TypeDecorator[Any]):
    """JSON kept as ASCII text: read back as it was written, numbers of any size included."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        """What JSON does not know is written as text, so that one odd value loses no record."""
        return json.dumps(value, separators=(",", ":"), default=str)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """The value as it was."""
        return None if value is None else json.loads(value)


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
        AnyText,
        ForeignKey("projects.project_id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


projects = Table(
    "projects",
    metadata,
    Column("project_id", AnyText, primary_key=True),
    Column("created_at", AnyText, nullable=False),
)

servers = Table(
    "servers",
    metadata,
    Column("server_id", AnyText, primary_key=True),
    _project(),
    Column("name", AnyText, nullable=False),
    Column("config", JsonText, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("alias", AnyText),
    UniqueConstraint("project_id", "name"),
)

snapshots = Table(
    "snapshots",
    metadata,
    _project(primary_key=True),
    Column("server", AnyText, primary_key=True),
    Column("listing", LargeBinary, nullable=False),  # zlib
    Column("digest", AnyText, nullable=False),
    Column("listed_at", AnyText, nullable=False),
    Column("seen_at", AnyText, nullable=False),  # last time that its server was known to exist
)

results = Table(
    "results",
    metadata,
    Column("handle", AnyText, primary_key=True),
    _project(),
    Column("caller_id", AnyText, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("expires_at", AnyText, nullable=False),
    Index(None, "expires_at"),
)

# No foreign key: the audit outlives what it names.
audit = Table(
    "audit",
    metadata,
    Column("record_id", AnyText, primary_key=True),
    Column("at", AnyText, nullable=False),
    Column("action", AnyText, nullable=False),
    Column("phase", AnyText, nullable=False),
    Column("parent_id", AnyText),
    Column("project_id", AnyText, nullable=False),
    Column("caller_id", AnyText, nullable=False),
    Column("client", AnyText, nullable=False),
    Column("conversation", AnyText, nullable=False),
    Column("request_id", AnyText, nullable=False),
    Column("server", AnyText),
    Column("target", AnyText),
    Column("digest", AnyText),
    Column("query", AnyText),
    Column("status", AnyText, nullable=False),
    Column("duration_ms", Double),
    Column("request_bytes", BigInteger),
    Column("response_bytes", BigInteger),
    Column("arguments_sha256", AnyText),
    Column("response_sha256", AnyText),
    Column("detail", JsonText, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),  # estimate, for the limit on disk
    Index(None, "at", "record_id"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", AnyText, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("created_at", AnyText, nullable=False),
)

versions = Table(
    VERSION_TABLE,
    MetaData(),  # Alembic's own: not compared with the migrations
    Column("version_num", String(32), primary_key=True),
)
