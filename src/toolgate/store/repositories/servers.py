"""Servers that were added by command, API or console, as a store keeps them."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.types import Json

__all__ = ["ServerRepository", "StoredServer"]


@dataclass(frozen=True, kw_only=True)
class StoredServer:
    """A server that was added by command, API or console."""

    server_id: str
    """Opaque, time-sortable; survives a rename."""

    project_id: str
    """The tenant it belongs to."""

    name: str
    """Unique within the project."""

    config: Json
    """The same keys as a `[server.NAME]` table; `${env:NAME}` is kept as written."""

    enabled: bool = True
    """Whether it is connected."""

    alias: str | None = None
    """The name before the last rename; still understood in tool keys."""

    @property
    def is_override(self) -> bool:
        """Whether it is no server, but changes one that a file or a pack configures.

        Its `config` then has `override`, and of `enabled`, `tool_permissions` and `removed` those
        that differ.
        """
        return self.config.get("override") is True


class ServerRepository(Protocol):
    """Servers. Each method is one transaction."""

    async def select(self, project_id: str | None) -> list[StoredServer]:
        """Servers of a project by name; None: of all projects, by project and name."""
        ...

    async def save(self, server: StoredServer) -> None:
        """Insert, or replace the one with this `server_id`."""
        ...

    async def delete(self, server_id: str) -> bool:
        """Remove a server; False when there was none."""
        ...
