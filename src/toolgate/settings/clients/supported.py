"""MCP clients that people use: where their files lie, what stands in them, how Toolgate is entered.

Paths are those of the clients' own documentation; each client reads further places that nobody
writes by hand, which are left out.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from toolgate.base.installation import current_installation
from toolgate.errors import SettingError
from toolgate.settings import (
    ConfigDocument,
    config_dir,
    current_environment,
    fill_known,
    home_dir,
    is_toolgate,
    json_spans,
    parse_document,
    project_folder,
    read_document,
    read_text,
    render_table,
    server_tables,
    translate,
    without_table,
)
from toolgate.settings.clients.tool_lists import claude_code_denials, opencode_denials
from toolgate.types import Json, json_array, json_object

__all__ = [
    "CLIENTS",
    "Client",
    "ClientFile",
    "FoundServer",
    "Launch",
    "Machine",
    "find",
    "launch_of_this_program",
    "with_toolgate",
]

Platform: TypeAlias = Literal["linux", "darwin", "win32"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where to look: everything that decides about paths, so that tests can decide it."""

    home: Path
    """The user's home folder."""

    cwd: Path
    """The folder whose project files are looked for."""

    environ: Mapping[str, str]
    """Variables that move folders."""

    platform: Platform
    """Customs to follow."""

    @property
    def programs(self) -> Path:
        """Where desktop programs keep their settings."""
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.xdg_config

    @property
    def xdg_config(self) -> Path:
        """`~/.config`, or where the user moved it."""
        moved = Path(self.environ.get("XDG_CONFIG_HOME", ""))
        return moved if moved.is_absolute() else self.home / ".config"

    def moved(self, variable: str, default: Path) -> Path:
        """A folder that a variable may move."""
        value = self.environ.get(variable, "")
        return Path(value) if value else default

    @classmethod
    def this(cls, *, cwd: Path | None = None) -> "Machine":
        """The machine and user of this process."""
        platform: Platform = "linux"
        if sys.platform in {"darwin", "win32"}:
            platform = cast("Platform", sys.platform)
        return cls(
            home=home_dir(), cwd=cwd or Path.cwd(), environ=current_environment(), platform=platform
        )


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client program."""

    name: str
    """Short, for suffixes of server names and `--json`."""

    title: str
    """As people call it."""

    key: str
    """Where its files hold servers."""

    project_files: tuple[str, ...] = ()
    """Files inside a project, relative to its folder."""

    entry: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its entries have beside `command` and `args`."""

    has_command_list: bool = False
    """Whether `command` is one list that also holds the arguments."""


@dataclass(frozen=True, kw_only=True)
class FoundServer:
    """One server in a file of a client."""

    name: str
    """As it is called there."""

    config: Json
    """In keys of `[server.NAME]`; variables are still variables. WARNING: may hold secrets."""

    project: str = ""
    """For entries of one project inside a user's file: the folder of the project."""

    is_toolgate: bool = False
    """Whether it is Toolgate itself."""

    notices: tuple[str, ...] = ()
    """What could not be taken over, for people."""


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """One file of a client that exists."""

    client: Client
    """Whose it is."""

    path: Path
    """Where it lies."""

    scope: Literal["user", "project"]
    """`project` files are often shared with others."""

    servers: tuple[FoundServer, ...] = ()
    """What stands in it, in its order."""

    error: str = ""
    """Why it cannot be read; empty when all is well."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a client starts Toolgate."""

    command: str
    """The program, as a path where one is known: desktop programs have a short PATH."""

    args: tuple[str, ...]
    """Its arguments, ending in `stdio` and its options."""


