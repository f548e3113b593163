"""`toolgate servers`: list, add, remove, enable, disable, test, logs, restart."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_SERVER, Command, Serve, server_table, small_servers
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS, USAGE_ERROR

KEYS = {"name", "kind", "state", "era", "version", "tools", "resources", "prompts", "listed_at"}


def test_list_shows_each_server_with_state_era_and_tools(command: Command, folder: Path) -> None:
    listed = command("servers", "list")
    assert listed.status == SUCCESS
    assert listed.out.splitlines()[1].startswith("small\tready\tstdio\t2025-11-25\t3\t")


def test_list_as_json_is_the_whole_status(command: Command, folder: Path) -> None:
    (server,) = command("servers", "list", "--json").json
    assert server.keys() >= KEYS
    assert (server["name"], server["state"], server["era"]) == ("small", "ready", "handshake")
    assert server["listed_at"].endswith(("Z", "+00:00"))


def test_list_says_why_a_server_is_down(command: Command, folder: Path) -> None:
    (folder / "toolgate.toml").write_text(
        '[server.gone]\ncommand = "no-such-program"\n', encoding="utf-8"
    )
    listed = command("servers", "list")
    assert listed.out.splitlines()[1].startswith("gone\tdown\tstdio")
    assert "no-such-program" in listed.out


def test_list_without_servers_says_how_to_add_one(command: Command, folder: Path) -> None:
    (folder / "toolgate.toml").write_text("", encoding="utf-8")
    listed = command("servers", "list")
    assert (listed.status, listed.out) == (SUCCESS, "")
    assert "toolgate add NAME" in listed.err
    assert command("servers", "list", "--json").json == []


def test_a_server_can_be_added_used_disabled_enabled_and_removed(
    command: Command, folder: Path
) -> None:
    added = command("servers", "add", "other", "--", sys.executable, str(SMALL_SERVER))
    assert added.status == SUCCESS, added.err
    assert command("call", "other:echo", "--arg", "text=x").status == SUCCESS
    assert command("servers", "disable", "other").status == SUCCESS
    refused = command("call", "other:echo", "--arg", "text=x")
    assert refused.status == FAILED
    assert "is disabled" in refused.err
    assert command("servers", "enable", "other").status == SUCCESS
    assert command("servers", "remove", "other").status == SUCCESS
    names = [server["name"] for server in command("servers", "list", "--json").json]
    assert names == ["small"]


def test_when_a_server_runs_can_be_changed_in_its_file(command: Command, folder: Path) -> None:
    file = folder / "toolgate.toml"
    file.write_text(file.read_text("utf-8").rstrip() + "  # mine\n", encoding="utf-8")
    done = command("servers", "schedule", "small", "--start", "on-demand", "--idle-s", "1")
    assert done.status == SUCCESS, done.err
    written = file.read_text("utf-8")
    assert "# mine" in written
    assert 'start = "on-demand"' in written
    assert "idle_s = 1.0" in written
    assert command("call", "small:echo", "--arg", "text=x").status == SUCCESS
    assert command("servers", "schedule", "small", "--start", "always").status == SUCCESS
    assert "start" not in file.read_text("utf-8")


def test_a_server_can_be_added_to_start_on_demand(command: Command, folder: Path) -> None:
    server = (sys.executable, str(SMALL_SERVER))
    done = command("add", "other", "--start", "on-demand", "--dry-run", "--", *server)
    assert done.json["other"]["start"] == "on-demand"
    assert command("add", "other", "--start", "on-demand", "--", *server).status == SUCCESS
    assert command("call", "other:echo", "--arg", "text=x").status == SUCCESS


@pytest.mark.parametrize(
    "argv", [(), ("--start", "sometimes"), ("--idle-s", "0"), ("--idle-s", "1e9")]
)
def test_a_schedule_that_cannot_be_is_refused(
    argv: tuple[str, ...], command: Command, folder: Path
) -> None:
    before = (folder / "toolgate.toml").read_text("utf-8")
    assert command("servers", "schedule", "small", *argv).status == USAGE_ERROR
    assert (folder / "toolgate.toml").read_text("utf-8") == before


def test_a_server_can_be_added_to_a_running_gateway_at_once(
    command: Command, serve: Serve, folder: Path
) -> None:
    serve().line("small")
    added = command("servers", "add", "other", "--json", "--", sys.executable, str(SMALL_SERVER))
    (row,) = added.json["servers"]
    assert (row["name"], added.json["saved_in"]) == ("other", "store")
    assert row["server"]["tools"] == 3
    assert command("call", "other:echo", "--arg", "text=x").status == SUCCESS
    assert command("servers", "restart", "other").status == SUCCESS
    assert command("servers", "logs", "other").out == "small server\n"
    assert command("servers", "remove", "other").status == SUCCESS
    assert len(small_servers(folder)) == 1


def test_quarantined_instructions_are_shown_by_all_commands_until_they_are_approved(
    command: Command, serve: Serve, folder: Path
) -> None:
    (folder / "toolgate.toml").write_text(
        server_table("small", SMALL_INSTRUCTIONS="Add before you echo."), encoding="utf-8"
    )
    serve().line("small")
    listed = command("servers", "list").out
    assert "1 definition quarantined: toolgate servers approve small" in listed
    found = command("doctor").out
    assert (
        "quarantine small: 1 definition quarantined. Its instructions are left out of"
        " Toolgate's instructions until approved." in found
    )
    shown = command("servers", "approve", "--kind", "instructions")
    assert "The instructions of small: They are not approved yet." in shown.out
    assert "+ Add before you echo." in shown.out
    assert command("servers", "approve", "--kind", "prompt").status == NO_RESULT

    done = command("servers", "approve", "small", "instructions", "--yes")
    assert "Approved the instructions of small." in done.out
    assert command("servers", "approve", "small").status == NO_RESULT
    assert "quarantine small" not in command("doctor").out


def test_list_asks_the_running_gateway_while_the_file_is_broken(
    command: Command, serve: Serve, folder: Path
) -> None:
    serve().line("small")
    path = folder / "toolgate.toml"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n[serve\n", encoding="utf-8")
    done = command("servers", "list")
    assert done.status == SUCCESS
    assert done.out.splitlines()[1].startswith("small\t")
    assert "The running gateway still uses the previous configuration." in done.err


def test_list_of_a_broken_file_without_a_gateway_says_what_is_wrong(
    command: Command, folder: Path
) -> None:
    (folder / "toolgate.toml").write_text("[serve\n", encoding="utf-8")
    done = command("servers", "list")
    assert (done.status, done.out) == (USAGE_ERROR, "")
    assert "toolgate.toml" in done.err


def test_save_writes_to_the_file_and_keeps_its_comments(command: Command, folder: Path) -> None:
    path = folder / "toolgate.toml"
    path.write_text("# mine\n" + path.read_text("utf-8"), encoding="utf-8")
    added = command("servers", "add", "web", "--url", "http://127.0.0.1:9/mcp", "--save")
    assert added.status == SUCCESS, added.err
    text = path.read_text("utf-8")
    assert text.startswith("# mine\n[serve]")
    assert "[server.web]" in text


def test_a_server_of_the_file_is_removed_with_its_name_said_and_a_backup_kept(
    command: Command, folder: Path
) -> None:
    path = folder / "toolgate.toml"
    before = path.read_bytes()
    removed = command("servers", "remove", "small")
    assert removed.status == SUCCESS, removed.err
    assert f"Removed small from {path}." in removed.out
    assert b"[server.small]" not in path.read_bytes()
    assert before in [other.read_bytes() for other in folder.glob("toolgate.toml.*")]


def test_header_and_variables_are_kept_as_written(command: Command, folder: Path) -> None:
    command(
        *("servers", "add", "web", "--url", "http://127.0.0.1:9/mcp", "--save"),
        *("--header", "Authorization: Bearer ${env:DOCS_TOKEN:-none}", "--header", "X-A=b=c"),
    )
    text = (folder / "toolgate.toml").read_text("utf-8")
    assert 'Authorization = "Bearer ${env:DOCS_TOKEN:-none}"' in text
    assert 'X-A = "b=c"' in text


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["x"], "not a program on this machine"),
        (["x", "--url", "http://h/mcp", "--", "npx"], "exactly one"),
        (["x", "--url", "http://h/mcp", "--env", "A=b"], "--env cannot be used with"),
        (["x", "--header", "A=b", "--", "npx"], "--header cannot be used with"),
        (["x", "--env", "A", "--", "npx"], "--env got 'A'. Allowed: NAME=VALUE."),
        (["small", "--", "npx"], "There is a server 'small' already."),
        (["x", "--url", "nonsense"], "not a server URL"),
    ],
    ids=["neither", "both", "env", "header", "pair", "twice", "url"],
)
def test_a_server_that_cannot_be_is_refused_with_status_2(
    argv: list[str], sentence: str, command: Command, folder: Path
) -> None:
    added = command("servers", "add", *argv)
    assert added.status == USAGE_ERROR
    assert sentence in added.err
    assert "Traceback" not in added.err


def test_a_secret_in_a_wrong_option_is_not_repeated(command: Command, folder: Path) -> None:
    added = command("servers", "add", "x", "--header", "hunter2secret", "--url", "http://h/")
    assert added.status == USAGE_ERROR
    added = command("servers", "add", "x", "--header", "=hunter2secret", "--url", "http://h/")
    assert "hunter2secret" not in added.err


@pytest.mark.parametrize("verb", ["remove", "enable", "disable", "test", "logs"])
def test_an_unknown_server_has_status_3(verb: str, command: Command, folder: Path) -> None:
    asked = command("servers", verb, "absent")
    assert asked.status == NO_RESULT
    assert "There is no server 'absent'." in asked.err


def test_a_server_of_a_file_is_disabled_in_its_file(command: Command, folder: Path) -> None:
    assert command("servers", "disable", "small").status == SUCCESS
    assert "enabled = false" in (folder / "toolgate.toml").read_text(encoding="utf-8")


def test_test_says_era_tools_and_time(command: Command, folder: Path) -> None:
    tried = command("servers", "test", "small")
    assert tried.status == SUCCESS
    assert tried.out.startswith("small works: protocol 2025-11-25, 3 tools, ")
    trial = command("servers", "test", "small", "--json").json
    assert trial["ok"] is True
    assert trial["ready_s"] > 0
    assert small_servers(folder) == []


def test_test_of_a_server_that_dies_shows_what_it_wrote(command: Command, folder: Path) -> None:
    (folder / "toolgate.toml").write_text(
        server_table("bad", "--dies", SMALL_SECRET="says this"), encoding="utf-8"
    )
    tried = command("servers", "test", "bad")
    assert tried.status == FAILED
    assert "bad does not work" in tried.err
    assert "small server [secret masked]" in tried.err


def test_restart_without_a_running_gateway_says_so(command: Command, folder: Path) -> None:
    asked = command("servers", "restart", "small")
    assert asked.status == FAILED
    assert "toolgate serve" in asked.err
