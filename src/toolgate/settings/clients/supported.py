"""Supported MCP clients: the locations and contents of their files, and how they start Toolgate.

The paths are from the clients' documentation. Further locations that clients read but that
nobody edits by hand are left out.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from toolgate.base.installation import current_installation
from toolgate.errors import SettingError
from toolgate.settings import (
    ConfigDocument,
    config_dir,
    current_environment,
    expand_home,
    fill_known,
    home_dir,
    is_toolgate,
    project_folder,
    read_document,
    server_tables,
    translate,
)
from toolgate.settings.clients.denials import rule_files, with_denials
from toolgate.types import Json, json_object

Platform: TypeAlias = Literal["linux", "darwin", "win32"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Everything that determines the paths of files, so that tests can set it."""

    home: Path
    """The user's home folder."""

    cwd: Path
    """The folder in which project files are searched."""

    environ: Mapping[str, str]
    """Variables that move folders."""

    platform: Platform
    """The platform, which decides about folders."""

    @property
    def programs(self) -> Path:
        """The folder of desktop programs' settings."""
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.xdg_config

    @property
    def xdg_config(self) -> Path:
        """`~/.config`, or the folder that the user chose instead."""
        moved = Path(self.environ.get("XDG_CONFIG_HOME", ""))
        return moved if moved.is_absolute() else self.home / ".config"

    def moved(self, variable: str, default: Path) -> Path:
        """Return a folder from a variable, or else the default."""
        value = self.environ.get(variable, "")
        return Path(value) if value else default

    @classmethod
    def this(cls, *, cwd: Path | None = None) -> "Machine":
        """Return the machine and user of this process."""
        platform: Platform = "linux"
        if sys.platform in {"darwin", "win32"}:
            platform = cast("Platform", sys.platform)
        return cls(
            home=home_dir(), cwd=cwd or Path.cwd(), environ=current_environment(), platform=platform
        )


@dataclass(frozen=True, kw_only=True)
class Client:
    """An MCP client."""

    name: str
    """Short name, for suffixes of server names and `--json`."""

    title: str
    """Display name."""

    key: str
    """Key of the servers in its files."""

    project_files: tuple[str, ...] = ()
    """Project files, relative to the project folder."""

    has_own_path: bool = False
    """Whether its PATH is not that of the user's shell, so that entries have to name one."""

    entry: Mapping[str, object] = field(default_factory=dict[str, object])
    """Keys of its entries besides `command` and `args`."""

    has_command_list: bool = False
    """Whether `command` is a list that includes the arguments."""

    command_key: str = "command"
    """Key of the command in its entries."""


@dataclass(frozen=True, kw_only=True)
class FoundServer:
    """A server in a file of a client."""

    name: str
    """Its name in the file."""

    config: Json
    """Keys of `[server.NAME]`; variables are not replaced. WARNING: may hold secrets."""

    project: str = ""
    """The project folder, for entries of a project in a user's file."""

    is_toolgate: bool = False
    """Whether it is Toolgate itself."""

    notices: tuple[str, ...] = ()
    """What could not be converted, for people."""

    client_only: str = ""
    """Why only its client can start it; empty if Toolgate can."""


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """An existing file of a client."""

    client: Client
    """The client that owns it."""

    path: Path
    """Path of the file."""

    scope: Literal["user", "project"]
    """Who it applies to; `project` files are often shared with others."""

    servers: tuple[FoundServer, ...] = ()
    """Its servers, in their order."""

    error: str = ""
    """Why it cannot be read; empty if it can."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a client starts Toolgate."""

    command: str
    """The program, as a path if one is known, since desktop programs have a short PATH."""

    args: tuple[str, ...]
    """Arguments, ending in `stdio` and its options."""

    search_path: str
    """The PATH of this program, in which the programs of servers were found."""


