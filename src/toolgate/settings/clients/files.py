"""Files of other MCP clients: where they list servers, and conversion of entries to our keys."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolgate.settings.clients.tool_lists import listed_tools
from toolgate.settings.config_file import ConfigDocument, KeyPath
from toolgate.settings.variables import find_inputs, to_input_variable
from toolgate.types import Json, json_array, json_object

SERVER_KEYS: tuple[KeyPath, ...] = (
    ("mcpServers",),
    ("servers",),
    ("context_servers",),
    ("mcp_servers",),
    ("mcp", "servers"),
    ("mcp", "mcpServers"),
    ("amp.mcpServers",),
)
"""Paths of servers: most clients, VS Code, Zed, Codex, older files of VS Code, Amp."""

_GOOSE = "extensions"
"""Key of servers and other extensions of Goose."""

_GOOSE_TYPES = frozenset({"stdio", "sse", "streamable_http"})
"""Types of extensions that are servers; the others are built into Goose."""

OPENCODE_FILES = frozenset({"opencode.json", "opencode.jsonc"})
"""Files in which `mcp` directly contains the servers."""

_PROJECT_FOLDERS = frozenset({
    ".ai", ".amp", ".claude", ".cline", ".codex", ".continue", ".cursor", ".gemini", ".junie",
    ".kiro", ".opencode", ".roo", ".trae", ".vscode", ".windsurf", ".zed",
})  # fmt: skip

_SAME = ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled",
         "enabled")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Translation:
    """Another client's entry, converted to our keys."""

    config: Json
    """Keys of `[server.NAME]`; variables are not replaced."""

    notices: tuple[str, ...] = ()
    """What could not be converted, for people."""

    client_only: str = ""
    """Why only its client can start the server; empty if Toolgate can."""


def server_tables(document: ConfigDocument, *, project: str = "") -> Iterator[tuple[KeyPath, Json]]:
    """Yield the tables of a document that hold servers by name, with their paths.

    Args:
        document: A file of any client.
        project: For `~/.claude.json`: return the servers of this project instead of the user's.
    """
    if project:
        path: KeyPath = ("projects", project, "mcpServers")
        node = _at(document.root, path)
        if node is not None:
            yield path, node
        return
    if document.is_yaml:
        yield from _yaml_tables(document)
        return
    any_found = False
    is_opencode = document.path.name in OPENCODE_FILES
    for path in [("mcp",)] if is_opencode else SERVER_KEYS:
        node = _at(document.root, path)
        if node is not None:
            any_found = True
            yield path, node
    if not any_found and document.root and all(map(_looks_like_server, document.root.values())):
        yield (), document.root


def _yaml_tables(document: ConfigDocument) -> Iterator[tuple[KeyPath, Json]]:
    """Yield servers of Goose, by name, or of Continue, a list whose items have names."""
    extensions = {
        name: entry
        for name, entry in json_object(document.root.get(_GOOSE)).items()
        if json_object(entry).get("type") in _GOOSE_TYPES
    }
    if extensions:
        yield (_GOOSE,), extensions
    listed = [json_object(entry) for entry in json_array(document.root.get("mcpServers"))]
    if listed:
        yield ("mcpServers",), {str(entry["name"]): entry for entry in listed if entry.get("name")}


def project_folder(path: Path, home: Path) -> Path | None:
    """Return the project folder that a client's file belongs to; None for a user's own file."""
    folder = path.parent
    if path.name == ".mcp.json":
        return None if folder == home else folder
    if path.name in OPENCODE_FILES and folder.name != ".opencode":
        return None if folder == home / ".config" / "opencode" else folder
    for folder in path.parents[:2]:  # some files are one folder deeper: .kiro/settings/mcp.json
        if folder.name in _PROJECT_FOLDERS and folder.parent != home:
            return folder.parent
    return None


