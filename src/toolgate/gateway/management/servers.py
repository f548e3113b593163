"""Adds, changes and removes servers while the gateway runs."""

import logging
from collections.abc import Callable, Mapping, Sequence

from toolgate.errors import StoreError
from toolgate.gateway.parts import GatewayContext, ServerParts
from toolgate.security.access import AccessAdmin
from toolgate.types import DEFAULT_PROJECT, Caller, Json, ServerSpec, ServerStatus

log = logging.getLogger(__name__)

_OPERATOR = "local"
"""Identity kind of users working on the gateway's machine."""


class ServerManagement:
    """Adds, changes and removes servers; other servers keep running meanwhile."""

    def __init__(
        self, context: GatewayContext, *, servers: ServerParts, admin: AccessAdmin
    ) -> None:
        self._catalog = servers.catalog
        self._registry = servers.registry
        self._index = context.search.index
        self._admin = admin
        self._visible = context.visible
        self._receipts = context.receipts

    async def add(
        self, caller: Caller, name: str, config: Json, *, save: bool = False, project: str = ""
    ) -> ServerStatus:
        """Add a server.

        Args:
            caller: The caller.
            name: The name of the server.
            config: The keys of a `[server.NAME]` table; a missing `trust` is false unless the
                caller is the user of this machine.
            save: Write it to the configuration file instead of the store.
            project: The project it belongs to; empty for none, so all projects see it.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            SettingError: The configuration or the name is not valid.
        """
        self._visible.must_manage(caller)
        if caller.identity.kind != _OPERATOR and "trust" not in config:
            # The gateway's operator knows what runs on it; what others add, nobody has vetted yet.
            config = {**config, "trust": False}
        if project:
            self._admin.check_project(project)
            config = {**config, "project": project}
        detail: Json = {"server": name, "project": project, "saved": "file" if save else "store"}
        async with self._receipts.change(caller, "server_add", detail):
            await self._registry.add(project or DEFAULT_PROJECT, name, config, save=save)
        return self._status(name)

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a server; its running calls fail.

        If its file cannot be written, an override in the store removes it.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
            SettingError: It belongs to a pack.
        """
        self._visible.must_manage(caller)
        self._catalog.server(name)
        async with self._receipts.change(caller, "server_remove", {"server": name}):
            await self._registry.remove(caller.project_id, name)
        for _, index in self._index.vector_indexes:
            try:
                await index.forget(name)
            except StoreError as error:  # the clean-up deletes them later
                log.warning("vectors were not removed", extra={"error": error.full_text})

    async def restore(self, caller: Caller, name: str) -> None:
        """Undo the removal of a server that a file still configures.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: No such server was removed by an override.
        """
        self._visible.must_manage(caller)
        async with self._receipts.change(caller, "server_restore", {"server": name}):
            await self._registry.restore(name)

    def removed(self, caller: Caller) -> Mapping[str, str]:
        """Servers that a file configures and an override removes: name and file.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        return self._registry.removed

    async def enable(self, caller: Caller, name: str, enabled: bool) -> ServerStatus:  # noqa: FBT001
        """Enable or disable a server.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
        """
        self._visible.must_manage(caller)
        self._catalog.server(name)
        detail: Json = {"server": name, "enabled": enabled}
        async with self._receipts.change(caller, "server_enable", detail):
            await self._registry.enable(caller.project_id, name, enabled=enabled)
        return self._status(name)

    async def schedule(
        self, caller: Caller, name: str, *, start: str = "", idle_s: float | None = None
    ) -> ServerStatus:
        """Set when a server runs.

        Args:
            caller: The caller.
            name: The server.
            start: `always` or `on-demand`; empty to leave it unchanged.
            idle_s: Seconds without use after which it is stopped; None to leave it unchanged.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
            SettingError: A value is not allowed.
        """
        self._visible.must_manage(caller)
        self._catalog.server(name)
        changes: Json = {"start": start} if start else {}
        if idle_s is not None:
            changes["idle_s"] = idle_s
        async with self._receipts.change(caller, "server_schedule", {"server": name, **changes}):
            await self._registry.schedule(caller.project_id, name, changes)
        return self._status(name)

    async def restart(self, caller: Caller, name: str) -> ServerStatus:
        """Reconnect a server.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
        """
        self._visible.must_manage(caller)
        await self._catalog.replace(self._catalog.server(name).spec, start=True)
        return self._status(name)

    async def allow_tools(
        self, caller: Caller, server: str, tools: Sequence[str], *, allowed: bool
    ) -> ServerStatus:
        """Allow or deny tools of a server to everyone (`tool_permissions`), in one change.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
        """
        self._visible.must_manage(caller)
        self._catalog.server(server)
        detail: Json = {"keys": [f"{server}:{tool}" for tool in tools], "allowed": allowed}
        async with self._receipts.change(caller, "switch_tool", detail):
            await self._registry.switch_tools(caller.project_id, server, tools, allowed=allowed)
        return self._status(server)

    def spec(self, caller: Caller, name: str) -> ServerSpec:
        """The configuration of a server. WARNING: its options may contain secrets.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
        """
        self._visible.must_manage(caller)
        return self._catalog.server(name).spec

    def on_state(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for server states. Returns a function that removes it."""
        return self._catalog.events.on_state(listener)

    def _status(self, name: str) -> ServerStatus:
        status = self._catalog.status(name)
        assert status is not None, "the server has just been found or added"
        return status
