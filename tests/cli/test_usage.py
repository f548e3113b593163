"""`usage`, `search --mark`, `tools --groups`, `eval tools --mine`: what was learned, by hand."""

from io import StringIO
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR


def test_what_was_searched_can_be_marked_measured_and_forgotten(
    command: Command, folder: Path
) -> None:
    command("search", "add", "two", "numbers")

    assert command("search", "--mark", "right", "small:add_numbers").status == SUCCESS
    status = command("usage", "status", "--json").json
    assert status["enabled"] is True
    assert status["pending"] == status["dropped"] == 0
    mine = command("eval", "tools", "--mine", "--strategy", "bm25", "--json").json[0]
    assert (mine["tools"], mine["requests"], mine["R@1"]) == (3, 1, 1.0)
    assert command("usage", "clear", "--yes", "--json").json == {"searches": 1}
    assert command("eval", "tools", "--mine").status != SUCCESS


def test_a_mark_needs_a_search_and_a_known_word(command: Command, folder: Path) -> None:
    unknown = command("search", "--mark", "right", "small:echo")
    assert unknown.status == USAGE_ERROR
    assert "None of your recent searches returned the tool 'small:echo'." in unknown.err
    odd = command("search", "--mark", "maybe", "small:echo")
    assert "--mark is 'maybe'. Allowed: right, wrong." in odd.err


def test_nothing_is_forgotten_without_a_yes(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())

    done = command("usage", "clear")

    assert done.status == USAGE_ERROR
    assert "Nothing was deleted. Answer y, or use --yes." in done.err


def test_requests_whose_text_was_not_kept_cannot_be_measured(
    command: Command, folder: Path
) -> None:
    path = folder / "toolgate.toml"
    path.write_text(f"{path.read_text()}\n[audit]\nkeep_queries = false\n")
    command("search", "add", "two", "numbers")
    command("search", "--mark", "right", "small:add_numbers")

    asked = command("eval", "tools", "--mine")

    assert asked.status == USAGE_ERROR
    assert "audit.keep_queries = true" in asked.err


def test_groups_are_listed(command: Command, folder: Path) -> None:
    assert "There are no groups." in command("tools", "--groups").err
    path = folder / "toolgate.toml"
    path.write_text(f'{path.read_text()}\n[groups]\nsums = ["small:add*"]\n')

    assert command("tools", "--groups", "--json").json == [
        {"name": "sums", "servers": ["small"], "tools": 1, "derived": False}
    ]
    assert command("search", "text", "--group", "sums", "--json").json["total_searched"] == 1
