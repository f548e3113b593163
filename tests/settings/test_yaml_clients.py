"""Goose and Continue, whose files are YAML: what is read, and what stays beside Toolgate."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate.errors import SettingError
from toolgate.settings import load
from toolgate.settings.clients.supported import ClientFile, Launch, Machine, Platform, find
from toolgate.settings.clients.write_back import with_toolgate
from toolgate.settings.notations import yaml

LAUNCH = Launch(command="/opt/my tools/toolgate", args=("stdio",), search_path="/opt/bin:/usr/bin")

GOOSE = """\
# my goose
GOOSE_MODEL: big  # the best
extensions:
  developer:
    enabled: true
    type: builtin
  # for tickets
  github:
    args:
    - -y
    - '@modelcontextprotocol/server-github'
    available_tools: [list_issues]
    cmd: npx
    enabled: true
    env_keys:
    - GITHUB_TOKEN
    envs: {LOG: debug}
    timeout: 90
    type: stdio

  # stays
  web:
    enabled: false
    headers: {X-Key: v}
    type: streamable_http
    uri: https://h.example/mcp  # production
# the end
"""

CONTINUE = """\
name: Local
version: 2026-01-01
models:
  - name: GPT  # mine
mcpServers:
  # the first
  - name: SQLite
    command: uvx
    args: [mcp-server-sqlite]
    env:
      TOKEN: ${{ secrets.notion-token }}
  # the second
  - name: Web
    url: https://c.example/mcp
    requestOptions:
      headers:
        Authorization: Bearer abc
rules: []
"""


def found(home: Path, name: str, text: str, platform: Platform = "linux") -> ClientFile:
    """The one file of a client on this machine."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    (file,) = find(Machine(home=home, cwd=home / "work", environ={}, platform=platform))
    return file


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("linux", ".config/goose/config.yaml"),
        ("darwin", ".config/goose/config.yaml"),
        ("win32", "AppData/Roaming/Block/goose/config/config.yaml"),
    ],
)
def test_extensions_of_goose_that_are_servers_are_found(
    platform: Platform, name: str, tmp_path: Path
) -> None:
    """Keys as https://block.github.io/goose/docs/guides/config-files names them."""
    file = found(tmp_path, name, GOOSE, platform)
    assert file.client.name == "goose"
    assert {server.name: server.config for server in file.servers} == {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN:-}", "LOG": "debug"},
            "enabled": True,
            "timeout_s": 90,
            "tool_permissions": {"*": False, "list_issues": True},
        },
        "web": {
            "url": "https://h.example/mcp",
            "type": "streamable_http",
            "headers": {"X-Key": "v"},
            "enabled": False,
        },
    }
    assert "keyring" in file.servers[0].notices[0]


def test_servers_of_continue_are_found_in_its_list(tmp_path: Path) -> None:
    file = found(tmp_path, ".continue/config.yaml", CONTINUE)
    assert {server.name: server.config for server in file.servers} == {
        "SQLite": {
            "command": "uvx",
            "args": ["mcp-server-sqlite"],
            "env": {"TOKEN": "${env:NOTION_TOKEN}"},
        },
        "Web": {"url": "https://c.example/mcp", "headers": {"Authorization": "Bearer abc"}},
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_toolgate_takes_the_lines_of_a_server_and_touches_no_others(
    end: str, tmp_path: Path
) -> None:
    file = found(tmp_path, ".config/goose/config.yaml", GOOSE.replace("\n", end))
    text = with_toolgate(file, LAUNCH, file.servers[:1])
    head, tail = GOOSE.index("  github:"), GOOSE.index("\n  # stays")
    assert text.startswith(GOOSE[:head].replace("\n", end))
    assert text.endswith(GOOSE[tail:].replace("\n", end))
    assert yaml.parse(text)["extensions"]["toolgate"] == {  # pyright: ignore[reportIndexIssue, reportUnknownVariableType]
        "type": "stdio",
        "name": "toolgate",
        "enabled": True,
        "timeout": 300,
        "cmd": "/opt/my tools/toolgate",
        "args": ["stdio"],
    }
    file.path.write_bytes(text.encode())
    (again,) = find(Machine(home=tmp_path, cwd=tmp_path, environ={}, platform="linux"))
    assert [(server.name, server.is_toolgate) for server in again.servers] == [
        ("toolgate", True),
        ("web", False),
    ]


def test_toolgate_takes_one_place_in_the_list_of_continue(tmp_path: Path) -> None:
    file = found(tmp_path, ".continue/config.yaml", CONTINUE)
    text = with_toolgate(file, LAUNCH, file.servers)
    assert text == (
        CONTINUE[: CONTINUE.index("  - name: SQLite")]
        + '  - name: "toolgate"\n    command: "/opt/my tools/toolgate"\n    args: ["stdio"]\n'
        + "  # the second\nrules: []\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "extensions: {a: {type: stdio, cmd: x}}\n",
        "x: &a\n  type: stdio\n  cmd: x\nextensions:\n  a: *a\n",
    ],
    ids=["in one line", "by reference"],
)
def test_what_cannot_be_changed_by_lines_is_left_alone(text: str, tmp_path: Path) -> None:
    file = found(tmp_path, ".config/goose/config.yaml", text)
    with pytest.raises(SettingError, match="cannot be changed automatically"):
        with_toolgate(file, LAUNCH, file.servers)


