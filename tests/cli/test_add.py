"""`toolgate add`: what people paste from the documentation of a server."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_SERVER, Command
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR

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
        (["https://mcp.linear.app/sse"], "linear", {"url": "https://mcp.linear.app/sse"}),
        (["http://127.0.0.1:9000/mcp"], "127.0.0.1", {"url": "http://127.0.0.1:9000/mcp"}),
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
        (["--name", "x", '{"a": {"url": "http://a"}, "b": {"url": "http://b"}}'], "fits one"),
        (["   "], "is neither a command, nor a URL, nor JSON with servers"),
        (["https://"], "is not a URL with a host"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_server_is_refused_with_an_example(
    words: list[str], sentence: str, folder: Path, command: Command
) -> None:
    done = command("add", "--dry-run", *words)
    assert done.status == USAGE_ERROR
    assert sentence in done.err


def test_an_added_server_is_started_and_listed(folder: Path, command: Command) -> None:
    done = command("add", "--name", "mine", "--json", sys.executable, str(SMALL_SERVER))
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
