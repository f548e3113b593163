"""`toolgate servers override`: a tool is offered in another way, while its server keeps running."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Serve, small_servers
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR

ECHO = "small:echo"


def file_of(folder: Path) -> dict[str, object]:
    whole = tomllib.loads((folder / "toolgate.toml").read_text("utf-8"))
    return whole["server"]["small"].get("tools", {})


def test_an_override_is_written_to_the_file_and_holds_for_calls(
    command: Command, folder: Path
) -> None:
    file = folder / "toolgate.toml"
    file.write_text(file.read_text("utf-8") + "timeout_s = 30  # mine\n", encoding="utf-8")

    done = command(
        *("servers", "override", ECHO, "--name", "say", "--tag", "speech"),
        *("--set", "times=3", "--default", "text=hello", "--describe", "tags=Words."),
    )

    assert done.status == SUCCESS, done.err
    assert "# mine" in file.read_text("utf-8")
    assert file_of(folder) == {
        "echo": {
            "name": "say",
            "tags": ["speech"],
            "parameters": {
                "times": {"value": 3},
                "text": {"default": "hello"},
                "tags": {"description": "Words."},
            },
        }
    }
    called = command("call", "small:say")
    assert json.loads(called.out.partition(" größer")[0]) == {"text": "hello", "times": 3}


def test_what_is_not_named_stays_and_all_can_be_taken_back(command: Command, folder: Path) -> None:
    written = (folder / "toolgate.toml").read_text("utf-8")
    assert command("servers", "override", ECHO, "--name", "say", "--set", "times=3").status == 0
    done = command("servers", "override", ECHO, "--default", "times=2", "--description", "Says.")
    assert done.status == SUCCESS, done.err
    shown = command("servers", "override", "small:say", "--json").json
    assert shown["override"] == {
        "name": "say",
        "description": "Says.",
        "parameters": {"times": {"default": 2}},
    }
    assert shown["listed"]["description"] == "Echo a text back."
    assert shown["offered"]["inputSchema"]["properties"]["times"]["default"] == 2
    assert command("servers", "override", ECHO, "--reset", "times").status == SUCCESS
    assert "parameters" not in command("servers", "override", ECHO, "--json").json["override"]
    assert command("servers", "override", ECHO, "--remove").status == SUCCESS
    assert (folder / "toolgate.toml").read_text("utf-8") == written
    assert command("servers", "override", ECHO, "--json").json["override"] == {}


@pytest.mark.parametrize(
    "tables",
    [
        "[server.small.tools.echo.parameters]\ntext = { default = 'hello' }  # mine\n",
        "[server.small.tools.echo.parameters.text]  # mine\n# ours\ndefault = 'hello'\n",
    ],
    ids=["one table", "a table for each parameter"],
)
def test_tables_written_as_in_the_documentation_are_changed_in_the_file(
    command: Command, folder: Path, tables: str
) -> None:
    file = folder / "toolgate.toml"
    after = "\n# After.\n[log]\nlevel = 'warning'\n"
    file.write_text(
        f"{file.read_text('utf-8')}[server.small.tools.echo]\nname = 'say'\n{tables}{after}",
        encoding="utf-8",
    )

    done = command("servers", "override", ECHO, "--description", "Says it.", "--set", "times=3")
    assert done.status == SUCCESS, done.err
    assert "store" not in done.err
    parameters: dict[str, object] = {"text": {"default": "hello"}, "times": {"value": 3}}
    expected = {"name": "say", "description": "Says it.", "parameters": parameters}
    assert file_of(folder)["echo"] == expected
    assert command("servers", "override", ECHO, "--describe", "text=Words.").status == SUCCESS
    assert command("servers", "override", ECHO, "--set", "times=4").status == SUCCESS
    parameters |= {"text": {"default": "hello", "description": "Words."}, "times": {"value": 4}}
    assert file_of(folder)["echo"] == expected
    # Where the parameter has a table of its own, its comments are still there too.
    assert after.strip() in file.read_text("utf-8")
    assert ("# ours" in tables) == ("# mine\n" in file.read_text("utf-8"))

    assert command("servers", "override", ECHO, "--reset", "times").status == SUCCESS
    del parameters["times"]
    assert command("servers", "override", ECHO, "--reset", "text").status == SUCCESS
    assert file_of(folder)["echo"] == {"name": "say", "description": "Says it."}
    done = command("servers", "override", ECHO, "--remove")
    assert "store" not in done.err
    assert file_of(folder) == {}
    assert after.strip() in file.read_text("utf-8")


def test_a_hidden_parameter_has_the_default_that_is_sent(command: Command, folder: Path) -> None:
    """Hiding a parameter removed its default, although that is what the server gets."""
    hidden = ("servers", "override", ECHO, "--hide-parameter", "text")
    done = command(*hidden, "--default", "text=hello")
    assert done.status == SUCCESS, done.err
    text = {"default": "hello", "hide": True}
    assert file_of(folder) == {"echo": {"parameters": {"text": text}}}
    assert json.loads(command("call", ECHO).out.partition(" größer")[0])["text"] == "hello"

    assert command("servers", "override", ECHO, "--default", "text=bye").status == SUCCESS
    text["default"] = "bye"
    assert file_of(folder) == {"echo": {"parameters": {"text": text}}}
    assert command("servers", "override", ECHO, "--set", "text=x").status == SUCCESS
    assert file_of(folder) == {"echo": {"parameters": {"text": {"value": "x"}}}}
    assert command(*hidden, "--default", "text=y").status == SUCCESS
    assert file_of(folder) == {"echo": {"parameters": {"text": {"default": "y", "hide": True}}}}


def test_a_change_that_the_file_cannot_take_says_where_it_was_saved(
    command: Command, folder: Path
) -> None:
    """The command wrote such changes to the store, and only the log said so."""
    file = folder / "toolgate.toml"
    text = file.read_text("utf-8") + "tools.echo.name = 'say'  # mine\n"
    file.write_text(text, encoding="utf-8")

    done = command("servers", "override", ECHO, "--set", "times=3")
    assert done.status == SUCCESS, done.err
    assert "Saved in the store, which takes precedence over the file:" in done.err
    assert file.read_text("utf-8") == text
    shown = command("servers", "override", ECHO, "--json").json["override"]
    assert shown == {"name": "say", "parameters": {"times": {"value": 3}}}


def test_a_preview_changes_nothing(command: Command, folder: Path) -> None:
    before = (folder / "toolgate.toml").read_text("utf-8")
    shown = command("servers", "override", ECHO, "--hide", "--dry-run", "--json").json
    assert (shown["override"], shown["offered"]) == ({"hide": True}, None)
    assert (folder / "toolgate.toml").read_text("utf-8") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "color=red"), "names the parameter 'color', which the tool does not have"),
        (("--set", "times=many"), "takes integer"),
        (("--hide-parameter", "text"), "hides the parameter 'text', which the server requires"),
        (("--name", "add_numbers"), "another tool is called so"),
        (("--name", "a b"), "override: server.small.tools.echo.name is 'a b'. Allowed: 1 to 64"),
        (("--set", "times=1", "--default", "times=2"), "--set names the parameter 'times'"),
        (("--set", "times=1", "--hide-parameter", "times"), "--set names the parameter 'times'"),
        (("--set", "text=${user.mail}"), "which no caller has"),
        (("--table", '{"colour": "red"}'), "Overrides have no key named 'colour'"),
        (("--set", "text=***"), "is still masked"),
    ],
)
def test_what_could_not_be_applied_is_refused_and_nothing_is_changed(
    command: Command, folder: Path, options: tuple[str, ...], message: str
) -> None:
    before = (folder / "toolgate.toml").read_text("utf-8")
    refused = command("servers", "override", ECHO, *options)
    assert refused.status == USAGE_ERROR, refused.out
    assert message in refused.err
    assert (folder / "toolgate.toml").read_text("utf-8") == before


def test_options_that_contradict_each_other_are_refused(command: Command, folder: Path) -> None:
    del folder
    refused = command("servers", "override", ECHO, "--name", "say", "--remove")
    assert refused.status == USAGE_ERROR
    unknown = command("servers", "override", "small:nothing")
    assert "lists no tool 'nothing'" in unknown.err


def test_the_running_gateway_offers_it_at_once_and_its_server_keeps_running(
    command: Command, folder: Path, serve: Serve
) -> None:
    """Of a server that was added to the store; the value of a secret parameter is not shown."""
    serve()
    added = command("servers", "add", "other", "--", *_small_command(folder))
    assert added.status == SUCCESS, added.err
    assert command("call", "other:echo", "--arg", "text=x").status == SUCCESS
    before = small_servers(folder)

    table = {"parameters": {"tags": {"value": ["${user.id}", "b"]}}}
    done = command("servers", "override", "other:echo", "--table", json.dumps(table))
    assert done.status == SUCCESS, done.err
    called = command("call", "other:echo", "--arg", "text=x")

    assert '"b"]' in called.out
    assert "${user" not in called.out
    assert small_servers(folder) == before
    selection = ("audit", "list", "--action", "override_tool", "--json")
    listed = command(*selection)
    for _ in range(50):  # the gateway writes its records in batches
        if listed.status == SUCCESS:
            break
        listed = command(*selection)
    (change,) = listed.json
    assert change["detail"]["key"] == "other:echo"


def _small_command(folder: Path) -> list[str]:
    server = tomllib.loads((folder / "toolgate.toml").read_text("utf-8"))["server"]["small"]
    return [server["command"], *server["args"]]


def test_the_override_of_a_server_of_an_imported_file_is_in_the_store(
    command: Command, folder: Path
) -> None:
    program, *arguments = _small_command(folder)
    servers = {"far": {"command": program, "args": arguments}}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (folder / "toolgate.toml").write_text(
        'import = ["servers.json"]\n[serve]\nport = 0\n', encoding="utf-8"
    )
    table = {"parameters": {"text": {"value": "${env:FAR}-hunter2"}}}
    refused = command("servers", "override", "far:echo", "--table", json.dumps(table))
    assert refused.status == USAGE_ERROR
    assert "FAR" in refused.err
    table = {"parameters": {"text": {"value": "hunter2"}}}
    done = command("servers", "override", "far:echo", "--table", json.dumps(table))
    assert done.status == SUCCESS
    assert f"Saved in the store, not in {folder / 'servers.json'}." in done.err
    assert '"hunter2"' in command("call", "far:echo").out
    shown = command("servers", "override", "far:echo", "--name", "say", "--json").json
    assert shown["override"]["parameters"] == {"text": {"value": "hunter2"}}
    assert '"hunter2"' in command("call", "far:say").out
    assert command("servers", "override", "far:say", "--remove").status == SUCCESS
    assert command("call", "far:echo", "--arg", "text=x").status == SUCCESS
    assert json.loads((folder / "servers.json").read_text("utf-8")) == {"mcpServers": servers}
