"""After `init --write-back`, clients start exactly the Toolgate that the user ran.

The wheel is built and installed into real environments, laid out as their installers do. No
package index is needed: the dependencies are those of the environment that runs the tests.
"""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

import toolgate
from tests.cli.conftest import SMALL_SERVER
from tests.limits import HANG_S
from toolgate import __version__

pytestmark = [
    pytest.mark.real,
    pytest.mark.xdist_group("installed-clients"),
    pytest.mark.skipif(sys.platform == "win32", reason="The environments have POSIX folders."),
]

ROOT = Path(__file__).parents[2]
PACKAGE = Path(toolgate.__file__).parent
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    },
}

INSTALL = """\
set -e
"{python}" -m venv --without-pip "{folder}"
echo "{libraries}" > "$(echo "{folder}"/lib/python*/site-packages)/dependencies.pth"
pip() {{ "{python}" -m pip -q --python "{folder}/bin/python" "$@"; }}
pip install --no-deps --no-index --no-compile "{source}"
cd "{folder}"/lib/python*/site-packages/toolgate
cp -R "{compiled}/." .
sed -i.old 's/^__version__ = .*/__version__ = "{version}"/' __init__.py
"""
"""Makes an environment whose Toolgate says which one it is."""

UVX = """\
#!/bin/sh
[ "$1" = --from ] || exit 64
source="$2"
shift 2
({install})
exec "{folder}/bin/$@"
"""
"""What uvx does: it makes an environment for a requirement, and runs a program in it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bytecode of this checkout: each environment would compile the package anew, in 2 s."""
    folder = tmp_path_factory.mktemp("compiled")
    for source in PACKAGE.rglob("*/*.py"):  # `__init__.py` says the version, which differs
        cached = Path(cache_from_source(str(source)))
        bytecode = cached.read_bytes() if cached.is_file() else b""
        seen = source.stat()
        current = (0, int(seen.st_mtime), seen.st_size)
        if bytecode[:16] == MAGIC_NUMBER + b"".join(part.to_bytes(4, "little") for part in current):
            copy = folder / cached.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            # An unchecked hash instead of the time, which is another for an installed source.
            copy.write_bytes(MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + bytecode[16:])
    return folder


def _install(folder: Path, source: str, version: str, compiled: Path) -> str:
    """The commands that make an environment."""
    return INSTALL.format(
        python=sys.executable,
        folder=folder,
        libraries=sysconfig.get_path("purelib"),
        source=source,
        version=version,
        compiled=compiled,
    )


def _run(
    command: Sequence[str], *, cwd: Path, home: Path | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command, with the few variables that a client has, if there is a `home`."""
    env = None if home is None else {"HOME": str(home), "PATH": f"{home}/.local/bin:/usr/bin:/bin"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _started_by_the_client(program: Sequence[str], home: Path, *, before: str = "") -> str:
    """Run init with a program; gives the version that says hello when the client starts it.

    Args:
        program: Command of Toolgate.
        home: Home folder of the user.
        before: Shell commands to run between `init` and the client's start.
    """
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True)
    server = {"command": sys.executable, "args": [str(SMALL_SERVER)]}
    file.write_text(json.dumps({"mcpServers": {"small": server}}))
    _run([*program, "init", "--yes", "--write-back", "--no-check"], cwd=home, home=home)
    if before:
        _run(["sh", "-c", before], cwd=home)
    servers = json.loads(file.read_text())["mcpServers"]
    assert list(servers) == ["toolgate"]
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    command = [servers["toolgate"]["command"], *servers["toolgate"]["args"]]
    said = _run(command, cwd=elsewhere, home=home, text=json.dumps(HELLO) + "\n")
    return json.loads(said.stdout.splitlines()[0])["result"]["serverInfo"]["version"]


def test_a_client_starts_the_toolgate_of_a_virtual_environment(
    wheel: Path, compiled: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "my env"
    _run(["sh", "-c", _install(environment, str(wheel), "0.1.0+venv", compiled)], cwd=tmp_path)
    for name, program in {
        "script": [f"{environment}/bin/toolgate"],
        "module": [f"{environment}/bin/python", "-m", "toolgate"],
    }.items():
        assert _started_by_the_client(program, tmp_path / name) == "0.1.0+venv"


def test_a_client_starts_the_toolgate_of_pipx_and_no_other(
    wheel: Path, compiled: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    environment = home / ".local" / "share" / "pipx" / "venvs" / "toolgate-mcp"
    _run(["sh", "-c", _install(environment, str(wheel), "0.1.0+pipx", compiled)], cwd=tmp_path)
    (environment / "pipx_metadata.json").write_text("{}")
    scripts = home / ".local" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "toolgate").symlink_to(environment / "bin" / "toolgate")
    assert _started_by_the_client([str(scripts / "toolgate")], home) == "0.1.0+pipx"


def test_a_client_starts_what_uvx_ran_also_after_its_cache_was_cleared(
    wheel: Path, compiled: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    cache = home / ".cache" / "uv" / "archive-v0"
    first, second = cache / "first", cache / "second"
    scripts = home / ".local" / "bin"
    scripts.mkdir(parents=True)
    _run(["sh", "-c", _install(first, str(wheel), "0.1.0+first", compiled)], cwd=tmp_path)
    (scripts / "uvx").write_text(
        UVX.format(install=_install(second, "$source", "0.1.0+second", compiled), folder=second)
    )
    (scripts / "uvx").chmod(0o755)
    version = _started_by_the_client(
        [f"{first}/bin/toolgate"], home, before=f"rm -r '{first}'; test ! -e '{second}'"
    )
    assert version == "0.1.0+second"


def test_a_client_starts_the_toolgate_of_a_checkout(tmp_path: Path) -> None:
    assert (
        _started_by_the_client([sys.executable, "-m", "toolgate"], tmp_path / "home") == __version__
    )
