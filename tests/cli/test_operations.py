"""`cost`, `tools --usage`, `profile`, `doctor --production`: what operators ask for."""

from pathlib import Path

from tests.cli.conftest import Command
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS, USAGE_ERROR


def test_what_was_paid_and_used_is_told_and_other_settings_are_tried(
    command: Command, folder: Path
) -> None:
    assert command("cost", "--json").status == NO_RESULT
    command("search", "add", "two", "numbers")
    command("call", "small:add_numbers", "--arg", "a=1", "--arg", "b=2")

    assert command("cost", "--json").status == NO_RESULT, "a person's tries are no conversations"
    assert "Searches and calls of commands and of the console do not count." in command("cost").err
    records = command("audit", "list", "--json").json
    assert {row["detail"]["entry_point"] for row in records} == {"cli"}
    used = command("tools", "--usage", "--json").json
    assert [(one["tool"], one["calls"]) for one in used["tools"]] == [("small:add_numbers", 1)]
    assert used["never_used_servers"] == []

    replayed = command("profile", "--optimization", "bm25", "--json").json
    assert replayed["searches"] == 1
    assert replayed["tokens"]["before"] > 0
    weighed = command("profile", "--weight", "dense_weight=0", "--weight", "server_weight=1")
    assert weighed.status == SUCCESS
    assert "1 search:" in weighed.err
    for wrong in ("dense_weight=2", "dense_weight=x", "dense_weight", "none=1"):
        refused = command("profile", "--weight", wrong)
        assert refused.status == USAGE_ERROR
        assert "dense_weight, clause_weight, server_weight, context_weight" in refused.err
    assert command("profile").status == USAGE_ERROR


def test_what_others_may_not_depend_on_is_said(command: Command, folder: Path) -> None:
    told = command("doctor", "--quick", "--production", "--json")
    assert told.status == FAILED
    states = {check["name"]: check["state"] for check in told.json["checks"]}
    assert states["production access"] == "problem"
    assert states["production audit"] == "ok"
    path = folder / "toolgate.toml"
    path.write_text(
        f'auth = "required"\nquarantine = "changed"\n{path.read_text()}\n'
        '[limits]\ncalls_per_minute = 100\n[log]\nformat = "json"\n'
    )
    told = command("doctor", "--quick", "--production", "--json")
    assert told.status == SUCCESS, told.out
