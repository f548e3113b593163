"""Changes how tools are offered while the gateway runs: names, texts, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolgate.catalog import Catalog
from toolgate.errors import SettingError, UnknownToolError
from toolgate.gateway.parts import GatewayContext, ServerParts
from toolgate.settings import OVERRIDE_KEYS, redact, tool_overrides
from toolgate.types import Caller, Json, ToolOverride, json_object

HIDDEN_VALUE = "***"
"""Shown in place of a secret value; sent back, it means the current value."""


@dataclass(frozen=True, kw_only=True)
class OverriddenTool:
    """How a tool is offered, and which changes its override makes."""

    toolKey: str  # noqa: N815 -- as in the answers for models
    """`server:tool`, with the tool's own name."""

    override: Json
    """The keys set in `[server.NAME.tools.TOOL]`, with secret values hidden; empty if none are."""

    listed: Json | None
    """The definition as the server sent it; None if it does not list the tool now."""

    offered: Json | None
    """The definition as clients see it; None if the tool is hidden or left out."""

    problems: tuple[str, ...] = ()
    """Sentences about parts of the override that cannot be applied."""

    notice: str = ""
    """Why a change was saved elsewhere than where the server is configured; empty if it was not."""


class ToolOverrideManagement:
    """Shows and changes the overrides of tools, wherever their servers are configured."""

    def __init__(self, context: GatewayContext, servers: ServerParts) -> None:
        self._catalog: Catalog = servers.catalog
        self._registry = servers.registry
        self._visible = context.visible
        self._receipts = context.receipts

    async def show(self, caller: Caller, key: str) -> OverriddenTool:
        """Return the override of a tool.

        Args:
            caller: The caller.
            key: The key of the tool, with its own or its overridden name.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
            UnknownToolError: The server lists no such tool, and nothing overrides one of this
                name.
        """
        server, own_name = self._named(caller, key)
        table = await self._registry.tool_table(server, own_name)
        return self._view(server, own_name, table, self._catalog.server(server).spec.tool_overrides)

    async def preview(self, caller: Caller, key: str, table: Json) -> OverriddenTool:
        """Preview how a tool would be offered, without changing anything.

        Raises:
            ForbiddenError, UnknownServerError, UnknownToolError: As `show`.
            SettingError: The table is not valid.
        """
        self._visible.must_manage(caller)
        table = _checked(table)
        server, own_name = self._named(caller, key)
        return await self._previewed(server, own_name, table)

    async def change(self, caller: Caller, key: str, table: Json) -> OverriddenTool:
        """Replace the override of a tool.

        It is written to `toolgate.toml` if the server is configured there and the file can be
        written, else to the store. The server keeps running.

        Args:
            caller: The caller.
            key: The key of the tool, with its own or its overridden name.
            table: The keys of `[server.NAME.tools.TOOL]` that define how it is offered; values
                shown as `***` stay unchanged.

        Raises:
            ForbiddenError, UnknownServerError, UnknownToolError: As `show`.
            SettingError: The table is not valid, or cannot be applied to what the server lists
                now.
        """
        self._visible.must_manage(caller)
        table = _checked(table)
        server, own_name = self._named(caller, key)
        written = await self._registry.tool_table(server, own_name)
        table = _with_kept(table, written, own_name)
        preview = await self._previewed(server, own_name, table)
        if preview.problems:
            raise SettingError(
                f"The override of {preview.toolKey} cannot be applied. "
                + " ".join(preview.problems),
                hint="Correct it; nothing was changed.",
            )
        notice = await self._save(caller, preview.toolKey, server, own_name, table)
        return replace(preview, notice=notice)

    async def remove(self, caller: Caller, key: str) -> OverriddenTool:
        """Remove the override of a tool, so that it is offered as its server defines it.

        Raises:
            ForbiddenError, UnknownServerError, UnknownToolError: As `show`.
        """
        server, own_name = self._named(caller, key)
        notice = await self._save(caller, f"{server}:{own_name}", server, own_name, {})
        return replace(await self.show(caller, key=f"{server}:{own_name}"), notice=notice)

    async def _save(self, caller: Caller, key: str, server: str, tool: str, table: Json) -> str:
        detail: Json = {"key": key, "override": _redacted(tool, table)}
        async with self._receipts.change(caller, "override_tool", detail):
            return await self._registry.override_tool(server, tool, table)

    def _named(self, caller: Caller, key: str) -> tuple[str, str]:
        """The server of a tool, and the tool's own name."""
        self._visible.must_manage(caller)
        server, _, tool = key.partition(":")
        overrides = self._catalog.server(server).spec.tool_overrides
        listed = self._listed(server)
        if tool in listed or tool in overrides or tool in self._withheld(server):
            return server, tool
        for own_name, override in overrides.items():
            if override.name == tool:
                return server, own_name
        if tool and not listed:  # the server was never listed: what it has is not known
            return server, tool
        raise UnknownToolError(
            f"Server {server!r} lists no tool {tool[:64]!r}.",
            allowed=f"It lists: {', '.join(list(listed)[:20])}.",
        )

    async def _previewed(self, server: str, tool: str, table: Json) -> OverriddenTool:
        given = tool_overrides(server, {tool: table}, source="override")
        overrides = dict(self._catalog.server(server).spec.tool_overrides)
        overrides.pop(tool, None)
        return self._view(server, tool, table, {**overrides, **given})

    def _view(
        self, server: str, tool: str, table: Json, overrides: Mapping[str, ToolOverride]
    ) -> OverriddenTool:
        entries = self._catalog.with_overrides(server, overrides)
        offered = None
        problems: tuple[str, ...] = ()
        if entries is not None:
            offered = next((one.definition for one in entries.tools if one.own_name == tool), None)
            # All these sentences name their tool in this form.
            problems = tuple(
                text
                for text in entries.override_problems
                if f"{tool!r}" in text or f".tools.{tool}]" in text
            )
        return OverriddenTool(
            toolKey=f"{server}:{tool}",
            override=_redacted(tool, table),
            listed=self._listed(server).get(tool),
            offered=offered,
            problems=problems,
        )

    def _withheld(self, server: str) -> frozenset[str]:
        entries = self._catalog.snapshot.servers.get(server)
        quarantined = () if entries is None else entries.quarantined
        return frozenset(name for kind, name in quarantined if kind == "tool")

    def _listed(self, server: str) -> Mapping[str, Json]:
        entries = self._catalog.snapshot.servers.get(server)
        return {} if entries is None else {str(one["name"]): one for one in entries.listed}


