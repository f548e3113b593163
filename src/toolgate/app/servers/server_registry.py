"""Which servers are configured: in files, which their owner edits, or in the store."""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from toolgate.base.ids import new_id
from toolgate.catalog import Catalog
from toolgate.errors import SettingError, StoreError, UnknownServerError
from toolgate.security.access import is_switched_on
from toolgate.security.credentials import SealedConfigs, has_plain_secrets
from toolgate.settings import (
    Settings,
    add_server_to_file,
    is_toolgate,
    remove_server_from_file,
    server_name,
    server_spec,
)
from toolgate.store import Store, StoredServer
from toolgate.types import DEFAULT_PROJECT, Json, ServerSpec, json_object

__all__ = ["ServerRegistry"]

log = logging.getLogger(__name__)


class ServerRegistry:
    """Where servers are kept: files belong to their owner, the rest is in the store."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        store: Store,
        catalog: Catalog,
        sealed: SealedConfigs,
    ) -> None:
        self._settings = settings
        self._sealed = sealed
        self._store = store
        self._catalog = catalog
        self._rows: list[StoredServer] = []
        self._lock = anyio.Lock()

    async def specs(self, settings: Settings) -> list[ServerSpec]:
        """The servers of the settings and of the store.

        Raises:
            SettingError: A name is in both.
        """
        specs = list(settings.servers)
        places = {spec.name: spec.source for spec in specs}
        try:
            stored = self._rows = await self._store.servers.select(None)
        except StoreError as error:
            log.warning("stored servers cannot be read", extra={"error": error.full_text})
            stored = []
        for row in stored:
            if row.name in places:
                raise SettingError(
                    f"Server {row.name!r} is configured twice: in {places[row.name]} and in the "
                    "store.",
                    hint=f"Remove it from the file, or run: toolgate servers remove {row.name}",
                )
            specs.append(await self._opened_spec(row))
        return specs

    @asynccontextmanager
    async def foreign_change(self) -> AsyncGenerator[bool]:
        """Whether other processes have changed stored servers; no change starts meanwhile.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._lock:
            previous = {row.server_id: row for row in self._rows}
            stored = await self._store.servers.select(None)
            yield previous != {row.server_id: row for row in stored}

    @asynccontextmanager
    async def _change(self, name: str) -> AsyncGenerator[None]:
        """A change of our own of one server, which is not one to follow afterwards."""
        async with self._lock:
            yield
            now = [row for row in await self._store.servers.select(None) if row.name == name]
            self._rows = [row for row in self._rows if row.name != name] + now

    async def _opened_spec(self, row: StoredServer) -> ServerSpec:
        """The server of a row; one whose secrets cannot be read is disabled, and says why."""
        try:
            if has_plain_secrets(row):  # written before there was encryption
                await self._store.servers.save(await self._sealed.seal(row))
            return _stored_spec(await self._sealed.unseal(row))
        except (SettingError, StoreError) as error:
            log.warning("server cannot be used", extra={"server": row.name, "error": str(error)})
            shown = {name: value for name, value in row.config.items() if name != "sealed"}
            spec = _stored_spec(replace(row, config=shown, enabled=False))
            return replace(spec, problem=f"server {row.name!r}: {error}")

    async def add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        """Add a server and start it."""
        async with self._change(name):
            await self._add(project_id, name, config, save=save)

    async def _add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        if is_toolgate(config, port=self._settings().serve.port):
            raise SettingError(
                f"Server {name!r} is Toolgate itself.",
                hint="Add the servers that stand behind it.",
            )
        if server_name(name) != name:
            raise SettingError(
                f"{name[:60]!r} cannot be the name of a server.",
                allowed="Allowed: 1 to 32 characters of A-Z a-z 0-9 _ . -, without __.",
                hint=f"Use {server_name(name)!r}, or choose another name.",
            )
        if name in {spec.name for spec in self._catalog.specs}:
            raise SettingError(
                f"There is a server {name!r} already.",
                hint="Choose another name, or remove that one first: "
                f"toolgate servers remove {name}",
            )
        if save:
            path = self._settings().config_file
            if path is None:
                raise SettingError(
                    "There is no toolgate.toml to save the server in.",
                    hint="Run: toolgate init, or add it without --save.",
                )
            spec = server_spec(name, config, source=str(path), folder=path.parent)
            await asyncio.to_thread(add_server_to_file, path, name, config)
            await self._catalog.add(spec)
            return
        server_id = new_id()
        spec = server_spec(name, config, server_id=server_id)
        await self._catalog.add(spec)
        row = StoredServer(server_id=server_id, project_id=project_id, name=name, config=config)
        try:
            await self._store.servers.save(await self._sealed.seal(row))
        except (StoreError, SettingError):
            await self._catalog.remove(name)
            raise

    async def remove(self, project_id: str, name: str) -> None:
        """Remove a server where it is kept, and end it; of a file, a copy is left beside it."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is not None:
                await self._store.servers.delete(row.server_id)
            else:
                path = self._file_of(name)
                await asyncio.to_thread(_remove_from_file, path, name)
            # A server that gets this name later must not get the logins of this one.
            await self._store.credentials.delete(name)
            await self._catalog.remove(name)

    async def enable(self, project_id: str, name: str, *, enabled: bool) -> None:
        """Switch a server on or off where it is kept."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is not None:
                changed = replace(row, enabled=enabled)
                await self._store.servers.save(await self._sealed.seal(changed))
                await self._catalog.replace(_stored_spec(changed))
                return
            source = self._spec(name).source
            raise SettingError(
                f"Server {name!r} is configured in {source}, which stays as its owner wrote it.",
                hint=f"Set enabled = {str(enabled).lower()} under [server.{name}] there.",
            )

    async def switch_tool(self, project_id: str, name: str, tool: str, *, allowed: bool) -> None:
        """Take a tool away from everybody, or give it back, where its server is kept."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is None:
                source = self._spec(name).source
                raise SettingError(
                    f"Server {name!r} is configured in {source}, which stays as its owner wrote"
                    " it.",
                    hint=f"Write there: [server.{name}.tool_permissions] and below it"
                    f' "{tool}" = {str(allowed).lower()}',
                )
            switches = {**json_object(row.config.get("tool_permissions"))}
            switches.pop(tool, None)
            if is_switched_on(switches, tool) != allowed:
                switches[tool] = allowed
            config = {k: v for k, v in row.config.items() if k != "tool_permissions"}
            changed = replace(
                row, config={**config, "tool_permissions": switches} if switches else config
            )
            await self._store.servers.save(await self._sealed.seal(changed))
            await self._catalog.replace(_stored_spec(changed))

    async def _stored(self, project_id: str, name: str) -> StoredServer | None:
        del project_id  # a name is taken once among all servers of a gateway
        rows = await self._store.servers.select(None)
        row = next((row for row in rows if row.name == name), None)
        return None if row is None else await self._sealed.unseal(row)

    def _spec(self, name: str) -> ServerSpec:
        for spec in self._catalog.specs:
            if spec.name == name:
                return spec
        raise UnknownServerError(f"There is no server {name!r}.", hint="See: toolgate servers list")

    def _file_of(self, name: str) -> Path:
        source = self._spec(name).source
        path = self._settings().config_file
        if path is None or str(path) != source:
            raise SettingError(
                f"Server {name!r} is configured in {source}, which Toolgate does not write.",
                hint="Change it there, or move it into toolgate.toml with: toolgate init",
            )
        return path


def _remove_from_file(path: Path, name: str) -> None:
    """Take a server out of a file, of which a copy with a free name is kept beside it."""
    copy, number = path.with_name(f"{path.name}.toolgate-backup"), 2
    while copy.exists():
        copy = path.with_name(f"{path.name}.toolgate-backup-{number}")
        number += 1
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise SettingError(
            f"{path} cannot be copied to {copy}: {error.strerror}.",
            hint="Make the folder writable for this user.",
        ) from error
    remove_server_from_file(path, name)


def _stored_spec(row: StoredServer) -> ServerSpec:
    spec = server_spec(row.name, row.config, server_id=row.server_id)
    project_id = spec.project_id if row.project_id == DEFAULT_PROJECT else row.project_id
    return replace(spec, enabled=spec.enabled and row.enabled, project_id=project_id)