CLAUDE_DESKTOP = Client(name="claude-desktop", title="Claude Desktop", key="mcpServers")
CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    key="mcpServers",
    project_files=(".mcp.json",),
    entry={"type": "stdio"},
)
CURSOR = Client(
    name="cursor", title="Cursor", key="mcpServers", project_files=(".cursor/mcp.json",)
)
VS_CODE = Client(
    name="vscode",
    title="VS Code",
    key="servers",
    project_files=(".vscode/mcp.json",),
    entry={"type": "stdio"},
)
WINDSURF = Client(name="windsurf", title="Windsurf", key="mcpServers")
ZED = Client(
    name="zed",
    title="Zed",
    key="context_servers",
    project_files=(".zed/settings.json",),
    entry={"source": "custom"},
)
CLINE = Client(name="cline", title="Cline", key="mcpServers")
GEMINI = Client(
    name="gemini", title="Gemini CLI", key="mcpServers", project_files=(".gemini/settings.json",)
)
CODEX = Client(
    name="codex", title="Codex", key="mcp_servers", project_files=(".codex/config.toml",)
)
# https://docs.continue.dev/customize/deep-dives/mcp: JSON files in the format of other clients.
CONTINUE = Client(
    name="continue",
    title="Continue",
    key="mcpServers",
    project_files=(".continue/mcpServers/*.json",),
)
# https://opencode.ai/docs/mcp-servers and https://opencode.ai/docs/config
OPENCODE = Client(
    name="opencode",
    title="OpenCode",
    key="mcp",
    project_files=("opencode.json", "opencode.jsonc", ".opencode/opencode.json"),
    entry={"type": "local", "enabled": True},
    has_command_list=True,
)
# https://lmstudio.ai/docs/app/mcp: the notation of Cursor.
LM_STUDIO = Client(name="lmstudio", title="LM Studio", key="mcpServers")
# https://kiro.dev/docs/mcp/configuration
KIRO = Client(
    name="kiro", title="Kiro", key="mcpServers", project_files=(".kiro/settings/mcp.json",)
)
# https://docs.roocode.com/features/mcp/using-mcp-in-roo
ROO_CODE = Client(name="roo", title="Roo Code", key="mcpServers", project_files=(".roo/mcp.json",))
# https://ampcode.com/manual: a key with a dot, in settings.json or settings.jsonc.
AMP = Client(
    name="amp",
    title="Amp",
    key="amp.mcpServers",
    project_files=(".amp/settings.json", ".amp/settings.jsonc"),
)
# https://github.com/ChromeDevTools/chrome-devtools-mcp#getting-started
ANTIGRAVITY = Client(name="antigravity", title="Antigravity", key="mcpServers")
# https://github.com/pathintegral-institute/mcpm.sh/issues/92; the project file:
# https://www.volcengine.com/docs/86677/2137601
TRAE = Client(name="trae", title="Trae", key="mcpServers", project_files=(".trae/mcp.json",))
# https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html
JUNIE = Client(
    name="junie",
    title="JetBrains Junie",
    key="mcpServers",
    project_files=(".junie/mcp/mcp.json",),
)

CLIENTS = (
    CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE, WINDSURF, ZED, CLINE, GEMINI, CODEX, CONTINUE,
    OPENCODE, LM_STUDIO, KIRO, ROO_CODE, AMP, ANTIGRAVITY, TRAE, JUNIE,
)  # fmt: skip
"""Every client that is looked for, in the order in which its servers are taken."""

_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Kiro", "Trae")
"""Folders of editors that extensions of VS Code live in."""


def find(machine: Machine) -> list[ClientFile]:
    """Every file of a known client that exists and names servers, or that cannot be read."""
    files: list[ClientFile] = []
    seen: set[Path] = set()
    for client in CLIENTS:
        for path in _user_files(client, machine):
            files += _read(client, path, "user", machine, seen)
    for folder in _project_chain(machine):
        for client in CLIENTS:
            for name in client.project_files:
                paths = sorted(folder.glob(name)) if "*" in name else [folder / name]
                for path in paths:
                    files += _read(client, path, "project", machine, seen)
    return files


