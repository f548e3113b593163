"""Listings of servers and the definitions in them, as a store keeps them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolgate.store.repositories.tool_texts import ToolTextRepository
from toolgate.types import EntryKind

__all__ = ["CatalogRepository", "Fingerprint", "StoredSnapshot", "ToolVersion"]


@dataclass(frozen=True, kw_only=True)
class StoredSnapshot:
    """The last listing of one server, so that a restart shows its tools at once."""

    project_id: str
    """The tenant."""

    server: str
    """Name of the server."""

    listing: bytes
    """JSON: tools, resources, templates, prompts, capabilities, era. Compressed by the store."""

    digest: str
    """SHA-256 of the listing; an unchanged one is not written again."""

    listed_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """A definition of a server as it was seen last, beside what was accepted of it."""

    project_id: str
    """The tenant."""

    server: str
    """Name of its server."""

    name: str
    """Its name on that server; for resources the URI, for templates the URI template."""

    digest: str
    """Of the definition that was seen last."""

    definition: bytes
    """As the server sent it last, JSON. Compressed by the store."""

    kind: EntryKind = "tool"
    """What it is the definition of."""

    accepted_digest: str = ""
    """Of the definition that callers may see and use; empty: none yet."""

    accepted: bytes = b""
    """That definition, JSON. Compressed by the store."""

    state: Literal["accepted", "held", "rejected"] = "accepted"
    """What holds for the definition that was seen last; `held`: nobody has decided yet."""

    findings: str = "[]"
    """What is suspicious about it, JSON."""

    seen_at: str = ""
    """When this definition was seen first; UTC, ISO 8601."""

    decided_at: str = ""
    """When somebody decided; UTC, ISO 8601; empty: nobody did."""

    decided_by: str = ""
    """Who decided."""


@dataclass(frozen=True, kw_only=True)
class ToolVersion:
    """A definition of a tool that its server has replaced by another."""

    definition: bytes
    """As the server sent it, JSON. Compressed by the store."""

    state: Literal["accepted", "held", "rejected"]
    """What held for it last."""

    seen_at: str
    """When it was seen first; UTC, ISO 8601."""

    replaced_at: str
    """When another one came in its place; UTC, ISO 8601."""


class CatalogRepository(Protocol):
    """The last listing of each server, and the definitions in it as they were seen.

    Each method is one transaction.
    """

    @property
    def texts(self) -> ToolTextRepository:
        """Which tool has which embedded text."""
        ...

    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        """The last listing of every server of a project."""
        ...

    async def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Insert or replace by project and server; skipped when the digest is the stored one."""
        ...

    async def delete_snapshot(self, project_id: str, server: str) -> None:
        """Remove the listing of a server."""
        ...

    async def fingerprints(self, project_id: str, server: str | None = None) -> list[Fingerprint]:
        """Definitions as they were last seen, of a server or of all, by server, kind and name."""
        ...

    async def save_fingerprints(
        self, fingerprints: Sequence[Fingerprint], *, changed: Collection[str] = ()
    ) -> None:
        """Write definitions as they were seen, over what is there; all or nothing.

        One with `decided_at` counts as a change in `AccessRepository.version`.

        Args:
            fingerprints: The definitions.
            changed: Names of tools of one server that may have had another definition: it is kept
                as a version, the newest 20 of each tool.
        """
        ...

    async def delete_fingerprints(self, project_id: str, server: str) -> None:
        """Remove the definitions of a server, and the versions of its tools."""
        ...

    async def tool_versions(self, project_id: str, server: str, tool: str) -> list[ToolVersion]:
        """Definitions of a tool that were replaced, the last replaced first."""
        ...
