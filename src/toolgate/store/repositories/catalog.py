"""Stored listings of servers and the definitions in them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolgate.store.repositories.tool_texts import ToolTextRepository
from toolgate.types import EntryKind


@dataclass(frozen=True, kw_only=True)
class StoredSnapshot:
    """The last listing of a server, which makes its tools available right after a restart."""

    project_id: str
    """The project."""

    server: str
    """Name of the server."""

    listing: bytes
    """JSON: tools, resources, templates, prompts, capabilities, era. The store compresses it."""

    digest: str
    """SHA-256 of the listing; an unchanged listing is not written again."""

    listed_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """The last seen and the accepted definition of a tool or other entry of a server."""

    project_id: str
    """The project."""

    server: str
    """Name of its server."""

    name: str
    """Its name on the server; the URI of a resource, or the URI template of a template."""

    digest: str
    """Digest of the last seen definition."""

    definition: bytes
    """The last seen definition as JSON. The store compresses it."""

    kind: EntryKind = "tool"
    """Kind of the entry."""

    accepted_digest: str = ""
    """Digest of the accepted definition, which callers may use; empty: none yet."""

    accepted: bytes = b""
    """The accepted definition as JSON. The store compresses it."""

    state: Literal["accepted", "held", "rejected"] = "accepted"
    """State of the last seen definition; `held`: awaiting a decision."""

    findings: str = "[]"
    """Findings of the scanner, JSON."""

    seen_at: str = ""
    """When this definition was first seen; UTC, ISO 8601."""

    decided_at: str = ""
    """Time of the decision; UTC, ISO 8601; empty: none."""

    decided_by: str = ""
    """The person who decided."""


@dataclass(frozen=True, kw_only=True)
class ToolVersion:
    """A definition of a tool that its server has replaced."""

    definition: bytes
    """The definition as JSON. The store compresses it."""

    state: Literal["accepted", "held", "rejected"]
    """Its last state."""

    seen_at: str
    """When it was first seen; UTC, ISO 8601."""

    replaced_at: str
    """When it was replaced; UTC, ISO 8601."""


class CatalogRepository(Protocol):
    """The last listing of each server, and its last seen definitions.

    Each method is one transaction.
    """

    @property
    def texts(self) -> ToolTextRepository:
        """The embedded text of each tool."""
        ...

    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        """The last listing of every server of a project."""
        ...

    async def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Insert or replace by project and server; skipped if the digest is unchanged."""
        ...

    async def delete_snapshot(self, project_id: str, server: str) -> None:
        """Delete the listing of a server."""
        ...

    async def fingerprints(self, project_id: str, server: str | None = None) -> list[Fingerprint]:
        """Last seen definitions of a server or of all, by server, kind and name."""
        ...

    async def servers_seen_by(self, project_id: str, moment: str) -> frozenset[str]:
        """Names of the servers with a last seen definition that was first seen by `moment`.

        `moment` is in UTC, ISO 8601.
        """
        ...

    async def save_fingerprints(
        self, fingerprints: Sequence[Fingerprint], *, changed: Collection[str] = ()
    ) -> None:
        """Write last seen definitions, all or nothing.

        Those with `decided_at` count as a change in `AccessRepository.version`.

        Args:
            fingerprints: The definitions.
            changed: Names of tools of one server whose definition may have changed: the previous
                one is kept as a version, up to 20 per tool.
        """
        ...

    async def delete_fingerprints(self, project_id: str, server: str) -> None:
        """Delete the definitions of a server and the versions of its tools."""
        ...

    async def tool_versions(self, project_id: str, server: str, tool: str) -> list[ToolVersion]:
        """Replaced definitions of a tool, most recently replaced first."""
        ...
