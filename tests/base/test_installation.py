"""Each way to install Toolgate is recognized, and its commands name the same source."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolgate.base.installation import (
    Installation,
    current_installation,
    install_hint,
    package_hint,
)
from toolgate.errors import SettingError
from toolgate.settings.clients.supported import launch_of_this_program

METADATA = """\
Metadata-Version: 2.4
Name: toolgate-mcp
Version: 0.1.0
Requires-Dist: anyio>=4.8
Provides-Extra: all
Requires-Dist: keyring>=25.0; extra == 'all'
Requires-Dist: psycopg[binary]>=3.2; extra == 'all'
Requires-Dist: sqlglot>=30.30; extra == 'all'
Provides-Extra: keyring
Requires-Dist: keyring>=25.0; extra == 'keyring'
Provides-Extra: milvus
Requires-Dist: milvus-lite>=3.0; (sys_platform != 'win32') and extra == 'milvus'
Requires-Dist: pymilvus>=3.0; extra == 'milvus'
Provides-Extra: postgres
Requires-Dist: psycopg[binary]>=3.2; extra == 'postgres'
Provides-Extra: sql
Requires-Dist: sqlglot>=30.30; extra == 'sql'
"""

UV_RECEIPT = """\
[tool]
requirements = [
    { name = "toolgate-mcp", extras = ["sql"], directory = "/src/toolgate" },
    { name = "six", specifier = ">1" },
]
python = "/usr/bin/python3"
"""


def installed(
    environment: Path,
    *,
    installer: str = "pip",
    source: dict[str, object] | None = None,
    packages: tuple[str, ...] = (),
    files: dict[str, str] | None = None,
) -> Installation:
    """An environment with Toolgate in it, laid out as its installer does."""
    libraries = environment / "lib" / "python3.11" / "site-packages"
    information = libraries / "toolgate_mcp-0.1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(METADATA)
    (information / "INSTALLER").write_text(installer)
    if source is not None:
        (information / "direct_url.json").write_text(json.dumps(source))
    for package in packages:
        folder = libraries / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    for name, text in (files or {}).items():
        (environment / name).write_text(text)
    return current_installation(environment, [str(libraries)])


def pip_venv(tmp_path: Path) -> Installation:
    return installed(tmp_path / "venv")


def uv_venv(tmp_path: Path) -> Installation:
    return installed(tmp_path / ".venv", installer="uv\n")


def pipx_venv(tmp_path: Path) -> Installation:
    folder = tmp_path / "pipx" / "venvs" / "toolgate-mcp"
    return installed(folder, installer="uv", files={"pipx_metadata.json": "{}"})


def pipx_run(tmp_path: Path) -> Installation:
    folder = tmp_path / "pipx" / ".cache" / "9b2137a5397b215"
    return installed(folder, files={"pipx_metadata.json": "{}"})


def uv_tool(tmp_path: Path) -> Installation:
    folder = tmp_path / "uv" / "tools" / "toolgate-mcp"
    source: dict[str, object] = {"url": "file:///src/toolgate", "dir_info": {}}
    return installed(
        folder,
        installer="uv",
        source=source,
        packages=("sqlglot",),
        files={"uv-receipt.toml": UV_RECEIPT},
    )


def uvx(tmp_path: Path, source: dict[str, object] | None = None, *packages: str) -> Installation:
    folder = tmp_path / "cache of uv" / "archive-v0" / "V0_RMvEa-04leqP3"
    return installed(folder, installer="uv", source=source, packages=packages)


@pytest.mark.parametrize(
    ("layout", "commands"),
    [
        (
            pip_venv,
            (
                'pip install "toolgate-mcp[postgres]"',
                'pip install "pymysql"',
                'pip install --force-reinstall "toolgate-mcp"',
            ),
        ),
        (
            uv_venv,
            (
                'uv pip install "toolgate-mcp[postgres]"',
                'uv pip install "pymysql"',
                'uv pip install --reinstall "toolgate-mcp"',
            ),
        ),
        (
            pipx_venv,
            (
                'pipx inject toolgate-mcp "psycopg[binary]>=3.2"',
                'pipx inject toolgate-mcp "pymysql"',
                "pipx reinstall toolgate-mcp",
            ),
        ),
        (
            pipx_run,
            (
                'pipx run --spec "toolgate-mcp[postgres]" toolgate',
                'pipx run --spec "toolgate-mcp" --with "pymysql" toolgate',
                'pipx run --no-cache --spec "toolgate-mcp" toolgate',
            ),
        ),
        (
            uv_tool,
            (
                'uv tool install "toolgate-mcp[postgres,sql] @ file:///src/toolgate" '
                '--with "six>1"',
                'uv tool install "toolgate-mcp[sql] @ file:///src/toolgate" --with "six>1" '
                '--with "pymysql"',
                "uv tool upgrade --reinstall toolgate-mcp",
            ),
        ),
        (
            uvx,
            (
                'uvx --from "toolgate-mcp[postgres]" toolgate',
                'uvx --from "toolgate-mcp" --with "pymysql" toolgate',
                'uvx --refresh --from "toolgate-mcp" toolgate',
            ),
        ),
    ],
    ids=["pip", "uv", "pipx", "pipx run", "uv tool", "uvx"],
)
def test_commands_fit_how_toolgate_was_installed(
    layout: Callable[[Path], Installation], commands: tuple[str, ...], tmp_path: Path
) -> None:
    toolgate = layout(tmp_path)
    assert commands == (
        toolgate.install_command("postgres"),
        toolgate.install_command(package="pymysql"),
        toolgate.reinstall_command(),
    )


def test_pipx_gets_the_name_of_its_environment_and_every_package(tmp_path: Path) -> None:
    folder = tmp_path / "venvs" / "toolgate-mcp@next"
    toolgate = installed(folder, files={"pipx_metadata.json": "{}"})
    assert toolgate.install_command("milvus") == (
        "pipx inject toolgate-mcp@next "
        '"milvus-lite>=3.0; (sys_platform != \'win32\')" "pymilvus>=3.0"'
    )
    assert toolgate.uninstall_command() == "pipx uninstall toolgate-mcp@next"


@pytest.mark.parametrize("folder", ["archive-v0/x", "environments-v2/x", "builds-v0/.tmpNmwZaM"])
def test_environments_in_the_cache_of_uv_are_temporary(folder: str, tmp_path: Path) -> None:
    toolgate = installed(tmp_path / "moved cache" / folder, installer="uv")
    assert (toolgate.installer, toolgate.is_temporary) == ("uvx", True)
    assert toolgate.uninstall_command() == ""


def test_sources_that_are_not_installed_count_as_pip(tmp_path: Path) -> None:
    toolgate = current_installation(tmp_path, [str(tmp_path)])
    assert toolgate.distribution is None
    assert toolgate.install_command("sql") == 'pip install "toolgate-mcp[sql]"'


def test_hints_are_about_the_environment_that_runs() -> None:
    current = current_installation()
    assert install_hint("sql") == f"Run: {current.install_command('sql')}"
    assert package_hint("six") == f"Run: {current.install_command(package='six')}"


def arguments(toolgate: Installation) -> tuple[str, ...]:
    program, *rest = toolgate.start_command()
    assert Path(program).stem == toolgate.installer.partition(" ")[0]
    return tuple(rest)


def test_uvx_starts_again_from_the_package_index(tmp_path: Path) -> None:
    assert arguments(uvx(tmp_path)) == ("toolgate-mcp",)


def test_pipx_run_starts_again_from_the_package_index(tmp_path: Path) -> None:
    assert arguments(pipx_run(tmp_path)) == ("run", "toolgate-mcp")


def test_extras_are_those_whose_packages_are_all_there(tmp_path: Path) -> None:
    assert arguments(uvx(tmp_path / "a", None, "sqlglot")) == (
        "--from", "toolgate-mcp[sql]", "toolgate-mcp",
    )  # fmt: skip
    everything = uvx(tmp_path / "b", None, "sqlglot", "keyring", "psycopg")
    assert arguments(everything) == ("--from", "toolgate-mcp[all]", "toolgate-mcp")


def test_uvx_starts_again_from_a_folder(tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    toolgate = uvx(tmp_path, {"url": checkout.as_uri(), "dir_info": {}}, "sqlglot")
    assert arguments(toolgate) == (
        "--from", f"toolgate-mcp[sql] @ {checkout.as_uri()}", "toolgate-mcp",
    )  # fmt: skip
    checkout.rmdir()
    with pytest.raises(SettingError, match="a checkout does not exist any more"):
        toolgate.start_command()


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (
            {
                "url": "https://git.example/toolgate",
                "vcs_info": {"vcs": "git", "commit_id": "d80293", "requested_revision": "v1"},
            },
            "toolgate-mcp @ git+https://git.example/toolgate@v1",
        ),
        (
            {
                "url": "ssh://git@git.example/toolgate",
                "vcs_info": {"vcs": "git", "commit_id": "d80293"},
                "subdirectory": "python",
            },
            "toolgate-mcp @ git+ssh://git@git.example/toolgate#subdirectory=python",
        ),
        (
            {"url": "https://files.example/toolgate_mcp-0.1.0-py3-none-any.whl"},
            "toolgate-mcp @ https://files.example/toolgate_mcp-0.1.0-py3-none-any.whl",
        ),
    ],
    ids=["git with a revision", "git over ssh", "archive"],
)
def test_uvx_starts_again_from_an_address(
    source: dict[str, object], requirement: str, tmp_path: Path
) -> None:
    assert arguments(uvx(tmp_path, source)) == ("--from", requirement, "toolgate-mcp")


def test_credentials_of_an_address_are_never_written(tmp_path: Path) -> None:
    toolgate = uvx(tmp_path, {"url": "https://me:hunter2@git.example/x.whl", "archive_info": {}})
    with pytest.raises(SettingError, match="contains credentials") as raised:
        toolgate.start_command()
    assert "hunter2" not in str(raised.value)
    assert toolgate.install_command("sql") == (
        'uvx --from "toolgate-mcp[sql] @ https://git.example/x.whl" toolgate'
    )


def test_an_unknown_source_is_refused(tmp_path: Path) -> None:
    toolgate = current_installation(tmp_path / "archive-v0" / "x", [str(tmp_path)])
    with pytest.raises(SettingError, match="the source of toolgate-mcp is not known"):
        toolgate.start_command()


def test_clients_are_told_the_source_of_a_temporary_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolgate = uvx(tmp_path, {"url": "https://files.example/x.whl", "archive_info": {}})
    monkeypatch.setattr(
        "toolgate.settings.clients.supported.current_installation", lambda: toolgate
    )
    launch = launch_of_this_program(tmp_path / "toolgate.toml")
    assert launch.args == (
        "--from", "toolgate-mcp @ https://files.example/x.whl", "toolgate-mcp",
        "stdio", "--config", str(tmp_path / "toolgate.toml"),
    )  # fmt: skip
