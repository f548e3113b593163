"""`toolgate index`: with a gateway of its own and with a running one."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command, Serve, server_table
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS, USAGE_ERROR


@pytest.fixture
def meaning(folder: Path) -> Path:
    """The working folder, searched by meaning too."""
    path = folder / "toolgate.toml"
    path.write_text('optimization = "hybrid"\n' + path.read_text("utf-8"), "utf-8")
    return folder


def test_vectors_outlive_the_command_that_computed_them(command: Command, meaning: Path) -> None:
    assert command("tools").status == SUCCESS

    first = command("index", "status", "--json").json["searches"][0]
    again = command("index", "status", "--json").json["searches"][0]

    assert (first["tools"], first["vectors"], first["backlog"]) == (3, 3, 0)
    assert again["kept"]["vectors"] == again["counted"]["vectors_loaded"] == 3
    assert again["counted"]["embedding"]["document"]["texts"] == 0
    assert again["servers"] == [{"name": "small", "tools": 3, "vectors": 3}]


def test_status_is_shown_for_people(command: Command, meaning: Path) -> None:
    assert command("tools").status == SUCCESS

    shown = command("index", "status").out

    assert shown.startswith("Search: hybrid\nModel: bundled")
    assert "Tools: 3, 3 with a vector\nStore: 3 vectors\n" in shown
    assert shown.endswith("small\t3\t3\n")


def test_status_without_tools_points_to_the_servers(command: Command, meaning: Path) -> None:
    (meaning / "toolgate.toml").write_text("[serve]\nport = 0\n", "utf-8")

    shown = command("index", "status")

    assert shown.out == "Search: hybrid\nTools: none yet\n"
    assert "toolgate servers list" in shown.err


def test_an_index_is_renewed_and_removed(command: Command, meaning: Path) -> None:
    assert command("tools").status == SUCCESS

    assert command("index", "refresh", "small").out == (
        "Recomputed the vectors of 3 tools of small.\n"
    )
    assert command("index", "refresh", "--all", "--json").json["tools"] == 3
    assert command("index", "remove", "small", "--json").json == {"server": "small", "tools": 3}
    assert command("index", "status", "--json").json["searches"][0]["vectors"] == 3


def test_a_refresh_without_an_embedder_does_not_say_that_it_is_done(
    command: Command, meaning: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.cli.tools.index._STALLED_S", 0.1)
    path = meaning / "toolgate.toml"
    options = 'embedder = "onnx"\nembedder_options = { folder = "./nowhere" }\n'
    path.write_text(f"{path.read_text('utf-8')}\n[search]\n{options}", "utf-8")
    assert command("tools").status == SUCCESS

    asked = command("index", "refresh", "small")

    assert (asked.status, asked.out) == (FAILED, "")
    assert "3 tools still without a new vector: The folder " in asked.err


def test_what_cannot_be_meant_is_refused(command: Command, meaning: Path) -> None:
    assert command("index", "refresh").status == USAGE_ERROR
    assert command("index", "refresh", "small", "--all").status == USAGE_ERROR
    for words in (("refresh",), ("remove",)):
        asked = command("index", *words, "smal")
        assert asked.status == NO_RESULT
        assert "'smal'" in asked.err


def test_a_search_without_vectors_says_so(command: Command, folder: Path) -> None:
    path = folder / "toolgate.toml"
    path.write_text('optimization = "bm25"\n' + path.read_text("utf-8"), "utf-8")

    shown = command("index", "status")
    refused = command("index", "refresh", "--all")

    assert (shown.status, shown.out) == (SUCCESS, "")
    assert "The search bm25 uses no vectors." in shown.err
    assert refused.status == USAGE_ERROR
    assert "The search 'bm25' has no vectors." in refused.err


def test_a_running_gateway_answers_for_its_index(
    command: Command, serve: Serve, meaning: Path
) -> None:
    with (meaning / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write(server_table("other"))
    serve().line("other")
    while command("search", "echo a text", "--json").json["total_searched"] < 6:
        pass  # the command that asks takes a while by itself
    searched = command("index", "status", "--json").json["searches"][0]["counted"]["searches"]
    assert command("search", "add two numbers").status == SUCCESS
    assert command("index", "refresh", "other").status == SUCCESS

    status = command("index", "status", "--json").json["searches"][0]

    assert status["counted"]["searches"] == searched + 1
    assert status["counted"]["latency_ms"]["p50"] > 0
    assert {row["name"] for row in status["servers"]} == {"small", "other"}
    assert command("index", "remove", "other").status == SUCCESS
