"""`tokens`, `projects`, `permissions`, `explain`: sharing a gateway from the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from toolgate.cli.terminal._durations import parse_duration
from toolgate.cli.terminal._exit import DENIED, SUCCESS, USAGE_ERROR
from toolgate.errors import ArgumentError


def test_two_projects_and_three_tokens_are_made_and_explained(
    command: Command, folder: Path
) -> None:
    """`docs/permissions.md`, From a laptop to a shared gateway."""
    made = command("projects", "create", "team-web", "--server", "small")
    assert (made.status, made.out) == (SUCCESS, "Created the project team-web.\n")
    other = command("projects", "create", "team-data", "--server", "later", "--read-only")
    assert "There is no server 'later' yet" in other.err
    two = command("tokens", "create", "anna", "ben", "--project", "team-web", "--role", "member")
    assert two.status == SUCCESS
    assert [line[:3] for line in two.out.splitlines()] == ["tg_", "tg_"]
    assert "Token anna, shown only once:" in two.err
    assert "toolgate serve --auth required" in two.err
    carl = command(
        "tokens", "create", "carl", "--project", "team-data", "--allow", "small:add_*", "--json"
    ).json
    assert carl["token"].startswith(carl["prefix"])

    listed = command("tokens", "list", "--json")
    assert [one["name"] for one in listed.json] == ["anna", "ben", "carl"]
    assert not any(secret in listed.out for secret in (*two.out.split(), carl["token"]))
    assert {one["name"]: one["servers"] for one in command("projects", "list", "--json").json} == {
        "team-web": ["small"],
        "team-data": ["later"],
    }

    seen = command("explain", "small:add_numbers", "--token", "anna")
    assert seen.status == SUCCESS
    assert seen.out.endswith("small:add_numbers is visible.\n")
    for word in ("carl", carl["prefix"], carl["token"]):
        hidden = command("explain", "small:add_numbers", "--token", word, "--json")
        assert hidden.status == DENIED
        assert hidden.json["token"] == "carl"
        refused = [one["stage"] for one in hidden.json["stages"] if not one["passed"]]
        assert refused == ["project", "read_only"]
        assert carl["token"] not in hidden.out + hidden.err


def test_a_token_is_renewed_revoked_and_removed(command: Command, folder: Path) -> None:
    first = command("tokens", "create", "anna", "--expires", "30d", "--json").json
    again = command("tokens", "create", "anna")
    assert (again.status, "There is a token 'anna' already." in again.err) == (USAGE_ERROR, True)

    second = command("tokens", "rotate", "anna", "--grace", "15m", "--json").json
    assert second["token"] != first["token"]
    assert (second["id"], second["prefix"]) == (first["id"], first["prefix"])
    assert command("tokens", "revoke", "anna").out.startswith("Revoked anna.")
    assert command("tokens", "list", "--json").json[0]["state"] == "revoked"
    assert command("tokens", "rotate", "anna").status == USAGE_ERROR
    assert command("explain", "small:echo", "--token", "anna").status == DENIED
    assert command("tokens", "delete", "anna").status == SUCCESS
    missing = command("tokens", "revoke", "anna")
    assert "There is no token 'anna'. See: toolgate tokens list" in missing.err


def test_a_token_that_is_not_known_is_not_shown_again(command: Command, folder: Path) -> None:
    """It may be a right one, of another gateway."""
    secret = "tg_0a1b2c3d_" + "x" * 43
    done = command("tokens", "revoke", secret)

    assert done.status == USAGE_ERROR
    assert "There is no token 'tg_0a1b2c3d'." in done.err
    assert "xxx" not in done.err


def test_rules_are_made_listed_with_their_places_and_removed(
    command: Command, folder: Path
) -> None:
    path = folder / "toolgate.toml"
    path.write_text(f'{path.read_text()}\n[[permission]]\nto = ["role:dev"]\nallow = ["small"]\n')
    made = command(
        "permissions", "deny", "*", "*:x_*", "--to", "everyone", "--to", "group:g", "--destructive"
    )
    assert made.out == "Added 4 rules.\n"
    rules = command("permissions", "list", "--json").json
    assert [rule["effect"] for rule in rules] == ["allow", "deny", "deny", "deny", "deny"]
    line = path.read_text().splitlines().index("[[permission]]") + 1
    assert rules[0]["source"].endswith(f"toolgate.toml, line {line}")
    shown = command("permissions", "list")
    assert "deny\t* (destructive)\teveryone\t" in shown.out
    assert 'rules apply with auth = "required"' in shown.err
    ids = [rule["id"] for rule in rules[1:]]
    assert command("permissions", "remove", *ids).out == "Removed 4 rules.\n"
    assert command("permissions", "remove", ids[0]).status == USAGE_ERROR


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("permissions", "allow", "*", "--to", "anna"), "'anna' is not a valid subject of a rule."),
        (("permissions", "allow", "right=fly", "--to", "everyone"), "There is no right 'fly'."),
        (
            ("permissions", "allow", "*", "--to", "everyone", "--read-only", "--destructive"),
            "--read-only and --destructive exclude each other.",
        ),
        (("tokens", "create", "a/b"), "A token cannot be called 'a/b'."),
        (("tokens", "create", "tg_x"), "tokens themselves begin like that"),
        (("tokens", "create", "a", "--project", "none"), "There is no project 'none'."),
        (("tokens", "create", "a", "--expires", "soon"), "--expires got 'soon'."),
        (("tokens", "create", "a", "--limit", "calls=1"), "The limit 'calls' is 1."),
        (("tokens", "create", "a", "--limit", "calls_per_day=x"), "--limit got"),
        (("projects", "create", "default"), "There is a project 'default' already."),
        (("projects", "create", "UNASSIGNED"), "A project cannot be called 'UNASSIGNED'."),
        (("projects", "create", "p", "--set", "colour=red"), "A project has no setting 'colour'."),
        (("projects", "create", "p", "--set", "mode=loud"), "mode of a project is 'loud'."),
        (("projects", "set", "p", "--read-only"), "There is no project 'p'."),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(
    command: Command, folder: Path, argv: tuple[str, ...], said: str
) -> None:
    done = command(*argv)

    assert done.status == USAGE_ERROR
    assert said in done.err


def test_a_project_is_changed_and_removed(command: Command, folder: Path) -> None:
    command("projects", "create", "web", "--server", "small", "--set", "calls_per_day=10")
    changed = command(
        "projects", "set", "web", "--server", "more", "--set", "mode=all", "--set",
        "calls_per_minute=5", "--set", "pinned=small:echo,small:slow", "--json",
    ).json  # fmt: skip
    assert changed["servers"] == ["more", "small"]
    assert changed["settings"] == {
        "mode": "all",
        "pinned": ["small:echo", "small:slow"],
        "limits": {"calls_per_day": 10, "calls_per_minute": 5},
    }
    assert command("projects", "delete", "web").status == USAGE_ERROR
    emptied = command("projects", "set", "web", "--no-servers", "--set", "mode=", "--json").json
    assert emptied["servers"] == []
    assert "mode" not in emptied["settings"]
    assert command("projects", "delete", "web").out == "Deleted the project web.\n"


def test_a_project_of_the_file_stays_as_its_owner_wrote_it(command: Command, folder: Path) -> None:
    path = folder / "toolgate.toml"
    path.write_text(f'{path.read_text()}\n[project.web]\nservers = ["small"]\n')

    assert command("projects", "list", "--json").json[0]["source"] == str(path)
    assert "Change [project.web] there." in command("projects", "set", "web", "--read-only").err
    assert command("projects", "delete", "web").status == USAGE_ERROR


def test_listening_for_others_needs_tokens(command: Command, folder: Path) -> None:
    done = command("serve", "--host", "0.0.0.0", "--port", "0")

    assert done.status == USAGE_ERROR
    assert "0.0.0.0 is open to other machines" in done.err
    assert 'auth = "required"' in done.err
    assert "toolgate tokens create NAME" in done.err
    assert str(folder / "toolgate.toml") in done.err
    odd = command("serve", "--auth", "maybe")
    assert odd.status == USAGE_ERROR
    assert "Allowed: local, required." in odd.err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("12H", 43_200), ("30d", 2_592_000)]
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert parse_duration("--x", text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-1h", "1.5h", "9999999d"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        parse_duration("--x", text)


def test_commands_act_in_the_project_of_the_environment(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("projects", "create", "web", "--server", "small")

    assert "TOOLGATE_PROJECT=web toolgate tools" in command("tools").err
    monkeypatch.setenv("TOOLGATE_PROJECT", "web")
    assert len(command("tools", "--json").json) > 0
    monkeypatch.setenv("TOOLGATE_PROJECT", "nowhere")
    refused = command("tools")
    assert refused.status == DENIED
    assert "There is no project 'nowhere' for you." in refused.err


def test_the_same_guard_is_not_added_twice(command: Command, folder: Path) -> None:
    """Removing one of two would have no effect."""
    path = folder / "toolgate.toml"
    path.write_text(f'{path.read_text()}\n[[guard]]\ntools = ["small"]\nmax_result_bytes = 9\n')
    add = ("guards", "add", "small:echo", "--approver", "user")
    made = command(*add, "--deny", "a=x", "--deny", "b=y", "--json").json

    again = command(*add, "--deny", "b=y", "--deny", "a=x")
    assert again.status == USAGE_ERROR
    assert f"The same guard exists already: the store, guard {made['id']}." in again.err
    again = command("guards", "add", "small", "--max-result-bytes", "9")
    assert again.status == USAGE_ERROR
    assert "toolgate.toml, line " in again.err
    assert command(*add, "--deny", "a=x").status == SUCCESS


def test_guards_are_made_listed_with_their_places_and_removed(
    command: Command, folder: Path
) -> None:
    path = folder / "toolgate.toml"
    path.write_text(f'{path.read_text()}\n[[guard]]\ntools = ["small"]\nmax_result_bytes = 9\n')
    made = command(
        *("guards", "add", "small:echo", "--deny", "text=^/etc/", "--deny", "*=rm -rf", "--json"),
        *("--arguments", '{"required": ["text"]}', "--reason", "Not here."),
    ).json
    assert made["deny"] == {"text": ["^/etc/"], "*": ["rm -rf"]}
    assert made["arguments"] == {"required": ["text"]}
    listed = command("guards", "list", "--json").json
    assert [bool(one["id"]) for one in listed] == [False, True]
    assert listed[1] == made
    assert "toolgate.toml, line " in command("guards", "list").out
    refused = command("call", "small:echo", "--arg", "text=/etc/passwd")
    assert refused.status == DENIED
    assert "A guard does not allow the argument 'text'" in refused.err
    nothing = command("guards", "add", "small")
    assert (nothing.status, "The guard does nothing." in nothing.err) == (USAGE_ERROR, True)
    assert command("guards", "remove", made["id"]).out == "Removed 1 guard.\n"
    assert command("guards", "remove", made["id"]).status == USAGE_ERROR
    assert command("guards", "add", "small", "--deny", "text").status == USAGE_ERROR
    assert command("guards", "add", "small", "--arguments", "{").status == USAGE_ERROR
