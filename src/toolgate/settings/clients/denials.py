"""Tools and servers that a client denies outside the entry of the server."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from toolgate.errors import SettingError
from toolgate.settings.clients.files import OPENCODE_FILES
from toolgate.settings.clients.tool_lists import claude_code_denials, opencode_denials
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
    if path.name not in _CLAUDE_CODE_FILES:
        return []
    moved = environ.get("CLAUDE_CONFIG_DIR", "")
    paths = [(Path(moved) if moved else home / ".claude") / "settings.json"]
    if project is not None:
        paths += [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return paths


def with_denials(config: Json, server: str, document: ConfigDocument, files: list[Path]) -> Json:
    """Return the configuration of a server, extended by the denials of its client.

    Args:
        config: Keys of `[server.NAME]`.
        server: Its name in the client's file.
        document: The client's file.
        files: The result of `rule_files` for it.
    """
    roots = list(_roots(files))
    if document.path.name in OPENCODE_FILES:
        denials = opencode_denials(document.root, server)
    else:
        rules = [json_array(json_object(root.get("permissions")).get("deny")) for root in roots]
        denials = claude_code_denials(chain.from_iterable(rules), server)
    if _is_rejected(server, document, roots):
        config = {name: value for name, value in config.items() if name != "disabled"}
        config["enabled"] = False
    if not denials:
        return config
    permissions = {**json_object(config.get("tool_permissions")), **denials}
    return {**config, "tool_permissions": permissions}


def _is_rejected(server: str, document: ConfigDocument, roots: list[Json]) -> bool:
    """Whether the client does not connect to a server because of a list elsewhere.

    See https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md and
    https://code.claude.com/docs/en/settings: servers of a project that were not approved.
    """
    if document.path.parent.name == ".gemini":
        lists = json_object(document.root.get("mcp"))
        is_allowed = "allowed" not in lists or server in json_array(lists["allowed"])
        return not is_allowed or server in json_array(lists.get("excluded"))
    if document.path.name != ".mcp.json":
        return False
    return any(server in json_array(root.get("disabledMcpjsonServers")) for root in roots)


def _roots(files: list[Path]) -> Iterator[Json]:
    """Yield the values of the files that can be read."""
    for path in files:
        try:
            yield read_document(path).root
        except SettingError:
            continue  # absent, or Claude Code does not use it either
