"""`toolgate add`: what people paste from the documentation of a server."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_SERVER, Command
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR
from toolgate.settings import config_dir

FILESYSTEM = "npx -y @modelcontextprotocol/server-filesystem /home/me"


@pytest.mark.parametrize(
    ("words", "name", "config"),
    [
        (
            FILESYSTEM.split(),
            "filesystem",
            {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"],
            },
        ),
        (
            [f"$ {FILESYSTEM}"],
            "filesystem",
            {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"],
            },
        ),
        (["uvx", "mcp-server-time"], "time", {"command": "uvx", "args": ["mcp-server-time"]}),
        (
            ["uvx", "--from", "git+https://example.org/x", "weather-mcp@latest"],
            "weather",
            {
                "command": "uvx",
                "args": ["--from", "git+https://example.org/x", "weather-mcp@latest"],
            },
        ),
        (
            ["docker", "run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/github-mcp-server"],
            "github",
            {
                "command": "docker",
                "args": ["run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/github-mcp-server"],
            },
        ),
        (
            ["python", "-m", "mcp_server_git", "--repository", "a b"],
            "git",
            {"command": "python", "args": ["-m", "mcp_server_git", "--repository", "a b"]},
        ),
        (
            ["env", "A=1", "node", "/opt/notes/dist/index.js"],
            "dist",
            {"command": "env", "args": ["A=1", "node", "/opt/notes/dist/index.js"]},
        ),
        (
            ['{"context_servers": {"zed": {"source": "custom", "command": "zed-mcp"}}}'],
            "zed",
            {"command": "zed-mcp"},
        ),
        (
            ['{"mcp": {"oc": {"type": "local", "command": ["npx", "oc-mcp"], "enabled": true}}}'],
            "oc",
            {"type": "local", "command": "npx", "args": ["oc-mcp"], "enabled": True},
        ),
        (
            ['{"mcpServers": {"roo": {"command": "roo", "disabledTools": ["x"], "idle_s": 9}}}'],
            "roo",
            {"command": "roo", "tool_permissions": {"x": False}, "idle_s": 9},
        ),
        (["https://mcp.linear.app/sse"], "linear", {"url": "https://mcp.linear.app/sse"}),
        (["http://127.0.0.1:9000/mcp"], "127.0.0.1", {"url": "http://127.0.0.1:9000/mcp"}),
        (
            ["notes", "--", "npx", "-y", "notes-mcp", "--config", "x", "-v"],
            "notes",
            {"command": "npx", "args": ["-y", "notes-mcp", "--config", "x", "-v"]},
        ),
        (
            ["notes", "-e", "A=1", "--cwd", "/w", "--", "npx", "notes-mcp", "-e", "B=2"],
            "notes",
            {"command": "npx", "args": ["notes-mcp", "-e", "B=2"], "env": {"A": "1"}, "cwd": "/w"},
        ),
        (
            ["--", "npx", "-y", "notes-mcp"],
            "notes",
            {"command": "npx", "args": ["-y", "notes-mcp"]},
        ),
        (
            ["npx", "-y", "notes-mcp", "--", "--flag"],
            "notes",
            {"command": "npx", "args": ["-y", "notes-mcp", "--", "--flag"]},
        ),
        (
            ["docker", "run", "-v", "a:b", "-i", "notes", "--config", "c"],
            "notes",
            {"command": "docker", "args": ["run", "-v", "a:b", "-i", "notes", "--config", "c"]},
        ),
        (
            ["my-notes", "uvx", "notes-mcp", "--url", "u"],
            "my-notes",
            {"command": "uvx", "args": ["notes-mcp", "--url", "u"]},
        ),
        (
            ["wiki", "https://h.example/mcp", "-H", "X-Key: a=b", "--transport", "sse"],
            "wiki",
            {"url": "https://h.example/mcp", "headers": {"X-Key": "a=b"}, "type": "sse"},
        ),
        (
            ["npx", "-y", "mcp-remote", "https://mcp.linear.app/sse"],
            "linear",
            {"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/sse"]},
        ),
        (
            ["wiki", "--header", "A=b", "https://h.example/mcp"],
            "wiki",
            {"url": "https://h.example/mcp", "headers": {"A": "b"}},
        ),
        (
            ["claude", "mcp", "add", "-s", "user", "notes", "-e", "A=1", "--", "npx", "notes-mcp"],
            "notes",
            {"command": "npx", "args": ["notes-mcp"], "env": {"A": "1"}},
        ),
        (
            ["claude", "mcp", "add", "--transport", "http", "wiki", "https://h.example/mcp"],
            "wiki",
            {"url": "https://h.example/mcp", "type": "http"},
        ),
        (
            ["claude", "mcp", "add-json", "wiki", '{"url": "https://h.example/mcp"}'],
            "wiki",
            {"url": "https://h.example/mcp"},
        ),
        (
            ["codex", "mcp", "add", "notes", "--", "npx", "notes-mcp", "--scope", "all"],
            "notes",
            {"command": "npx", "args": ["notes-mcp", "--scope", "all"]},
        ),
        (
            ['{"mcpServers": {\n  // time\n  "a": {"command": "uvx", "args": ["x"],},\n}}'],
            "a",
            {"command": "uvx", "args": ["x"]},
        ),
        (['"a": {"command": "uvx", /* x */ "args": ["x"]},'], "a", None),
        (["wiki", '{"command": "uvx", "args": ["mcp-server-fetch"]}'], "wiki", None),
        (['{"command": "uvx", "args": ["mcp-server-fetch"]}'], "fetch", None),
        (['{"mcpServers": {"My Notes!": {"url": "https://n.example/mcp"}}}'], "my-notes", None),
        (['"sqlite": {"command": "uvx", "args": ["mcp-server-sqlite"]},'], "sqlite", None),
        (['{"servers": {"a": {"type": "http", "url": "https://a.example"}}}'], "a", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_pasted_becomes_a_server(
    words: list[str], name: str, config: object, folder: Path, command: Command
) -> None:
    done = command("add", "--dry-run", *words)
    assert done.status == SUCCESS, done.err
    assert list(done.json) == [name]
    if config is not None:
        assert done.json[name] == config


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (['{"mcpServers": {"a": '], "is not valid JSON"),
        (['{"a": 1}'], "is neither a command, nor a URL, nor JSON with servers"),
        (["[1, 2]x'"], "cannot be read as a command line: No closing quotation"),
        (["x", '{"a": {"url": "http://a"}, "b": {"url": "http://b"}}'], "fits one"),
        (["   "], "is neither a command, nor a URL, nor JSON with servers"),
        (["https://"], "is not a URL with a host"),
        (["no-such-word"], "toolgate add no-such-word -- COMMAND ARGS"),
        (["x", "--evn", "A=1", "--", "npx"], "No such option: --evn"),
        (["x", "y", "z", "--", "npx"], "Between the name 'x' and -- there is 'y z'."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_server_is_refused_with_an_example(
    words: list[str], sentence: str, folder: Path, command: Command
) -> None:
    done = command("add", "--dry-run", *words)
    assert done.status == USAGE_ERROR
    assert sentence in done.err


def test_a_server_that_ends_at_once_is_shown_with_what_it_said(
    folder: Path, command: Command
) -> None:
    script = "echo Cannot connect to the Docker daemon >&2; exit 125"
    done = command("add", "box", "--", "sh", "-c", script)
    assert done.status == SUCCESS
    assert "It is not ready yet. Cannot connect to the Docker daemon." in done.err
    assert "toolgate servers test box" in done.err
    assert "Cannot connect to the Docker daemon." in command("servers", "list").out


def test_a_url_of_another_kind_is_no_command(folder: Path, command: Command) -> None:
    done = command("add", "ftp://files.example/mcp")
    assert done.status == USAGE_ERROR
    assert "is not a server URL. Expected: http://HOST[:PORT]/PATH or https://" in done.err


@pytest.mark.parametrize(
    ("entry", "remark"),
    [
        ('"environ": {"A": "1"}', "Not taken from a: environ. Toolgate has no such settings."),
        ('"disabledTools": "x"', "a: its list of allowed or hidden tools cannot be read"),
        ('"disabled": false, "env": {"A": "1"}, "idle_s": 9', ""),
    ],
)
def test_what_is_not_taken_from_a_snippet_is_said(
    entry: str, remark: str, folder: Path, command: Command
) -> None:
    """A misspelled key would otherwise be lost without a word."""
    done = command("add", "--dry-run", f'{{"mcpServers": {{"a": {{"command": "x", {entry}}}}}}}')
    assert done.status == SUCCESS
    assert remark in done.err
    assert bool(done.err) == bool(remark)


def test_an_added_server_is_started_and_listed(folder: Path, command: Command) -> None:
    done = command("add", "--json", "mine", "--", sys.executable, str(SMALL_SERVER))
    assert done.status == SUCCESS, done.err
    assert done.json["servers"][0]["server"]["state"] == "ready"
    listed = command("servers", "list", "--json").json
    assert {"mine", "small"} <= {server["name"] for server in listed}


def test_several_servers_of_one_snippet_are_added_and_a_taken_name_is_reported(
    folder: Path, command: Command
) -> None:
    entry = {"command": sys.executable, "args": [str(SMALL_SERVER)]}
    done = command("add", json.dumps({"mcpServers": {"small": entry, "second": entry}}))
    assert done.status != SUCCESS
    assert "small was not added" in done.err
    assert "Added second to the store." in done.out


def test_the_global_options_may_stand_before_a_command_line(folder: Path, command: Command) -> None:
    (folder / "toolgate.toml").rename(folder / "other.toml")
    words = ("add", "--config", "other.toml", "--save", "mine", "--", sys.executable)
    done = command(*words, str(SMALL_SERVER), "--config", "x")
    assert done.status == SUCCESS, done.err
    assert '"--config", "x"]' in (folder / "other.toml").read_text("utf-8")


def test_a_server_is_saved_in_a_new_file_if_there_is_none(folder: Path, command: Command) -> None:
    (folder / "toolgate.toml").unlink()
    done = command("add", "--save", "mine", "--", sys.executable, str(SMALL_SERVER))
    assert done.status == SUCCESS, done.err
    assert "[server.mine]" in (config_dir() / "toolgate.toml").read_text("utf-8")


def test_the_audit_log_names_the_server_that_was_added(command: Command, folder: Path) -> None:
    """`toolgate audit list` showed a dash, the console the name."""
    added = command("add", "mine", "--", sys.executable, str(SMALL_SERVER))
    assert added.status == SUCCESS, added.err
    assert "server_add\tmine\tok" in command("audit", "list").out
