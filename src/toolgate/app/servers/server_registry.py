"""The configured servers: where they are configured, and what overrides them."""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import anyio

from toolgate.base.ids import new_id
from toolgate.catalog import Catalog
from toolgate.errors import SettingError, StoreError, UnknownServerError
from toolgate.security.access import is_switched_on
from toolgate.security.credentials import SealedConfigs, has_plain_secrets
from toolgate.settings import (
    OVERRIDE_KEYS,
    CurrentSettings,
    Settings,
    add_server_to_file,
    change_server_in_file,
    change_tool_in_file,
    is_toolgate,
    remove_server_from_file,
    server_name,
    server_spec,
    tool_in_file,
    tool_overrides,
)
from toolgate.store import Store, StoredServer
from toolgate.types import DEFAULT_PROJECT, Json, ServerSpec, json_object

log = logging.getLogger(__name__)

_DEFAULTS: Json = {"enabled": True, "tool_permissions": {}, "start": "always"}
"""Default values of the keys that can be changed here; defaults are not written."""

_CHANGEABLE = (*_DEFAULTS, "idle_s")


class ServerRegistry:
    """Changes servers where they are configured.

    Servers in `toolgate.toml` are changed there. If that is not writable, or a server comes from
    another file or a pack, an override in the store changes it.
    """

    def __init__(
        self,
        settings: CurrentSettings,
        store: Store,
        catalog: Catalog,
        sealed: SealedConfigs,
    ) -> None:
        self._settings = settings
        self._sealed = sealed
        self._store = store
        self._catalog = catalog
        self._rows: list[StoredServer] = []
        self._overrides: dict[str, Json] = {}
        """What overrides change, by the name of the server, with their secrets."""
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
        self._overrides = {
            row.name: await self._opened_override(row) for row in stored if row.is_override
        }
        for row in stored:
            if row.is_override:
                continue
            if row.name in places:
                raise SettingError(
                    f"Server {row.name!r} is configured twice: in {places[row.name]} and in the "
                    "store.",
                    hint=f"Remove it from the file, or run: toolgate servers remove {row.name}",
                )
            specs.append(await self._opened_spec(row))
        return specs

    def overridden(self, specs: Sequence[ServerSpec]) -> list[ServerSpec]:
        """Apply the store's overrides to servers of files and packs, and drop removed ones."""
        overrides = self._overrides
        return [
            _with_tools(_overridden(spec, change), change)
            for spec in specs
            if not (change := overrides.get(spec.name, {})).get("removed")
        ]

    @property
    def removed(self) -> dict[str, str]:
        """Names and files of configured servers that an override removes."""
        return {
            row.name: str(row.config.get("source", ""))
            for row in self._rows
            if row.is_override and row.config.get("removed")
        }

    @asynccontextmanager
    async def foreign_change(self) -> AsyncGenerator[bool]:
        """Whether other processes changed stored servers; no change starts meanwhile.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._lock:
            previous = {row.server_id: row for row in self._rows}
            stored = await self._store.servers.select(None)
            yield previous != {row.server_id: row for row in stored}

    @asynccontextmanager
    async def _change(self, name: str) -> AsyncGenerator[None]:
        """Make a change to a server, which is then not followed as a foreign change."""
        async with self._lock:
            yield
            now = [row for row in await self._store.servers.select(None) if row.name == name]
            self._rows = [row for row in self._rows if row.name != name] + now

    async def _opened_spec(self, row: StoredServer) -> ServerSpec:
        """Read a server from its row; disabled with a reason if its secrets are unreadable."""
        try:
            if has_plain_secrets(row):  # written before there was encryption
                await self._store.servers.save(await self._sealed.seal(row))
            return _stored_spec(await self._sealed.unseal(row))
        except (SettingError, StoreError) as error:
            log.warning("server cannot be used", extra={"server": row.name, "error": str(error)})
            shown = {name: value for name, value in row.config.items() if name != "sealed"}
            spec = _stored_spec(replace(row, config=shown, enabled=False))
            return replace(spec, problem=f"server {row.name!r}: {error}")

    async def _opened_override(self, row: StoredServer) -> Json:
        try:
            return (await self._sealed.unseal(row)).config
        except (SettingError, StoreError) as error:
            log.warning("override cannot be read", extra={"server": row.name, "error": str(error)})
            return row.config  # still `sealed`, so the server is not offered without it

    async def add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        """Add a server and start it."""
        async with self._change(name):
            await self._add(project_id, name, config, save=save)

    async def _add(self, project_id: str, name: str, config: Json, *, save: bool) -> None:
        if is_toolgate(config, port=self._settings.current.serve.port):
            raise SettingError(
                f"Server {name!r} is Toolgate itself.",
                hint="Add the servers behind it instead.",
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
        if name in self.removed:
            raise SettingError(
                f"There is a server {name!r} in {self.removed[name]}, which was removed here.",
                hint="Choose another name, or restore that one in the console, on Servers.",
            )
        if save:
            path = self._settings.current.config_file or self._settings.current.new_config_file
            if path is None:
                raise SettingError(
                    "There is no toolgate.toml to save the server in.",
                    hint="Add it without --save.",
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
        """Remove a server from its configuration and end it; a backup of its file is kept."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is not None:
                await self._store.servers.delete(row.server_id)
            else:
                await self._remove_configured(name)
            # A later server with this name must not get the logins of this one.
            await self._store.credentials.delete(name)
            await self._catalog.remove(name)

    async def _remove_configured(self, name: str) -> None:
        spec = self._spec(name)
        if name not in {configured.name for configured in self._settings.current.servers}:
            raise SettingError(
                f"Server {name!r} belongs to {spec.source}.",
                hint="Disable the server, or the pack.",
            )
        override = await self._override(name)
        path = self._own_file(spec)
        if path is not None:
            try:
                await asyncio.to_thread(_remove_from_file, path, name)
            except (SettingError, UnknownServerError) as error:
                log.info("removed by an override", extra={"server": name, "reason": str(error)})
            else:
                if override is not None:
                    await self._store.servers.delete(override.server_id)
                return
        await self._save_override(spec, override, {"removed": True})

    async def restore(self, name: str) -> None:
        """Undo a removal saved in the store, and start the server again.

        Raises:
            UnknownServerError: No such server was removed.
        """
        async with self._change(name):
            override = await self._override(name)
            if override is None or not override.config.get("removed"):
                raise UnknownServerError(
                    f"No server {name[:60]!r} was removed here.",
                    allowed=f"Removed: {', '.join(self.removed) or 'none'}.",
                )
            await self._store.servers.delete(override.server_id)
            for spec in self._settings.current.servers:
                if spec.name == name:
                    await self._catalog.add(spec)

    async def enable(self, project_id: str, name: str, *, enabled: bool) -> None:
        """Enable or disable a server in its configuration."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is None:
                await self._change_configured(name, {"enabled": enabled})
                return
            changed = replace(row, enabled=enabled)
            await self._store.servers.save(await self._sealed.seal(changed))
            await self._catalog.replace(_stored_spec(changed))

    async def schedule(self, project_id: str, name: str, changes: Json) -> None:
        """Set when a server runs: its keys `start` and `idle_s`."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            if row is None:
                server_spec(name, {"command": "-", **changes})  # raises for a wrong value
                await self._change_configured(name, changes)
                return
            changed = replace(row, config={**row.config, **changes})
            spec = _stored_spec(changed)
            await self._store.servers.save(await self._sealed.seal(changed))
            await self._catalog.replace(spec)

    async def switch_tools(
        self, project_id: str, name: str, tools: Sequence[str], *, allowed: bool
    ) -> None:
        """Disable tools for everyone, or enable them again, in the configuration of the server."""
        async with self._change(name):
            row = await self._stored(project_id, name)
            before = (
                self._spec(name).tool_permissions
                if row is None
                else row.config.get("tool_permissions")
            )
            switches = {**json_object(before)}
            for tool in tools:
                switches.pop(tool, None)
                if is_switched_on(switches, tool) != allowed:
                    switches[tool] = allowed
            if row is None:
                await self._change_configured(name, {"tool_permissions": switches})
                return
            config = {k: v for k, v in row.config.items() if k != "tool_permissions"}
            changed = replace(
                row, config={**config, "tool_permissions": switches} if switches else config
            )
            await self._store.servers.save(await self._sealed.seal(changed))
            await self._catalog.replace(_stored_spec(changed))

    async def tool_table(self, name: str, tool: str) -> Json:
        """The keys of a tool's table that override it, as they are written; empty: none.

        Values of other files than `toolgate.toml`, and of packs, are left out.
        """
        row, spec = await self._stored("", name), self._spec(name)
        override = await self._override(name)
        changed = json_object(override.config.get("tools")) if override is not None else {}
        path = self._own_file(spec)
        if row is not None:
            table = json_object(json_object(row.config.get("tools")).get(tool))
        elif tool in changed:
            table = json_object(changed[tool])
        elif path is not None:
            table = await asyncio.to_thread(tool_in_file, path, name, tool)
        else:
            found = spec.tool_overrides.get(tool)
            table = {} if found is None else {k: v for k, v in asdict(found).items() if v}
            table["parameters"] = {
                parameter: {k: v for k, v in change.items() if v and k not in {"value", "default"}}
                for parameter, change in json_object(table.get("parameters")).items()
            }
        return {key: table[key] for key in OVERRIDE_KEYS if table.get(key)}

    async def override_tool(self, name: str, tool: str, table: Json) -> str:
        """Offer a tool in another way, where its server is kept; the server keeps running.

        Returns a sentence on why the override is in the store although the server is not; empty
        if both are in the same place.

        Args:
            name: The server.
            tool: The tool's own name.
            table: Keys of `OVERRIDE_KEYS`; empty: as the server offers it.
        """
        async with self._change(name):
            row = await self._stored("", name)
            if row is None:
                return await self._override_configured(name, tool, table)
            tools = {**json_object(row.config.get("tools"))}
            # What else is set for the tool, such as its time limit, stays.
            others = {
                key: value
                for key, value in json_object(tools.pop(tool, None)).items()
                if key not in OVERRIDE_KEYS
            }
            if others or table:
                tools[tool] = {**others, **table}
            config = {key: value for key, value in row.config.items() if key != "tools"}
            changed = replace(row, config={**config, "tools": tools} if tools else config)
            spec = _stored_spec(changed)
            await self._store.servers.save(await self._sealed.seal(changed))
            await self._catalog.revise(spec)
            return ""

    async def _override_configured(self, name: str, tool: str, table: Json) -> str:
        """Override a tool of a file or a pack: in `toolgate.toml`, else in the store."""
        spec = self._spec(name)
        given = tool_overrides(name, {tool: table}, source=spec.source)
        others = {own: known for own, known in spec.tool_overrides.items() if own != tool}
        spec = replace(spec, tool_overrides={**others, **given})
        override = await self._override(name)
        stored = {**json_object(override.config.get("tools"))} if override is not None else {}
        path, notice = self._own_file(spec), f"Saved in the store, not in {spec.source}."
        if path is not None:
            keys = {key: table.get(key) for key in OVERRIDE_KEYS}
            try:
                await asyncio.to_thread(_change_tool_in_file, path, name, tool, keys)
            except (SettingError, UnknownServerError) as error:
                log.info("changed by an override", extra={"server": name, "reason": str(error)})
                notice = f"Saved in the store, which takes precedence over the file: {error}"
            else:
                if override is not None and tool in stored:
                    del stored[tool]
                    await self._save_override(spec, override, {"tools": stored})
                await self._catalog.revise(spec)
                return ""
        # An empty table undoes what the file says.
        await self._save_override(spec, override, {"tools": {**stored, tool: table}})
        await self._catalog.revise(
            replace(spec, overridden=tuple(sorted({*spec.overridden, "tools"})))
        )
        return notice

    async def _change_configured(self, name: str, changes: Json) -> None:
        """Change a server of a file or pack: in `toolgate.toml`, or else by an override."""
        spec = self._spec(name)
        if spec.problem and changes.get("enabled"):
            raise SettingError(f"Server {name!r} cannot be enabled: {spec.problem}")
        override = await self._override(name)
        path = self._own_file(spec)
        if path is not None:
            pending = _changes_of(override) | changes
            written = {
                key: None if _DEFAULTS.get(key) == value else value
                for key, value in pending.items()
            }
            try:
                await asyncio.to_thread(_change_in_file, path, name, written)
            except (SettingError, UnknownServerError) as error:
                log.info("changed by an override", extra={"server": name, "reason": str(error)})
            else:
                tools = () if override is None else await self._keep_tools(override)
                await self._catalog.replace(replace(_overridden(spec, pending), overridden=tools))
                return
        await self._save_override(spec, override, changes)
        await self._catalog.replace(_overridden(spec, changes))

    async def _save_override(
        self, spec: ServerSpec, override: StoredServer | None, changes: Json
    ) -> None:
        row = override or StoredServer(
            server_id=new_id(), project_id=DEFAULT_PROJECT, name=spec.name, config={}
        )
        config = {**row.config, **changes, "override": True, "source": spec.source}
        await self._store.servers.save(await self._sealed.seal(replace(row, config=config)))

    async def _keep_tools(self, override: StoredServer) -> tuple[str, ...]:
        """Keep of an override what it says about tools: a file has the rest. Gives its keys."""
        kept = {k: v for k, v in override.config.items() if k not in (*_CHANGEABLE, "removed")}
        if kept.get("tools"):
            await self._store.servers.save(await self._sealed.seal(replace(override, config=kept)))
            return ("tools",)
        await self._store.servers.delete(override.server_id)
        return ()

    async def _override(self, name: str) -> StoredServer | None:
        rows = await self._store.servers.select(None)
        row = next((row for row in rows if row.name == name and row.is_override), None)
        return None if row is None else await self._sealed.unseal(row)

    async def _stored(self, project_id: str, name: str) -> StoredServer | None:
        del project_id  # a name is taken once among all servers of a gateway
        rows = await self._store.servers.select(None)
        row = next((row for row in rows if row.name == name and not row.is_override), None)
        return None if row is None else await self._sealed.unseal(row)

    def _spec(self, name: str) -> ServerSpec:
        for spec in self._catalog.specs:
            if spec.name == name:
                return spec
        raise UnknownServerError(f"There is no server {name!r}.", hint="See: toolgate servers list")

    def _own_file(self, spec: ServerSpec) -> Path | None:
        """The `toolgate.toml` with a server; None if it is configured elsewhere."""
        path = self._settings.current.config_file
        return path if path is not None and str(path) == spec.source else None


