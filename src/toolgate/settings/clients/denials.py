"""Tools that a client denies outside the entry of their server."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from toolgate.errors import SettingError
from toolgate.settings.clients.files import OPENCODE_FILES
from toolgate.settings.clients.tool_lists import claude_code_denials, opencode_denials
from toolgate.settings.config_file import ConfigDocument, read_document
from toolgate.types import Json, json_array, json_object

__all__ = ["rule_files", "with_denials"]

_CLAUDE_CODE_FILES = frozenset({".claude.json", ".mcp.json"})


def rule_files(
    path: Path, *, project: Path | None, home: Path, environ: Mapping[str, str]
) -> list[Path]:
    """Return files that may deny tools of the servers in a client's file; some may not exist.

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
    if document.path.name in OPENCODE_FILES:
        denials = opencode_denials(document.root, server)
    else:
        denials = claude_code_denials(list(_claude_code_rules(files)), server)
    if not denials:
        return config
    permissions = {**json_object(config.get("tool_permissions")), **denials}
    return {**config, "tool_permissions": permissions}


def _claude_code_rules(files: list[Path]) -> Iterator[object]:
    """Yield the deny rules of Claude Code: https://code.claude.com/docs/en/settings."""
    for path in files:
        try:
            root = read_document(path).root
        except SettingError:
            continue  # absent, or Claude Code does not use it either
        yield from json_array(json_object(root.get("permissions")).get("deny"))