def translate(entry: Json, path: Path) -> Translation:
    """Convert an entry to our own keys; what only concerns its client is dropped."""
    config: Json = {name: entry[name] for name in _SAME if entry.get(name) is not None}
    notices: list[str] = []
    if path.suffix in _YAML:
        _take_goose(entry, config, notices)
    _take_command(entry, config)
    _take_address(entry, config)
    _take_secrets(entry, config)
    if isinstance(environment := entry.get("environment"), dict):  # OpenCode
        config["env"] = {**cast("Json", environment), **json_object(config.get("env"))}
    if isinstance(env_file := entry.get("envFile"), str):
        config["env_file"] = env_file
    if config.get("type") == "":
        config.pop("type", None)
    if entry.get("disabled") is not None and entry.get("enabled") is not None:
        config["enabled"] = bool(entry["enabled"]) and not entry["disabled"]
        config.pop("disabled", None)
    timeout_s = _timeout_s(entry, path)
    if timeout_s is not None:
        config["timeout_s"] = timeout_s
    permissions, is_read = listed_tools(entry)
    if permissions:
        config["tool_permissions"] = permissions
    if not is_read:
        notices.append("its list of allowed or hidden tools cannot be read and is not taken over")
    for name in ("command", "args", "env", "cwd", "url", "headers", "env_file"):
        if name in config:
            if path.name in OPENCODE_FILES:
                config[name] = _from_opencode(config[name], notices)
            config[name] = _rewritten(config[name], notices, bare=_expands_bare_names(path))
    return Translation(
        config=config,
        notices=tuple(dict.fromkeys(notices)),
        client_only=_EXTENSION_OF_ZED if _belongs_to_extension(entry, config) else "",
    )


_EXTENSION_OF_ZED = (
    "a Zed extension starts it, and the file does not say how; with the command from the server's "
    "documentation: toolgate add NAME -- COMMAND"
)


def _belongs_to_extension(entry: Json, config: Json) -> bool:
    """Whether the code of a Zed extension starts the server: the file has only its settings.

    See https://zed.dev/docs/ai/mcp; older versions write no `source`.
    """
    if "command" in config or "url" in config:
        return False
    return entry.get("source") == "extension" or isinstance(entry.get("settings"), dict)


def _at(root: Json, path: KeyPath) -> Json | None:
    value: object = root
    for part in path:
        value = json_object(value).get(str(part))
    return cast("Json", value) if isinstance(value, dict) else None