def _overridden(spec: ServerSpec, config: Json) -> ServerSpec:
    """Apply an override to a server."""
    changes = _only_changes(config)
    if not changes:
        return spec
    return replace(
        spec,
        enabled=bool(changes.get("enabled", spec.enabled)) and not spec.problem,
        tool_permissions=json_object(changes.get("tool_permissions", spec.tool_permissions)),
        start=changes.get("start", spec.start),
        idle_s=float(changes.get("idle_s", spec.idle_s)),
        overridden=tuple(sorted({*spec.overridden, *changes})),
    )


def _with_tools(spec: ServerSpec, config: Json) -> ServerSpec:
    """A server with the tools that an override changes; disabled if they cannot be known."""
    if config.get("sealed"):
        problem = f"server {spec.name!r}: what was changed of its tools cannot be decrypted."
        return replace(spec, enabled=False, problem=problem)
    tools = json_object(config.get("tools"))
    if not tools:
        return spec
    try:
        given = tool_overrides(spec.name, tools)
    except SettingError as error:
        return replace(spec, enabled=False, problem=str(error))
    others = {own: known for own, known in spec.tool_overrides.items() if own not in tools}
    return replace(
        spec,
        tool_overrides={**others, **given},
        overridden=tuple(sorted({*spec.overridden, "tools"})),
    )