def launch_of_this_program(config: Path | None = None) -> Launch:
    """How a client starts the Toolgate that runs now.

    Args:
        config: The `toolgate.toml`, if it does not lie where Toolgate looks by itself.

    Raises:
        SettingError: It runs from a temporary environment whose source cannot be named.
    """
    args = ["stdio"]
    if config is not None and config != config_dir() / "toolgate.toml":
        args += ["--config", str(config)]
    installation = current_installation()
    if installation.is_temporary:
        program, *rest = installation.start_command()
        return Launch(command=program, args=(*rest, *args))
    program = shutil.which("toolgate", path=str(Path(sys.executable).parent))
    program = program or shutil.which("toolgate")
    if program is None:
        return Launch(command=sys.executable, args=("-m", "toolgate", *args))
    return Launch(command=program, args=tuple(args))


def with_toolgate(file: ClientFile, launch: Launch, taken: Sequence[FoundServer]) -> str:
    """The text of a client's file with Toolgate in place of the servers that were taken.

    Everything else stays as it stands: other servers, other settings, comments outside.

    Raises:
        SettingError: The file is written in a way that cannot be changed without touching the rest.
    """
    text = read_text(file.path)
    document = parse_document(text, file.path)
    entry: Json = {**file.client.entry, "command": launch.command, "args": list(launch.args)}
    if file.client.has_command_list:
        entry["command"] = [launch.command, *entry.pop("args")]
    gone = {(server.project, server.name) for server in taken}
    if document.is_toml:
        return _toml_with_toolgate(document, entry, gone)
    return _json_with_toolgate(document, entry, gone)


def _json_with_toolgate(document: ConfigDocument, entry: Json, gone: set[tuple[str, str]]) -> str:
    text = document.text
    spans = json_spans(text)
    edits: list[tuple[int, int, str]] = []
    entered = False
    for project in dict.fromkeys(["", *sorted({project for project, _ in gone})]):
        for path, servers in server_tables(document, project=project):
            left = {
                name: value
                for name, value in servers.items()
                if (project, name) not in gone and not is_toolgate(json_object(value))
            }
            if not project and not entered:
                left = {"toolgate": entry, **left}
                entered = True
            span = spans[path]
            edits.append((span.start, span.end, _rendered(left, text, len(path), span.start)))
    if not entered:
        start = spans[()].start + 1
        table = _rendered({"toolgate": entry}, text, 1, start)
        comma = "," if document.root else ""
        edits.append((start, start, f'{_break(text)}  "mcpServers": {table}{comma}'))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    parse_document(text, document.path)
    return text


def _toml_with_toolgate(document: ConfigDocument, entry: Json, gone: set[tuple[str, str]]) -> str:
    root = document.root
    servers = json_object(root.get("mcp_servers"))
    text = document.text
    for name, value in servers.items():
        if ("", name) in gone or is_toolgate(json_object(value)):
            text = without_table(text, ("mcp_servers", name))
    left = {
        name: value
        for name, value in servers.items()
        if ("", name) not in gone and not is_toolgate(json_object(value))
    }
    text = f"{text.rstrip()}\n\n{render_table(('mcp_servers', 'toolgate'), entry)}".lstrip()
    new_root = {**root, "mcp_servers": {**left, "toolgate": entry}}
    if parse_document(text, document.path).root != new_root:
        raise SettingError(
            f"{document.path} is written in a way that cannot be changed by itself.",
            hint="Put the entry of Toolgate there by hand; the README shows it.",
        )
    return text


