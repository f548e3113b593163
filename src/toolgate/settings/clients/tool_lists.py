"""Tools that a client hides: converts its lists to `tool_permissions`.

Lists of tools that run without asking (`autoApprove`, `alwaysAllow`, `trust`, and `allow` of
Claude Code) do not restrict which tools may run, so they are not converted.
"""

import re
from collections.abc import Iterable, Mapping
from typing import cast

from toolgate.types import Json, json_object

_BLOCKED = ("disabledTools", "disabled_tools", "excludeTools")
"""Keys of Kiro, Roo Code and Antigravity; Codex; Gemini CLI."""

_ALLOWED = ("enabledTools", "enabled_tools", "includeTools")
"""Keys of Codex, Gemini CLI and Amp. An empty list allows no tool."""


def listed_tools(entry: Mapping[str, object]) -> tuple[dict[str, bool], bool]:
    """Convert the lists in an entry to `tool_permissions`; also whether all lists were valid.

    See https://developers.openai.com/codex/config-reference,
    https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md and
    https://kiro.dev/docs/mcp/configuration. A tool in both lists is blocked, as in all these
    clients.
    """
    permissions: dict[str, bool] = {}
    is_read = True
    if entry.get("available_tools"):  # Goose: an empty list allows all
        entry = {**entry, "enabledTools": entry["available_tools"]}
    for name in _ALLOWED:
        if entry.get(name) is None:
            continue
        names = _names(entry[name])
        is_read &= names is not None
        # Gemini CLI also allows `tool(arguments)` here.
        allowed = {item.partition("(")[0]: True for item in names or ()}
        permissions |= {"*": False, **allowed}
        if allowed.get("*"):
            permissions["*"] = True
    for name in _BLOCKED:
        if entry.get(name) is None:
            continue
        names = _names(entry[name])
        is_read &= names is not None
        permissions |= dict.fromkeys(names or (), False)
    return (permissions if False in permissions.values() else {}), is_read


def claude_code_denials(rules: Iterable[object], server: str) -> dict[str, bool]:
    """Convert `permissions.deny` of Claude Code to `tool_permissions`.

    See https://code.claude.com/docs/en/permissions: `mcp__SERVER`, `mcp__SERVER__*` and
    `mcp__SERVER__TOOL`, with other characters in names replaced by underscores.
    """
    prefix = f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server)}"
    permissions: dict[str, bool] = {}
    for rule in rules:
        if rule in ("mcp__*", "*", prefix):
            permissions["*"] = False
        elif isinstance(rule, str) and rule.startswith(f"{prefix}__"):
            permissions[rule.removeprefix(f"{prefix}__")] = False
    return permissions


def opencode_denials(root: Json, server: str) -> dict[str, bool]:
    """Convert `tools` and `permission` in a file of OpenCode to `tool_permissions`.

    See https://opencode.ai/docs/mcp-servers: tools are named `SERVER_TOOL`, with `*` for any
    text.
    """
    prefix = f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}_"
    rules: dict[str, object] = {
        **json_object(root.get("permission")),
        **json_object(root.get("tools")),
    }
    permissions: dict[str, bool] = {}
    for pattern, rule in rules.items():
        if rule is not False and rule != "deny":
            continue
        if pattern.startswith(prefix):
            permissions[pattern.removeprefix(prefix)] = False
        elif "*" in pattern and prefix.startswith(pattern.partition("*")[0]):
            permissions["*"] = False
    return permissions


def amp_denials(root: Json, server: str) -> dict[str, bool]:
    """Convert `amp.tools.disable` in a file of Amp to `tool_permissions`.

    See https://ampcode.com/manual: names of tools with or without `mcp__SERVER__`, with `*` for any
    text; only those with `builtin:` leave a tool of a server alone.
    """
    prefix = f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__"
    permissions: dict[str, bool] = {}
    for pattern in _names(root.get("amp.tools.disable")) or ():
        start, star, _ = pattern.partition("*")
        if pattern.startswith(prefix):
            permissions[pattern.removeprefix(prefix)] = False
        elif star and start and prefix.startswith(start):
            permissions["*"] = False
        elif not start.startswith(("mcp__", "builtin:")):
            permissions[pattern] = False
    return permissions


def _names(value: object) -> list[str] | None:
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    return [item for item in items if isinstance(item, str)]