def _looks_like_server(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    entry = cast("Json", value)
    return any(
        isinstance(entry.get(name), str) for name in ("command", "url", "httpUrl", "serverUrl")
    )


_YAML = frozenset({".yaml", ".yml"})


def _take_goose(entry: Json, config: Json, notices: list[str]) -> None:
    """Convert Goose's own key names; it stores some secrets in the system's keyring.

    See https://block.github.io/goose/docs/guides/config-files.
    """
    for theirs, ours in (("cmd", "command"), ("envs", "env"), ("uri", "url")):
        if entry.get(theirs) is not None:
            config[ours] = entry[theirs]
    variables = json_object(config.get("env"))
    kept = [str(name) for name in json_array(entry.get("env_keys")) if name not in variables]
    if kept and "command" in config:
        config["env"] = {**{name: f"${{{name}:-}}" for name in kept}, **variables}
        notices.append(
            f"Goose keeps {', '.join(kept)} in its keyring; give Toolgate its own with "
            "toolgate credentials set"
        )


def _take_command(entry: Json, config: Json) -> None:
    """Convert `command = {path, args, env}` of old Zed versions, and commands that are a list."""
    command: object = entry.get("command")
    if inner := json_object(entry.get("command")):
        config["command"] = inner.get("path", "")
        for name in ("args", "env"):
            if inner.get(name) is not None:
                config[name] = inner[name]
    elif isinstance(command, list) and command:
        words = cast("list[Any]", command)
        rest: object = config.get("args")
        config["command"] = words[0]
        config["args"] = [*words[1:], *(cast("list[Any]", rest) if isinstance(rest, list) else [])]
    if isinstance(config.get("env"), dict):
        pairs = json_object(config["env"]).items()
        config["env"] = {name: value for name, value in pairs if value is not None}
    if not config.get("command"):
        config.pop("command", None)
    if "command" in config and config.get("url") == "":
        config.pop("url")


def _take_address(entry: Json, config: Json) -> None:
    """Convert `serverUrl` of Windsurf, and `httpUrl` of Gemini CLI for streamable HTTP."""
    for name in ("serverUrl", "httpUrl"):
        if isinstance(entry.get(name), str) and entry[name]:
            config["url"] = entry[name]
            if name == "httpUrl":
                config["type"] = "http"
            return


def _take_secrets(entry: Json, config: Json) -> None:
    """Convert Codex's keys that name variables."""
    headers: Json = {}
    # Continue and Copilot in JetBrains wrap them in an object.
    inner = [json_object(entry.get(name)) for name in ("requestOptions", "requestInit")]
    inner_headers = [options.get("headers") for options in inner]
    for source in (config.get("headers"), entry.get("http_headers"), *inner_headers):
        if isinstance(source, dict):
            headers.update(cast("Json", source))
    if isinstance(by_variable := entry.get("env_http_headers"), dict):
        pairs = cast("Json", by_variable).items()
        headers.update({name: f"${{env:{variable}}}" for name, variable in pairs})
    if isinstance(variable := entry.get("bearer_token_env_var"), str) and variable:
        headers["Authorization"] = f"Bearer ${{env:{variable}}}"
    if headers:
        config["headers"] = {name: value for name, value in headers.items() if value is not None}
    if isinstance(passed := entry.get("env_vars"), list):
        variables: object = config.get("env")
        inherited: Json = {}
        for item in cast("list[object]", passed):
            name = cast("Json", item).get("name") if isinstance(item, dict) else item
            if isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                inherited[name] = f"${{{name}:-}}"
        config["env"] = {
            **inherited,
            **(cast("Json", variables) if isinstance(variables, dict) else {}),
        }


def _timeout_s(entry: Json, path: Path) -> float | None:
    """Return the call timeout: in Codex, Cline, Roo and Goose seconds, elsewhere milliseconds."""
    if path.name in OPENCODE_FILES:  # here it is the timeout of listing tools
        return None
    for name, factor in (("tool_timeout_sec", 1.0), ("timeout", _timeout_unit_s(path))):
        value: object = entry.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9:
            return min(max(round(value * factor, 3), 0.001), 86_400.0)
    return None


def _timeout_unit_s(path: Path) -> float:
    is_roo = path.name == "mcp_settings.json" or path.parent.name == ".roo"
    is_goose = path.parent.name in {"goose", "config"} and path.suffix in _YAML
    return 1.0 if is_roo or is_goose or path.name == "cline_mcp_settings.json" else 0.001


def _expands_bare_names(path: Path) -> bool:
    """Whether the client replaces `$NAME` without braces; only Gemini CLI does."""
    return path.parent.name == ".gemini"


def _from_opencode(value: object, notices: list[str]) -> object:
    """Convert `{env:NAME}` in a value to our notation; see https://opencode.ai/docs/config."""
    if isinstance(value, str):
        if "{file:" in value:
            notices.append("{file:...} is not filled in; write the text or a variable in its place")
        return re.sub(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${env:\1}", value)
    if isinstance(value, list):
        return [_from_opencode(item, notices) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _from_opencode(item, notices) for name, item in pairs}
    return value


_SECRET_OF_CONTINUE = re.compile(r"(\$\{\{\s*(?:secrets|inputs)\.([\w./-]+)\s*\}\})")
"""See https://docs.continue.dev/reference: `${{ secrets.NAME }}`."""


def _rewritten(value: object, notices: list[str], *, bare: bool) -> object:
    """Convert other clients' variables in a value to our notation."""
    if isinstance(value, str):
        for placeholder, name in _SECRET_OF_CONTINUE.findall(value):
            variable = to_input_variable(name)
            value = value.replace(placeholder, f"${{env:{variable}}}")
            notices.append(f"its secret {name!r} is now ${{env:{variable}}}")
        for input_id in find_inputs(value):
            variable = to_input_variable(input_id)
            value = value.replace(f"${{input:{input_id}}}", f"${{env:{variable}}}")
            notices.append(f"its input {input_id!r} is now ${{env:{variable}}}")
        if bare:
            value = re.sub(r"\$([A-Za-z_][A-Za-z0-9_]*)", r"${\1}", value)
        return value
    if isinstance(value, list):
        return [_rewritten(item, notices, bare=bare) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _rewritten(item, notices, bare=bare) for name, item in pairs}
    return value