def _rendered(servers: Json, text: str, depth: int, at: int) -> str:
    """An object as text that fits in at this place: the file's own indentation and line ends."""
    if "\n" not in text.strip():
        return json.dumps(servers, ensure_ascii=False)
    line = text[text.rfind("\n", 0, at) + 1 : at]
    base = line[: len(line) - len(line.lstrip())]
    unit = base[: len(base) // depth] if depth and base else "  "
    lines = json.dumps(servers, ensure_ascii=False, indent=unit).split("\n")
    return f"{_break(text)}{base}".join(lines)


def _break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _user_files(client: Client, machine: Machine) -> Iterator[Path]:
    home, programs = machine.home, machine.programs
    match client.name:
        case "claude-desktop":
            yield programs / "Claude" / "claude_desktop_config.json"
            if machine.platform == "win32":
                local = machine.moved("LOCALAPPDATA", home / "AppData" / "Local")
                tail = "LocalCache/Roaming/Claude/claude_desktop_config.json"
                yield from sorted(local.glob(f"Packages/Claude_*/{tail}"))
        case "claude-code":
            yield machine.moved("CLAUDE_CONFIG_DIR", home) / ".claude.json"
        case "cursor":
            yield home / ".cursor" / "mcp.json"
        case "vscode":
            for editor in ("Code", "Code - Insiders", "VSCodium"):
                user = programs / editor / "User"
                yield user / "mcp.json"
                yield from sorted(user.glob("profiles/*/mcp.json"))
                yield user / "settings.json"
        case "windsurf":
            yield home / ".codeium" / "windsurf" / "mcp_config.json"
            yield home / ".codeium" / "mcp_config.json"
        case "zed":
            zed = programs / "Zed" if machine.platform == "win32" else machine.xdg_config / "zed"
            yield zed / "settings.json"
        case "cline":
            storage = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
            for editor in _EDITORS:
                yield programs / editor / storage
            cline = home / ".cline" / "data" / "settings" / "cline_mcp_settings.json"
            yield machine.moved("CLINE_MCP_SETTINGS_PATH", cline)
        case "gemini":
            yield home / ".gemini" / "settings.json"
        case "codex":
            yield machine.moved("CODEX_HOME", home / ".codex") / "config.toml"
        case "roo":
            storage = "User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
            for editor in _EDITORS:
                yield programs / editor / storage
        case "trae":
            for editor in ("Trae", "Trae CN"):
                yield programs / editor / "User" / "mcp.json"
                yield programs / editor / "mcp.json"
        case "continue":
            yield from sorted((home / ".continue" / "mcpServers").glob("*.json"))
        case "opencode":
            yield machine.moved("OPENCODE_CONFIG", machine.xdg_config / "opencode/opencode.json")
            yield machine.xdg_config / "opencode" / "opencode.jsonc"
        case "amp":
            amp = home / ".config" if machine.platform == "win32" else machine.xdg_config
            default = amp / "amp" / "settings.json"
            yield machine.moved("AMP_SETTINGS_FILE", default)
            yield default.with_suffix(".jsonc")
        case _:
            yield from (home / name for name in _HOME_FILES[client.name])


_HOME_FILES: Mapping[str, tuple[str, ...]] = {
    # The second place is that of installations from before 0.3.
    "lmstudio": (".lmstudio/mcp.json", ".cache/lm-studio/mcp.json"),
    "kiro": (".kiro/settings/mcp.json",),
    "antigravity": (".gemini/antigravity/mcp_config.json",),
    "junie": (".junie/mcp/mcp.json",),
}
"""Files of clients that lie at the same place in the home folder on every platform."""


def _project_chain(machine: Machine) -> list[Path]:
    """The current folder and those around it, up to the root of the repository."""
    chain: list[Path] = []
    for folder in (machine.cwd, *machine.cwd.parents):
        if folder == machine.home or folder == folder.parent:
            return chain[:1]
        chain.append(folder)
        if (folder / ".git").exists():
            return chain
    return chain[:1]


def _read(
    client: Client,
    path: Path,
    scope: Literal["user", "project"],
    machine: Machine,
    seen: set[Path],
) -> Iterator[ClientFile]:
    try:
        whole = path.resolve()
        if whole in seen or not path.is_file():
            return
        seen.add(whole)
        document = read_document(path)
    except (OSError, SettingError) as error:
        yield ClientFile(client=client, path=path, scope=scope, error=str(error))
        return
    table: object = document.root.get(client.key)
    if table is not None and not isinstance(table, dict):
        error = document.error(
            (client.key,),
            f"{client.key} is no object with servers by name.",
            hint="Correct the file, or ignore this if you do not use it.",
        )
        yield ClientFile(client=client, path=path, scope=scope, error=str(error))
        return
    folder = project_folder(path, machine.home) if scope == "project" else None
    servers = [
        _server(name, json_object(entry), document, folder, machine)
        for _, table in server_tables(document)
        for name, entry in table.items()
    ]
    for project, settings in json_object(document.root.get("projects")).items():
        inner = json_object(json_object(settings).get("mcpServers"))
        servers += [
            _server(name, json_object(entry), document, Path(project), machine, project=project)
            for name, entry in inner.items()
        ]
    servers = [_with_denials(server, client, document, folder, machine) for server in servers]
    if servers:
        yield ClientFile(client=client, path=path, scope=scope, servers=tuple(servers))


def _server(
    name: str,
    entry: Any,
    document: ConfigDocument,
    folder: Path | None,
    machine: Machine,
    *,
    project: str = "",
) -> FoundServer:
    translation = translate(entry, document.path)
    return FoundServer(
        name=name,
        config=_settled(translation.config, folder, document.path, machine),
        project=project,
        is_toolgate=is_toolgate(entry),
        notices=translation.notices,
    )


def _with_denials(
    server: FoundServer,
    client: Client,
    document: ConfigDocument,
    folder: Path | None,
    machine: Machine,
) -> FoundServer:
    """The server without the tools that its client denies elsewhere than in its entry."""
    denials: dict[str, bool] = {}
    if client is OPENCODE:
        denials = opencode_denials(document.root, server.name)
    elif client is CLAUDE_CODE:
        project = Path(server.project) if server.project else folder
        rules = list(_claude_code_rules(project, machine))
        denials = claude_code_denials(rules, server.name)
    if not denials:
        return server
    permissions = {**json_object(server.config.get("tool_permissions")), **denials}
    return replace(server, config={**server.config, "tool_permissions": permissions})


def _claude_code_rules(project: Path | None, machine: Machine) -> Iterator[object]:
    """What Claude Code denies: https://code.claude.com/docs/en/settings."""
    user = machine.moved("CLAUDE_CONFIG_DIR", machine.home / ".claude")
    paths = [user / "settings.json"]
    if project is not None:
        paths += [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
    for path in paths:
        try:
            root = read_document(path).root
        except (OSError, SettingError):
            continue  # absent, or Claude Code does not use it either
        yield from json_array(json_object(root.get("permissions")).get("deny"))


def _absolute(path: str, base: Path) -> str:
    """A path that may be written elsewhere; one that starts with a variable stays as it is."""
    return path if path.startswith(("~", "${")) else str(base / path)


def _settled(config: Json, folder: Path | None, path: Path, machine: Machine) -> Json:
    """The configuration as it means the same in a file elsewhere."""
    base = folder or path.parent
    values = {"userHome": str(machine.home)}
    if folder is not None:
        values |= {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "CLAUDE_PROJECT_DIR": str(folder),
        }
    settled: Json = {name: fill_known(value, values) for name, value in config.items()}
    if folder is not None and isinstance(settled.get("command"), str):
        settled.setdefault("cwd", str(folder))
    if isinstance(settled.get("command"), str) and re.match(r"\.{1,2}[\\/]", settled["command"]):
        settled["command"] = str(base / settled["command"])
    for name in ("cwd", "env_file"):
        if isinstance(settled.get(name), str) and settled[name]:
            settled[name] = _absolute(settled[name], base)
    if settled.get("type") == "stdio":
        del settled["type"]
    return {name: value for name, value in settled.items() if value not in ({}, [], "")}
