"""Converts configured overrides of tools into `ToolOverride`s, and reports errors in them."""

import re
from collections.abc import Callable, Mapping
from typing import cast

from toolgate.base.names import fold
from toolgate.settings.config_file import ConfigDocument, KeyPath
from toolgate.settings.table_reader import dotted
from toolgate.settings.tables.servers import ParameterTable, ToolTable
from toolgate.types import CALLER_VARIABLES, Json, ParameterOverride, ToolOverride

OVERRIDE_KEYS = ("name", "description", "hide", "tags", "parameters")
"""Keys of a table `[server.NAME.tools.TOOL]` that change how the tool is offered."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|auth|bearer|credential|(?:^|_)pat$")
_OF_CALLER = re.compile(r"\$\{user\.([^}]*)\}")


def keep_caller_variables(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with those that stand for the caller of a tool left unreplaced."""
    return {**values, **{f"user.{name}": f"${{user.{name}}}" for name in CALLER_VARIABLES}}


def read_overrides(
    tools: Mapping[str, ToolTable],
    document: ConfigDocument,
    path: KeyPath,
    fill: Callable[[object, str], object],
) -> dict[str, ToolOverride]:
    """Read the overrides of a server's tools, by the tool's own name.

    Args:
        tools: Its tables `[server.NAME.tools.TOOL]`.
        document: Named in errors, with the line.
        path: The table of the server.
        fill: Replaces variables in a value; takes the key below the server's table.

    Raises:
        SettingError: A name is invalid or used twice, or a parameter contradicts itself.
    """
    overrides: dict[str, ToolOverride] = {}
    owners = {fold(name): name for name in tools}
    for tool, table in tools.items():
        where = (*path, "tools", tool)
        if table.name:
            _check_name(tool, table.name, owners, document, where)
            owners[fold(table.name)] = tool
        override = ToolOverride(
            name="" if table.name == tool else table.name,
            description=table.description,
            hide=table.hide,
            tags=table.tags,
            parameters={
                name: _parameter(parameter, document, (*where, "parameters", name), fill)
                for name, parameter in table.parameters.items()
            },
        )
        if override != ToolOverride():
            overrides[tool] = override
    return overrides


def redact_overrides(tools: Json, hide: Callable[[object], str]) -> Json:
    """Return the tables of tools without the values of parameters whose names suggest secrets."""
    return {
        tool: _redacted_tool(cast("Json", table), hide) if isinstance(table, dict) else table
        for tool, table in tools.items()
    }


def _redacted_tool(table: Json, hide: Callable[[object], str]) -> Json:
    parameters = table.get("parameters")
    if not isinstance(parameters, dict):
        return table
    redacted: Json = {}
    for name, change in cast("Json", parameters).items():
        redacted[name] = change
        if _SECRET_NAME.search(name) and isinstance(change, dict):
            values = cast("Json", change)
            hidden = {"value", "default"} & values.keys()
            redacted[name] = {**values, **{key: hide(values[key]) for key in hidden}}
    return {**table, "parameters": redacted}


def _check_name(
    tool: str, name: str, owners: Mapping[str, str], document: ConfigDocument, where: KeyPath
) -> None:
    if not _NAME.fullmatch(name):
        raise document.error(
            (*where, "name"),
            f"{dotted((*where, 'name'))} is {name[:80]!r}.",
            allowed="Allowed: 1 to 64 characters of A-Z a-z 0-9 _ . -",
            hint="Choose another name.",
        )
    other = owners.get(fold(name), tool)
    if other != tool:
        raise document.error(
            (*where, "name"),
            f"{dotted((*where, 'name'))} is {name!r}, which the tool {other!r} of this server has.",
            allowed="Names must differ in more than case, '-', '_' and '.'.",
            hint="Choose another name.",
        )


def _parameter(
    table: ParameterTable,
    document: ConfigDocument,
    where: KeyPath,
    fill: Callable[[object, str], object],
) -> ParameterOverride:
    if table.value is not None and table.default is not None:
        raise document.error(
            where,
            f"{dotted(where)} has a value and a default.",
            allowed="Allowed: value (always sent) or default (sent when the caller sends nothing).",
            hint="Remove one of them.",
        )
    below = dotted(where[-4:])
    for key in ("value", "default"):
        _check_variables(getattr(table, key), document, (*where, key))
    return ParameterOverride(
        value=fill(table.value, f"{below}.value"),
        default=fill(table.default, f"{below}.default"),
        hide=table.hide,
        description=table.description,
    )


def _check_variables(value: object, document: ConfigDocument, where: KeyPath) -> None:
    if isinstance(value, str):
        for name in _OF_CALLER.findall(value):
            if name not in CALLER_VARIABLES:
                raise document.error(
                    where,
                    f"{dotted(where)} names ${{user.{name[:60]}}}, which no caller has.",
                    allowed=f"Allowed: {', '.join(f'user.{known}' for known in CALLER_VARIABLES)}.",
                    hint="Correct or remove it.",
                )
    elif isinstance(value, dict):
        for inner in cast("Json", value).values():
            _check_variables(inner, document, where)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _check_variables(inner, document, where)
