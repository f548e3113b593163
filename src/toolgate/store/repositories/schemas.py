"""Stored versions of the schemas of connected databases."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredSchema:
    """A version of the schema of a connected database."""

    project_id: str
    """The project."""

    connection: str
    """Name of the connection."""

    number: int
    """Version number within the connection, from 1."""

    digest: str
    """Hash of the schema; equal for equal schemas."""

    at: str
    """When it was first seen; UTC, ISO 8601."""

    seen_at: str
    """When it was last seen; UTC, ISO 8601."""

    content: bytes = b""
    """The schema as JSON. The store compresses it; empty in lists."""

    changes: bytes = b""
    """Changes from the previous version as JSON. The store compresses it."""


class SchemaRepository(Protocol):
    """Versions of schemas. Each method is one transaction."""

    async def latest(self, project_id: str, connection: str) -> StoredSchema | None:
        """The latest schema of a connection, with its content."""
        ...

    async def versions(self, project_id: str, connection: str, *, limit: int) -> list[StoredSchema]:
        """Schema versions of a connection without their content, newest first."""
        ...

    async def add(self, schema: StoredSchema) -> bool:
        """Add a version. False if another process has added this number."""
        ...

    async def mark_seen(self, project_id: str, connection: str, number: int, at: str) -> None:
        """Set when a version was last seen; earlier times are ignored."""
        ...
