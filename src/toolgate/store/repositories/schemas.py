"""Versions of the schemas of connected databases, as a store keeps them."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SchemaRepository", "StoredSchema"]


@dataclass(frozen=True, kw_only=True)
class StoredSchema:
    """A version of the schema of a connected database."""

    project_id: str
    """The tenant."""

    connection: str
    """Name of the connection."""

    number: int
    """Counts the versions of the connection, from 1."""

    digest: str
    """Hash of the schema; equal schemas have equal ones."""

    at: str
    """When it was seen first; UTC, ISO 8601."""

    seen_at: str
    """When it was seen last; UTC, ISO 8601."""

    content: bytes = b""
    """The schema, JSON. Compressed by the store; empty in lists."""

    changes: bytes = b""
    """What it changed in the version before, JSON. Compressed by the store."""


class SchemaRepository(Protocol):
    """Versions of schemas. Each method is one transaction."""

    async def latest(self, project_id: str, connection: str) -> StoredSchema | None:
        """The last version of the schema of a connection, with its content."""
        ...

    async def versions(self, project_id: str, connection: str, *, limit: int) -> list[StoredSchema]:
        """Versions of the schema of a connection without their content, newest first."""
        ...

    async def add(self, schema: StoredSchema) -> bool:
        """Add a version; False when this number exists: another process was faster."""
        ...

    async def mark_seen(self, project_id: str, connection: str, number: int, at: str) -> None:
        """Note that a version was seen again; an earlier time changes nothing."""
        ...