def _changes_of(override: StoredServer | None) -> Json:
    return {} if override is None else _only_changes(override.config)


def _only_changes(config: Json) -> Json:
    return {key: config[key] for key in _CHANGEABLE if key in config}


def _change_in_file(path: Path, name: str, changes: Json) -> None:
    """Change a server in a file, and keep a backup of the file."""
    _copy(path, path.with_name(f"{path.name}.toolgate-previous"))
    change_server_in_file(path, name, changes)


def _change_tool_in_file(path: Path, name: str, tool: str, changes: Json) -> None:
    """Change a tool in a file, of which the version before is kept beside it."""
    _copy(path, path.with_name(f"{path.name}.toolgate-previous"))
    change_tool_in_file(path, name, tool, changes)


def _remove_from_file(path: Path, name: str) -> None:
    """Remove a server from a file, and keep a backup of the file under a free name."""
    copy, number = path.with_name(f"{path.name}.toolgate-backup"), 2
    while copy.exists():
        copy = path.with_name(f"{path.name}.toolgate-backup-{number}")
        number += 1
    _copy(path, copy)
    remove_server_from_file(path, name)


def _copy(path: Path, copy: Path) -> None:
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise SettingError(
            f"{path} cannot be copied to {copy}: {error.strerror}.",
            hint="Make the folder writable for this user.",
        ) from error


def _stored_spec(row: StoredServer) -> ServerSpec:
    spec = server_spec(row.name, row.config, server_id=row.server_id)
    project_id = spec.project_id if row.project_id == DEFAULT_PROJECT else row.project_id
    return replace(spec, enabled=spec.enabled and row.enabled, project_id=project_id)
