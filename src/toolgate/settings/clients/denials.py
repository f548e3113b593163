"""Tools and servers that a client denies outside the entry of the server."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from toolgate.errors import SettingError
from toolgate.settings.clients.files import OPENCODE_FILES
from toolgate.settings.clients.tool_lists import amp_denials, claude_code_denials, opencode_denials
from toolgate.settings.config_file import ConfigDocument, read_document
from toolgate.types import Json, json_array, json_object

_CLAUDE_CODE_FILES = frozenset({".claude.json", ".mcp.json"})


def rule_files(
    path: Path, *, project: Path | None, home: Path, environ: Mapping[str, str]
) -> list[Path]:
    """Return files that may deny what is in a client's file; some may not exist.

    Args:
        path: The client's file.
        project: The project folder that the servers belong to; None for servers of the user.
        home: The user's home folder.
        environ: Variables that move folders.
    """
    if path.parent.name == ".amp":
        return [Path(environ.get("AMP_SETTINGS_FILE") or home / ".config/amp/settings.json")]
    if path.name not in _CLAUDE_CODE_FILES:
        return []
    moved = environ.get("CLAUDE_CONFIG_DIR", "")
    paths = [(Path(moved) if moved else home / ".claude") / "settings.json"]
    if project is not None:
        paths += [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
        paths.append(Path(moved or home) / ".claude.json")
    return paths


def with_denials(
    config: Json,
    server: str,
    document: ConfigDocument,
    files: list[Path],
    *,
    project: Path | None,
) -> Json:
    """Return the configuration of a server, extended by the denials of its client.

    Args:
        config: Keys of `[server.NAME]`.
        server: Its name in the client's file.
        document: The client's file.
        files: The result of `rule_files` for it.
        project: The project folder that the server belongs to; None for a server of the user.
    """
    roots = list(_roots(files))
    if document.path.name in OPENCODE_FILES:
        denials = opencode_denials(document.root, server)
    elif "amp.mcpServers" in document.root:
        roots.insert(0, document.root)
        denials = {name: False for root in roots for name in amp_denials(root, server)}
    else:
        rules = [json_array(json_object(root.get("permissions")).get("deny")) for root in roots]
        denials = claude_code_denials(chain.from_iterable(rules), server)
    if _is_rejected(server, config, document, roots, project):
        config = {name: value for name, value in config.items() if name != "disabled"}
        config["enabled"] = False
    if not denials:
        return config
    permissions = {**json_object(config.get("tool_permissions")), **denials}
    return {**config, "tool_permissions": permissions}


def _is_rejected(
    server: str, config: Json, document: ConfigDocument, roots: list[Json], project: Path | None
) -> bool:
    """Whether the client does not connect to a server because of a list elsewhere.

    See https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md,
    https://ampcode.com/manual, and https://code.claude.com/docs/en/settings: servers of a project
    that were not approved. Claude Code also notes in `.claude.json` which ones a user switched off.
    """
    if "amp.mcpServers" in document.root:
        lists = [root["amp.mcpPermissions"] for root in roots if "amp.mcpPermissions" in root]
        return bool(lists) and _amp_action(json_array(lists[0]), config) == "reject"
    if document.path.parent.name == ".gemini":
        lists = json_object(document.root.get("mcp"))
        is_allowed = "allowed" not in lists or server in json_array(lists["allowed"])
        return not is_allowed or server in json_array(lists.get("excluded"))
    if document.path.name not in _CLAUDE_CODE_FILES or project is None:
        return False
    key = "disabledMcpjsonServers" if document.path.name == ".mcp.json" else "disabledMcpServers"
    projects = [json_object(json_object(root.get("projects")).get(str(project))) for root in roots]
    return any(server in json_array(root.get(key)) for root in (*roots, *projects))


def _amp_action(rules: Iterable[object], config: Json) -> object:
    """Return the action of the first rule that matches a server; None if none does."""
    texts = {
        "command": str(config.get("command", "")),
        "args": " ".join(map(str, json_array(config.get("args")))),
        "url": str(config.get("url", "")),
    }
    for rule in map(json_object, rules):
        patterns = json_object(rule.get("matches"))
        if patterns and all(
            re.fullmatch(".*".join(map(re.escape, str(pattern).split("*"))), texts.get(key, ""))
            for key, pattern in patterns.items()
        ):
            return rule.get("action")
    return None


def _roots(files: list[Path]) -> Iterator[Json]:
    """Yield the values of the files that can be read."""
    for path in files:
        try:
            yield read_document(path).root
        except SettingError:
            continue  # absent, or Claude Code does not use it either
