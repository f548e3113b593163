"""What `toolgate init` says of servers that it started, and where their secrets are afterwards."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.cli.conftest import SMALL_SERVER, Command
from toolgate import settings
from toolgate.cli.setup.importing._secrets import may_show_secret, take_secrets
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer

GITHUB_TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def protected() -> Iterator[ProtectedServer]:
    """A server that wants a login."""
    authorization = AuthorizationServer()
    server = ProtectedServer(authorization)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(authorization.running()),
        portal.wrap_async_context_manager(server.running()),
    ):
        yield server


def put_cursor(servers: dict[str, object], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody whose only client is Cursor, in an empty folder."""
    path = Path.home() / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    monkeypatch.chdir(folder)
    return settings.config_dir() / "toolgate.toml"


def small(*args: str, **env: str) -> dict[str, object]:
    return {"command": sys.executable, "args": [str(SMALL_SERVER), *args], "env": env}


def failing(text: str) -> dict[str, object]:
    return {"command": "sh", "args": ["-c", f"echo {text} >&2; exit 1"]}


def test_each_server_that_is_not_ready_is_named_with_the_next_command(
    command: Command,
    protected: ProtectedServer,
    clean_environment: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers: dict[str, object] = {
        "works": small(),
        "notes": {"url": protected.url},
        "tickets": small("1", TOKEN="${env:TICKET_TOKEN}"),
        "images": failing("Cannot connect to the Docker daemon"),
        "chat": failing("Error: CHAT_TOKEN is not set"),
    }
    put_cursor(servers, tmp_path, monkeypatch)
    done = command("init", "--yes")
    assert done.status == SUCCESS, done.err
    assert (
        "5 servers: 1 ready, 1 needs a login, 1 needs TICKET_TOKEN, 2 failed."
        in done.out.replace("\n", " ")
    )
    steps = [line.strip() for line in done.out.splitlines() if line.lstrip().startswith("->")]
    assert [step.partition(". Then")[0] for step in steps] == [
        "-> toolgate servers login notes",
        "-> Set it where Toolgate runs: export TICKET_TOKEN=VALUE",
        "-> Start Docker: sudo systemctl start docker",
        "-> Give it the value: toolgate credentials set chat --env CHAT_TOKEN",
    ]


def test_secrets_of_clients_are_encrypted_used_and_removed_by_undo(
    command: Command, clean_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: dict[str, object] = {
        "first": small(SMALL_SECRET="account-one", SMALL_INSTRUCTIONS="Add first."),
        "second": small(SMALL_SECRET="account-two", SMALL_INSTRUCTIONS="Add first."),
    }
    config = put_cursor(entries, tmp_path, monkeypatch)
    done = command("init", "--yes")
    assert "2 servers: 2 ready." in done.out
    text = config.read_text("utf-8")
    assert "account-one" not in text
    assert "encrypted in the store: SMALL_SECRET" in text
    assert 'SMALL_INSTRUCTIONS = "Add first."' in text
    assert b"account-one" not in (settings.data_dir() / "toolgate.db").read_bytes()
    assert command("servers", "test", "first").status == SUCCESS

    again = command("init", "--yes")
    assert "Nothing to do" in again.err
    assert [row["server"] for row in command("credentials", "list", "--json").json] == [
        "first",
        "second",
    ]
    undone = command("init", "--undo", "--yes")
    assert "Removed the stored secrets of first, second." in undone.out
    assert command("credentials", "list", "--json").json == []


def test_secrets_in_arguments_and_urls_are_encrypted_and_used(
    command: Command,
    clean_environment: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries: dict[str, object] = {
        "marks": small("db://me:opaque-one@h/", "--api-key", "opaque-two"),
        "web": {"url": "http://127.0.0.1:9/mcp?region=eu&apiKey=opaque-three"},
    }
    config = put_cursor(entries, tmp_path, monkeypatch)
    done = command("init", "--yes", "--no-check")
    assert "Stored 3 secrets encrypted" in done.out
    text = config.read_text("utf-8")
    assert "opaque" not in text + done.out + done.err
    assert '"db://${secret:PASSWORD}@h/", "--api-key", "${secret:API_KEY}"' in text
    assert 'url = "http://127.0.0.1:9/mcp?region=eu&apiKey=${secret:API_KEY}"' in text
    assert "Nothing to do" in command("init", "--yes").err
    assert command("servers", "test", "marks").status == SUCCESS
    assert "No connection to" in command("servers", "test", "web").err

    assert command("credentials", "remove", "marks").status == SUCCESS
    missing = command("servers", "test", "marks")
    assert "toolgate credentials set marks --secret PASSWORD" in missing.err
    for name in ("PASSWORD", "API_KEY"):
        command("credentials", "set", "marks", "--secret", f"{name}=opaque-four")
    assert command("servers", "test", "marks").status == SUCCESS
    command("init", "--undo", "--yes")
    assert command("credentials", "list", "--json").json == []


@pytest.mark.parametrize(
    ("args", "stored", "secrets"),
    [
        (["--api-key", "abc"], ["--api-key", "${secret:API_KEY}"], ["abc"]),
        (["--apiKey=abc"], ["--apiKey=${secret:API_KEY}"], ["abc"]),
        (["-e", "API_KEY=abc", "x"], ["-e", "API_KEY=${secret:API_KEY}", "x"], ["abc"]),
        (
            ["--header", "Authorization: Bearer abc"],
            ["--header", "Authorization: ${secret:AUTHORIZATION}"],
            ["Bearer abc"],
        ),
        (
            ["--db=postgres://a:b@h/d", "mysql://a:c@h/d"],
            ["--db=postgres://${secret:PASSWORD}@h/d", "mysql://${secret:PASSWORD_2}@h/d"],
            ["a:b", "a:c"],
        ),
        (["https://h/?token=a&b=c"], ["https://h/?token=${secret:TOKEN}&b=c"], ["a"]),
        (
            ["ghp_abcdefghijklmnopqrstuvwxyz0123456789"],
            ["${secret:GITHUB_TOKEN}"],
            ["ghp_abcdefghijklmnopqrstuvwxyz0123456789"],
        ),
        (
            ["--port", 8080, True, "--password", 123456, "--api-key", "abc"],
            [
                *("--port", 8080, True, "--password", "${secret:PASSWORD}"),
                *("--api-key", "${secret:API_KEY}"),
            ],
            ["123456", "abc"],
        ),
        (
            [f"https://{GITHUB_TOKEN}@h/x?b=c", f"https://a:b@h/{GITHUB_TOKEN}"],
            [
                "https://${secret:GITHUB_TOKEN}@h/x?b=c",
                "https://${secret:PASSWORD}@h/${secret:GITHUB_TOKEN}",
            ],
            [GITHUB_TOKEN, "a:b"],
        ),
        (["--max-tokens", "4096", "--key-file", "~/k"], None, []),
        (["--token", "${env:TOKEN}", "--api-key=${env:KEY}", "git://me@h/"], None, []),
    ],
    ids=str,
)
def test_a_secret_in_an_argument_becomes_a_reference(
    args: list[object], stored: list[object] | None, secrets: list[str]
) -> None:
    left, taken = take_secrets({"command": "x", "args": args})
    assert left["args"] == (args if stored is None else stored)
    assert list(taken.get("secrets", {}).values()) == secrets
    assert may_show_secret(left) is ("git://me@h/" in args)


def test_secrets_that_may_stay_in_the_file_are_noted(
    command: Command, clean_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: dict[str, object] = {
        "marks": {**small(), "args": [str(SMALL_SERVER), 1, f"https://{GITHUB_TOKEN}@h/"]},
        "web": {"url": "http://opaque@127.0.0.1:9/mcp"},
    }
    config = put_cursor(entries, tmp_path, monkeypatch)
    done = command("init", "--yes", "--no-check")
    text = config.read_text("utf-8")
    assert GITHUB_TOKEN not in text + done.out + done.err
    assert "Stored 1 secret encrypted" in done.out
    assert "may show keys or passwords in the arguments or URLs of web." in done.err.replace(
        "\n", " "
    )


def test_a_server_of_the_store_keeps_its_name(
    command: Command, clean_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cursor({"mine": small("1")}, tmp_path, monkeypatch)
    assert command("add", "mine", "--", sys.executable, str(SMALL_SERVER)).status == SUCCESS
    done = command("init", "--yes", "--no-check", "--json")
    assert done.json["servers"][0]["name"] == "mine-cursor"
    assert command("config", "check").status == SUCCESS


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("API_KEY", "abc", True),
        ("Authorization", "Bearer abc", True),
        ("X-Api-Key", "abc", True),
        ("DB_PASSWORD", "1234", True),
        ("DATABASE_URL", "postgres://ada:hunter2@h/db", True),
        ("ANYTHING", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("API_KEY", "${env:API_KEY}", False),
        ("API_KEY", "", False),
        ("MAX_TOKENS", "4096", False),
        ("USE_AUTH", "true", False),
        ("SSH_KEY_FILE", "~/.ssh/id_ed25519", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "C:\\keys\\a.json", False),
        ("LOG_LEVEL", "debug", False),
        ("DATABASE_URL", "postgres://h/db", False),
    ],
)
def test_a_secret_is_told_by_its_name_or_its_form(name: str, value: str, is_secret: bool) -> None:
    left, taken = take_secrets({"command": "x", "env": {name: value, "OTHER": "1"}})
    assert taken == ({"env": {name: value}} if is_secret else {})
    assert (name in left["env"]) is not is_secret