CLAUDE_DESKTOP = Client(
    name="claude-desktop", title="Claude Desktop", key="mcpServers", has_own_path=True
)
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
# https://docs.continue.dev/customize/deep-dives/mcp: JSON files in the format of other clients,
# and YAML with a list of servers.
CONTINUE = Client(
    name="continue",
    title="Continue",
    key="mcpServers",
    project_files=(".continue/mcpServers/*.json", ".continue/mcpServers/*.y*ml"),
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
# https://lmstudio.ai/docs/app/mcp: the format of Cursor.
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
# https://youtrack.jetbrains.com/issue/LLM-22682: JSON since 2025.3; older versions use XML, which
# a running IDE overwrites.
JETBRAINS = Client(
    name="jetbrains",
    title="JetBrains AI Assistant",
    key="mcpServers",
    project_files=(".ai/mcp/mcp.json",),
)
# https://docs.github.com/en/copilot/how-tos/provide-context/use-mcp/extend-copilot-chat-with-mcp
COPILOT_JETBRAINS = Client(
    name="copilot-jetbrains",
    title="GitHub Copilot in JetBrains",
    key="servers",
    entry={"type": "stdio"},
)
# https://block.github.io/goose/docs/guides/config-files
GOOSE = Client(
    name="goose",
    title="Goose",
    key="extensions",
    entry={"type": "stdio", "name": "toolgate", "enabled": True, "timeout": 300},
    command_key="cmd",
)

CLIENTS = (
    CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE, WINDSURF, ZED, CLINE, GEMINI, CODEX, CONTINUE,
    OPENCODE, LM_STUDIO, KIRO, ROO_CODE, AMP, ANTIGRAVITY, TRAE, JUNIE, JETBRAINS,
    COPILOT_JETBRAINS, GOOSE,
)  # fmt: skip
"""All supported clients, in the order in which their servers are imported."""

_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Kiro", "Trae")
"""Folders of editors in which VS Code extensions store settings."""


def find(machine: Machine) -> list[ClientFile]:
    """Return every existing file of a known client that has servers or cannot be read."""
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


def launch_of_this_program(config: Path | None = None, imports: Sequence[str] = ()) -> Launch:
    """Return the command with which a client starts the Toolgate that is running now.

    Args:
        config: The `toolgate.toml`, if it is not in a location where Toolgate looks by default.
        imports: Files of `--import`.

    Raises:
        SettingError: It runs from a temporary environment whose source cannot be named.
    """
    args = ["stdio"]
    if config is not None and config != config_dir() / "toolgate.toml":
        args += ["--config", str(config)]
    for path in imports:
        args += ["--import", os.path.realpath(expand_home(path))]
    installation = current_installation()
    if installation.is_temporary:
        program, *rest = installation.start_command()
    else:
        beside = shutil.which("toolgate", path=str(Path(sys.executable).parent))
        program, rest = beside or shutil.which("toolgate") or "", []
        if not program:
            program, rest = sys.executable, ["-m", "toolgate"]
    search_path = current_environment().get("PATH", os.defpath)
    return Launch(command=program, args=(*rest, *args), search_path=search_path)


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
            yield from (home / ".continue" / name for name in ("config.yaml", "config.yml"))
            for pattern in ("*.json", "*.y*ml"):
                yield from sorted((home / ".continue" / "mcpServers").glob(pattern))
        case "copilot-jetbrains":
            local = machine.moved("LOCALAPPDATA", home / "AppData" / "Local")
            folder = local if machine.platform == "win32" else machine.xdg_config
            yield folder / "github-copilot" / "intellij" / "mcp.json"
        case "goose":
            windows = programs / "Block" / "goose" / "config"
            folder = windows if machine.platform == "win32" else machine.xdg_config / "goose"
            yield folder / "config.yaml"
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
    # The second location is that of versions before 0.3.
    "lmstudio": (".lmstudio/mcp.json", ".cache/lm-studio/mcp.json"),
    "kiro": (".kiro/settings/mcp.json",),
    "antigravity": (".gemini/antigravity/mcp_config.json",),
    "junie": (".junie/mcp/mcp.json",),
    "jetbrains": (".ai/mcp/mcp.json",),
}
"""Files in the home folder whose location is the same on every platform."""


def _project_chain(machine: Machine) -> list[Path]:
    """Return the current folder and its parents, up to the root of the repository."""
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
    fits = isinstance(table, dict) or (client is CONTINUE and isinstance(table, list))
    if table is not None and not fits:
        error = document.error(
            (client.key,),
            f"{client.key} is not an object with servers by name.",
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
    config = _settled(translation.config, folder, document.path, machine)
    rules = rule_files(document.path, project=folder, home=machine.home, environ=machine.environ)
    return FoundServer(
        name=name,
        config=with_denials(config, name, document, rules, project=folder),
        project=project,
        is_toolgate=is_toolgate(entry),
        notices=translation.notices,
        client_only=translation.client_only,
    )


def _absolute(path: str, base: Path) -> str:
    """Return a path that is valid in files elsewhere; leading variables are left unchanged."""
    return path if path.startswith(("~", "${")) else str(base / path)


def _settled(config: Json, folder: Path | None, path: Path, machine: Machine) -> Json:
    """Return a configuration that means the same in a file elsewhere."""
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
