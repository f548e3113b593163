"""`servers login`, `credentials`, `keys`: what servers are shown, from the command line."""

import stat
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.cli.conftest import Command, server_table
from tests.limits import HANG_S
from toolgate import settings
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProtectedServer]:
    """A server that wants a login, in a thread of its own, and a folder that knows it."""
    authorization = AuthorizationServer()
    server = ProtectedServer(authorization)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(authorization.running()),
        portal.wrap_async_context_manager(server.running()),
    ):
        place = tmp_path / "work"
        place.mkdir()
        (place / "toolgate.toml").write_text(
            f'[server.notes]\nurl = "{server.url}"\nera = "handshake"\n', encoding="utf-8"
        )
        monkeypatch.chdir(place)
        yield server


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody with a browser, who says yes; the addresses that they were sent to."""
    opened: list[str] = []

    def open_it(url: str) -> bool:
        opened.append(url)
        with urllib.request.urlopen(url, timeout=HANG_S) as page:
            return page.status == 200

    monkeypatch.setattr(webbrowser, "open", open_it)
    monkeypatch.setenv("DISPLAY", ":0")
    return opened


def test_a_login_is_made_used_and_ended(
    command: Command, notes: ProtectedServer, person: list[str]
) -> None:
    refused = command("call", "notes:whoami")
    assert "toolgate servers login notes" in refused.err
    done = command("servers", "login", "notes", "--json")
    assert (done.status, done.json["state"], len(person)) == (SUCCESS, "good", 1)
    assert command("call", "notes:whoami").out == "anna\n"
    assert command("servers", "test", "notes").out.startswith("notes works")
    [listed] = command("credentials", "list", "--json").json
    assert (listed["server"], listed["renews"]) == ("notes", True)
    assert "renewed automatically" in command("credentials", "list", "notes").out

    key_file = settings.credential_key_file()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key = key_file.read_text(encoding="ascii").strip()
    shown = command("keys", "show")
    assert key not in shown.out
    rotated = command("keys", "rotate", "--json").json
    assert rotated["credentials"] == 2, "the login, and the registration of the client"
    assert command("keys", "show", "--json").json["keys"] == [rotated["key"]]
    assert command("call", "notes:whoami").out == "anna\n"

    assert command("servers", "logout", "notes").out == "Logged out of notes.\n"
    assert command("servers", "logout", "notes").out == "There is no login for notes.\n"
    assert "No stored credentials" in command("credentials", "list").err
    for outcome in (done, shown):
        assert not [t for t in notes._authorization.used_refresh if t in outcome.out + outcome.err]


def test_headers_are_given_by_hand_and_never_shown(
    command: Command, notes: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.accepts = {"Bearer by-hand"}
    given = command("credentials", "set", "notes", "--header", "Authorization=Bearer by-hand")
    assert given.out == "Stored Authorization for notes.\n"
    assert command("call", "notes:whoami").out == "Bearer by-hand\n"
    listed = command("credentials", "list", "--json")
    assert listed.json[0]["names"] == ["Authorization"]
    assert "by-hand" not in listed.out
    wrong = command("credentials", "set", "notes", "--env", "KEY=x")
    assert "takes headers" in wrong.err
    assert command("credentials", "remove", "notes").status == SUCCESS


def test_a_stored_variable_is_no_variable_of_the_gateway(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server_table("small", SMALL_SECRET="${env:NOT_SET}")
    (tmp_path / "toolgate.toml").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    stored = command("credentials", "set", "small", "--env", "NOT_SET=very-hidden")
    assert stored.status == SUCCESS
    assert "It is not used" in stored.err
    assert "toolgate credentials set small --secret NOT_SET" in stored.err
    table = table.replace("env:NOT_SET", "secret:NOT_SET")
    (tmp_path / "toolgate.toml").write_text(table, encoding="utf-8")
    assert command("servers", "test", "small").status != SUCCESS
    assert command("credentials", "set", "small", "--secret", "NOT_SET=hidden").err == ""
    assert command("servers", "test", "small").status == SUCCESS


def test_a_server_removed_from_its_file_leaves_no_credential(
    command: Command, notes: ProtectedServer
) -> None:
    """A server that gets its name later would be sent the secret of the one before."""
    notes.accepts = {"Bearer by-hand"}
    command("credentials", "set", "notes", "--header", "Authorization=Bearer by-hand")
    assert command("servers", "remove", "notes").status == SUCCESS
    added = command("servers", "add", "notes", "--url", notes.url, "--json")
    assert added.status == SUCCESS
    assert "No stored credentials" in command("credentials", "list").err


def test_secrets_of_added_servers_are_not_in_the_store(
    command: Command, notes: ProtectedServer
) -> None:
    added = command(
        "servers", "add", "late", "--url", notes.url, "--header", "X-Key=very-hidden", "--json"
    )
    assert added.status == SUCCESS
    assert "very-hidden" not in added.out
    store = settings.data_dir() / "toolgate.db"
    assert b"very-hidden" not in store.read_bytes()
    command("servers", "list")
    assert [h["x-key"] for h, _ in notes.requests if "x-key" in h][-1] == "very-hidden"
    assert command("servers", "remove", "late").status == SUCCESS
