"""Stored servers: those added by command, API or console."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class StoredServer:
    """A server that was added by command, API or console."""

    server_id: str
    """Opaque id, sortable by time; stays when the server is renamed."""

    project_id: str
    """The project."""

    name: str
    """Unique within the project."""

    config: Json
    """The keys of a `[server.NAME]` table; `${env:NAME}` is stored as written."""

    enabled: bool = True
    """Whether it is used."""

    alias: str | None = None
    """The previous name after a rename, still accepted in tool keys."""

    @property
    def is_override(self) -> bool:
        """Whether it is not a server, but overrides one from a file or a pack.

        Its `config` then contains `override`, and the changed keys of `enabled`,
        `tool_permissions` and `removed`.
        """
        return self.config.get("override") is True


class ServerRepository(Protocol):
    """Servers. Each method is one transaction."""

    async def select(self, project_id: str | None) -> list[StoredServer]:
        """Servers of a project by name; None: of all projects, by project and name."""
        ...

    async def save(self, server: StoredServer) -> None:
        """Insert or replace by `server_id`."""
        ...

    async def delete(self, server_id: str) -> bool:
        """Delete a server. False if it does not exist."""
        ...