def test_malformed_yaml_is_reported_with_its_place(tmp_path: Path) -> None:
    file = found(tmp_path, ".config/goose/config.yaml", "extensions:\n  a: [\n")
    assert "config.yaml, line 3, column 1: this is not valid YAML" in file.error


def test_yaml_can_be_imported_by_reference(tmp_path: Path, clean_environment: None) -> None:
    found(tmp_path, ".config/goose/config.yaml", GOOSE)
    config = tmp_path / "toolgate.toml"
    config.write_text('import = [".config/goose/config.yaml"]\n', encoding="utf-8")
    servers = {server.name: server for server in load(config).servers}
    assert list(servers) == ["github", "web"]
    assert servers["github"].tool_permissions == {"*": False, "list_issues": True}
    assert f"{tmp_path}/.config/goose/config.yaml, line 8" in " ".join(load(config).notices)


def test_words_and_numbers_are_read_as_the_clients_read_them(tmp_path: Path) -> None:
    lines = ["extensions:", "  no:", "    type: stdio", "    cmd: run", "    timeout: 30"]
    lines += ["    args: [on, 12:30, 2026-11-26, 1_000, 007, yes, 1.5, true]"]
    file = found(tmp_path, ".config/goose/config.yaml", "\n".join(lines))
    (server,) = file.servers
    assert server.name == "no"
    assert server.config["args"][:6] == ["on", "12:30", "2026-11-26", "1_000", "007", "yes"]


names = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
values = st.text("aA1 :#'\"-{}[]é", max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(servers=st.dictionaries(names, values, min_size=2, max_size=5), data=st.data())
def test_whichever_servers_go_the_others_and_all_comments_stay(
    servers: dict[str, str], data: st.DataObject, tmp_path: Path
) -> None:
    servers.pop("toolgate", None)
    lines = ["# top", "extensions:"]
    for name, value in servers.items():
        lines += [f"  # about {name}", f"  {name}:  # behind", "    type: stdio"]
        lines += [f"    cmd: {json.dumps(value + 'x')}", "    args:", f"      - {name}", ""]
    file = found(tmp_path, ".config/goose/config.yaml", "\n".join(lines))
    gone = data.draw(st.lists(st.sampled_from(file.servers), min_size=1, unique_by=id))
    text = with_toolgate(file, LAUNCH, gone)
    assert all(f"  # about {name}\n" in text for name in servers)
    left = {server.name for server in file.servers} - {server.name for server in gone}
    file.path.write_text(text, encoding="utf-8")
    (again,) = find(Machine(home=tmp_path, cwd=tmp_path, environ={}, platform="linux"))
    assert {server.name for server in again.servers} == left | {"toolgate"}
    assert text.count("  # behind") == len(left)
