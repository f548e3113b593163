"""The name to install is `toolgate-mcp`; `toolgate` in a package index is another project."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from toolgate.base.installation import DISTRIBUTION
from toolgate.settings import is_toolgate

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

_NAME = r"""["'`]?toolgate(?![\w/-]|\.\w)"""
_OPTION = r"""(?:--?[\w-]+(?:[= ](?!toolgate)[^\s-]\S*)?\s+)*"""
_PROGRAM = r"(?:uv tool (?:install|upgrade|uninstall|run)|uvx|pipx (?:install|upgrade|run|inject))"
FORBIDDEN = (
    re.compile(rf"\bpip (?:install|uninstall|download|show) {_OPTION}{_NAME}"),
    re.compile(rf"\b{_PROGRAM} (?!.*(?:--from|--spec)){_OPTION}{_NAME}"),
    re.compile(rf"(?:--from|--spec)[= ]{_NAME}"),
    re.compile(r"""(?<![\w/.-])["'`]?toolgate\[[a-z,{]"""),
    re.compile(
        r"""["'](?:uvx|pipx)["'], *["']?args["']?: *\[(?:["'][\w-]+["'], *)*["']toolgate["']"""
    ),
    re.compile(r"""\b(?:version|distribution|metadata|requires)\(["']toolgate["']\)"""),
)
"""Texts that name `toolgate` as something to install."""


def texts() -> list[tuple[str, str]]:
    """Every text file that git has or would add, with its name."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files: list[tuple[str, str]] = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path != Path(__file__) and path.suffix != ".jsonl":
            try:
                files.append((name, path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return files


def test_no_text_names_toolgate_as_something_to_install() -> None:
    wrong = [
        f"{name}: {line.strip()}"
        for name, text in texts()
        for line in text.splitlines()
        if any(pattern.search(line) for pattern in FORBIDDEN)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install toolgate",
        "pip install --force-reinstall toolgate.",
        'pip install "toolgate[sql]"',
        "needs `toolgate[sql]`",
        'f"toolgate[{extra}]"',
        "python -m pip uninstall toolgate",
        "$ pipx upgrade toolgate    # or",
        "uvx toolgate stdio",
        "uvx --python 3.12 toolgate stdio",
        "uv tool install toolgate",
        "uvx --from toolgate toolgate",
        '{"command": "uvx", "args": ["toolgate", "stdio"]}',
        'version("toolgate")',
    ],
)
def test_such_a_text_would_be_noticed(line: str) -> None:
    assert any(pattern.search(line) for pattern in FORBIDDEN)


@pytest.mark.parametrize(
    "line",
    [
        "pip install toolgate-mcp",
        'pip install "toolgate-mcp[sql]"',
        "uvx toolgate-mcp stdio",
        "uvx --from . toolgate --help",
        'uvx --from "toolgate-mcp[sql]" toolgate',
        "pipx inject toolgate-mcp sqlglot",
        "pipx install .             # or: toolgate",
        "toolgate add time -- uvx mcp-server-time",
    ],
)
def test_other_texts_are_left_alone(line: str) -> None:
    assert not any(pattern.search(line) for pattern in FORBIDDEN)


def test_the_project_has_the_name_and_both_commands() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["scripts"] == dict.fromkeys(["toolgate", DISTRIBUTION], "toolgate.cli:main")


def test_both_commands_count_as_toolgate_in_files_of_clients() -> None:
    for command in PROJECT["scripts"]:
        assert is_toolgate({"command": command, "args": ["stdio"]})
        assert is_toolgate({"command": "uvx", "args": ["--from", ".", command, "stdio"]})


def test_every_extra_that_a_text_names_exists() -> None:
    named = {
        (name, extra)
        for name, text in texts()
        for match in re.finditer(r"toolgate-mcp\[([a-z,]+)\]|install_hint\(\"([a-z]+)\"\)", text)
        for extra in (match[1] or match[2]).split(",")
    }
    extras = {*PROJECT["optional-dependencies"]}

    assert {row for row in named if row[1] not in extras and row[0] != "pyproject.toml"} == set()