def _redacted(tool: str, table: Json) -> Json:
    return json_object(json_object(redact({"tools": {tool: table}})["tools"])[tool])


def _checked(table: Json) -> Json:
    """The keys that are set.

    Raises:
        SettingError: A key does not define how a tool is offered.
    """
    if unknown := sorted(table.keys() - set(OVERRIDE_KEYS)):
        raise SettingError(
            f"Overrides have no key named {unknown[0][:64]!r}.",
            allowed=f"Allowed: {', '.join(OVERRIDE_KEYS)}.",
            hint="Correct or remove it.",
        )
    return {name: value for name, value in table.items() if value is not None}


def _with_kept(table: Json, written: Json, tool: str) -> Json:
    """The table, with the stored values in place of hidden ones."""
    before = json_object(written.get("parameters"))
    parameters: Json = {}
    for name, change in json_object(table.get("parameters")).items():
        values = dict(json_object(change))
        written_change = json_object(before.get(name))
        for key in values.keys() & {"value", "default"}:
            if values[key] == HIDDEN_VALUE:
                kept = _kept(key, values, written_change)
                if kept is None:
                    raise SettingError(
                        f"The {key} of parameter {name!r} of {tool!r} is still masked "
                        f"({HIDDEN_VALUE!r}).",
                        hint="Enter the real value.",
                    )
                values[key] = kept
        parameters[name] = values
    return {**table, "parameters": parameters} if parameters else table


def _kept(key: str, change: Json, before: Json) -> object:
    """The stored value in place of a hidden one; None if callers would see what they could not."""
    if key == "default" and not change.get("hide"):
        return None if before.get("hide") else before.get("default")
    return before.get("value", before.get("default"))
