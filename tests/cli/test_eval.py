"""`toolgate eval tools`: metrics of a search on labelled requests."""

import json
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.cli.conftest import Command, Run, Serve
from toolgate.errors import SettingError
from toolgate.evaluation.results import MOST_KEPT, note_evaluations, read_evaluations
from toolgate.evaluation.search_metrics import (
    Question,
    precision_by_rank,
    read_labelled,
    score_ranking,
)
from toolgate.settings import data_dir
from toolgate.testing import chat_reply, fake_service
from toolgate.types import Json

TOKEN = "token-of-team-0123456789"

TOOLS = [
    ("mail:send", "mail", "send", "Send an e-mail to somebody."),
    ("mail:read", "mail", "read", "Read the newest e-mails."),
    ("weather:forecast", "weather", "forecast", "Weather forecast for a place."),
    ("clock:now", "clock", "now", "The current time in a zone."),
]


def write(
    folder: Path, tools: list[tuple[str, str, str, str]], queries: list[dict[str, Any]]
) -> Path:
    folder.mkdir()
    names = ("id", "server", "name", "description")
    rows = [dict(zip(names, tool, strict=True)) for tool in tools]
    for name, lines in (("tools", rows), ("queries", queries)):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A set of two test requests and one for training."""
    return write(
        tmp_path / "small",
        TOOLS,
        [
            {"id": "1", "text": "send an e-mail", "relevant": ["mail:send"], "split": "test"},
            {"id": "2", "text": "weather in Rome", "relevant": ["weather:forecast", "clock:now"]},
            {"id": "3", "text": "weather", "relevant": ["weather:forecast"], "split": "train"},
        ],
    )


@pytest.mark.parametrize(
    ("ranked", "groups", "expected"),
    [
        ("ab", ["a"], {"R@1": 1, "R@5": 1, "C@10": 1, "nDCG@10": 1, "MRR": 1, "any@5": 1}),
        ("ba", ["a"], {"R@1": 0, "R@5": 1, "C@10": 1, "nDCG@10": 0.63, "MRR": 0.5, "any@5": 1}),
        ("bxa", ["ab", "c"], {"R@1": 0.5, "R@5": 0.5, "C@10": 0, "nDCG@10": 0.61, "MRR": 1}),
        ("", ["a"], {"R@5": 0, "C@10": 0, "nDCG@10": 0, "MRR": 0, "any@5": 0}),
    ],
)
def test_metrics_of_one_request(ranked: str, groups: list[str], expected: dict[str, float]) -> None:
    """Worked out by hand; a group counts once."""
    found = score_ranking(list(ranked), [frozenset(group) for group in groups])

    assert {name: round(found[name], 2) for name in expected} == expected


def test_distractors_of_the_same_name_are_left_out(small: Path, tmp_path: Path) -> None:
    more = write(
        tmp_path / "more", [("x:Send", "x", "S-end", ""), ("x:other", "x", "other", "")], []
    )

    found = read_labelled(small, [more])

    assert [tool.key for tool in found.tools] == [*(tool[0] for tool in TOOLS), "x:other"]
    assert [question.id for question in found.questions] == ["1", "2"]
    assert found.name == "small+more"


def test_two_tools_of_one_id_are_refused(tmp_path: Path) -> None:
    """One would take the place of the other, and requests for it count as missed."""
    folder = write(tmp_path / "twice", [*TOOLS, ("clock:now", "clock", "later", "Wait.")], [])
    with pytest.raises(SettingError, match="has the id 'clock:now' 2 times"):
        read_labelled(folder)


def test_a_distractor_of_the_same_id_takes_no_tool_away(small: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", [("clock:now", "clock", "wait", "Wait.")], [])
    assert [tool.name for tool in read_labelled(small, [other]).tools] == [
        name for _, _, name, _ in TOOLS
    ]


def test_files_of_windows_are_read(small: Path) -> None:
    for path in small.iterdir():
        text = path.read_text(encoding="utf-8").replace("\n", "\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    labelled = read_labelled(small)
    assert (len(labelled.tools), len(labelled.questions)) == (4, 2)


def test_precision_counts_each_rank_for_itself() -> None:
    questions = [
        Question(id=name, text=name, groups=(frozenset("ab"), frozenset("c"))) for name in "12"
    ]

    found = precision_by_rank([["a", "x", "c"], ["x"]], questions)

    assert found == [0.5, 0, 0.5, *[0] * 7]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '"text"',
        '{"id": "9"',
        '{"id": "9", "text": "a"}',
        '{"id": "9", "text": "a", "relevant": null}',
        '{"id": "9", "text": "a", "relevant": "mail:send"}',
        '{"id": "9", "text": "a", "relevant": [5]}',
        '{"id": "9", "text": "a", "relevant": ["mail:send"], "groups": ["mail:send"]}',
    ],
)
def test_a_line_that_is_no_request_is_named(small: Path, line: str) -> None:
    queries = small / "queries.jsonl"
    queries.write_text(f"{queries.read_text('utf-8')}{line}\n", encoding="utf-8")

    with pytest.raises(SettingError, match=r"queries\.jsonl (has a line without|cannot be read)"):
        read_labelled(small)


def test_rankings_that_cannot_be_written_are_refused_first(
    small: Path, tmp_path: Path, toolgate: Run
) -> None:
    ended = toolgate("eval", "tools", str(small), "--rankings", str(tmp_path / "no" / "out.jsonl"))

    assert ended.returncode == 2
    assert "cannot be written: No such file or directory." in ended.stderr
    assert not ended.stdout


def test_numbers_and_rankings_are_written(small: Path, tmp_path: Path, toolgate: Run) -> None:
    out = tmp_path / "out.jsonl"

    done = toolgate(
        "eval", "tools", str(small), "--strategy", "bm25", "--json", "--rankings", str(out)
    )

    assert done.returncode == 0, done.stderr
    [kept] = read_evaluations(data_dir() / "evaluations.jsonl")
    assert (kept.kind, kept.subject, kept.by, kept.requests) == ("tools", "small", "bm25", 2)
    (row,) = json.loads(done.stdout)
    assert kept.shares["R@5"] == row["R@5"]
    assert (row["set"], row["search"], row["tools"], row["requests"]) == ("small", "bm25", 4, 2)
    assert (row["R@1"], row["R@5"], row["C@10"], row["any@5"]) == (0.75, 0.75, 0.5, 1.0)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(line["query"], line["tools"][0]) for line in lines] == [
        ("1", "mail:send"),
        ("2", "weather:forecast"),
    ]


def test_requests_that_no_tool_serves_are_counted_by_what_they_were_told(
    tmp_path: Path, toolgate: Run
) -> None:
    folder = write(
        tmp_path / "mixed",
        TOOLS,
        [
            {"id": "1", "text": "send an e-mail", "relevant": ["mail:send"]},
            {"id": "2", "text": "qqq zzz vvv", "relevant": []},
            {"id": "3", "text": "wwwx kkkj", "relevant": []},
        ],
    )
    command = ("eval", "tools", str(folder), "--strategy", "hybrid")
    row = json.loads(toolgate(*command, "--json").stdout)[0]
    assert (row["requests"], row["R@1"]) == (3, 1.0)
    assert (row["none_served"], row["none_unserved"]) == (0.0, 1.0)

    queries = folder / "queries.jsonl"
    queries.write_text(queries.read_text().split("\n", 1)[1])
    cells = toolgate(*command).stdout.splitlines()[-1].split()
    assert cells[:4] == ["mixed", "hybrid", "4", "2"]
    assert cells[4:13] == ["-"] * 8 + ["1.000"]


def test_the_baseline_stands_beside_it(small: Path, toolgate: Run) -> None:
    pytest.importorskip("fastmcp")

    done = toolgate("eval", "tools", str(small), "--strategy", "bm25", "--baseline")

    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == [
        "search",
        "bm25",
        "FastMCP",
    ]


@pytest.mark.parametrize(
    ("tools", "said"),
    [(None, "tools.jsonl cannot be read"), ("{", "cannot be read"), ("{}", "without id and name")],
)
def test_a_folder_of_another_kind_is_named(
    tools: str | None, said: str, tmp_path: Path, toolgate: Run
) -> None:
    if tools is not None:
        (tmp_path / "tools.jsonl").write_text(tools, encoding="utf-8")

    done = toolgate("eval", "tools", str(tmp_path))

    assert done.returncode == 2
    assert said in done.stderr


def test_a_set_without_requests_ends_with_3(small: Path, toolgate: Run) -> None:
    done = toolgate("eval", "tools", str(small), "--split", "none")

    assert done.returncode == 3
    assert "has no request of the split 'none'" in done.stderr


def test_each_strategy_is_scored_through_the_same_door(
    small: Path,
    tmp_path: Path,
    folder: Path,
    serve: Serve,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The issue: `--strategy bm25|hybrid|cloud|llm`, cloud against a real second Toolgate."""
    config = folder / "toolgate.toml"
    config.write_text(
        f'optimization = "off"\n[catalog_search]\nstrategy = "bm25"\n'
        f'tokens = {{ team = ["{TOKEN}"] }}\n',
        encoding="utf-8",
    )
    other = serve()
    monkeypatch.setenv("TEAM", TOKEN)

    def agree(body: Json) -> Json:
        tools = json.loads(body["messages"][1]["content"])["tools"]
        return chat_reply([{"tool": one["tool"], "relevance": 0.5, "why": "fine"} for one in tools])

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_service(agree)) as model,
    ):
        mine = tmp_path / "mine.toml"
        mine.write_text(
            f'[search.options.cloud]\nurl = "{other.address}"\ntoken = "${{env:TEAM}}"\n'
            f'project_id = "team"\n[search.options.llm]\nurl = "{model.url}"\nlocal = "bm25"\n',
            encoding="utf-8",
        )
        asked = ("--config", str(mine), "eval", "tools", str(small), "--json")
        found = {
            name: command(*asked, "--strategy", name).json[0]
            for name in ("bm25", "hybrid", "cloud", "llm")
        }

    assert {name: row["search"] for name, row in found.items()} == {name: name for name in found}
    assert {row["fallbacks"] for row in found.values()} == {0}
    assert found["cloud"]["R@5"] == found["llm"]["R@5"] == found["bm25"]["R@5"]
    assert other.end() == 0


def test_answers_of_another_search_are_counted(small: Path, folder: Path, command: Command) -> None:
    """Or numbers of the local search would stand there as those of the service."""
    (folder / "toolgate.toml").write_text(
        '[search.options.cloud]\nurl = "http://127.0.0.1:1"\nlocal = "bm25"\n', encoding="utf-8"
    )

    done = command("eval", "tools", str(small), "--strategy", "cloud", "--json")

    assert done.json[0]["fallbacks"] == 2
    assert "small: another search answered 2 of 2 requests (cloud: no connection" in done.err


def test_answers_without_an_embedder_are_counted(
    small: Path, folder: Path, command: Command
) -> None:
    """Or numbers of words alone would stand there as those of words and meaning."""
    (folder / "toolgate.toml").write_text(
        '[search]\nembedder = "onnx"\nembedder_options = { folder = "./nowhere" }\n',
        encoding="utf-8",
    )

    done = command("eval", "tools", str(small), "--json")

    assert done.json[0]["fallbacks"] == 2
    assert "small: another search answered 2 of 2 requests (hybrid: the embedder " in done.err


def test_a_strategy_without_its_address_is_refused(small: Path, command: Command) -> None:
    done = command("eval", "tools", str(small), "--strategy", "cloud")

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "toolgate: Option 'url' of search 'cloud' is ''. Allowed: addresses with http:// or "
        "https://. Correct it under search.options.cloud.\n"
    )


def test_evaluations_are_kept_in_order_and_not_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "new" / "evaluations.jsonl"
    assert read_evaluations(path) == []
    for number in range(3):
        rows = [(f"set {number}", "bm25", at, {"R@5": 0.5}) for at in range(400)]
        note_evaluations("tools", rows, path=path)
    with path.open("ab") as file:
        file.write(b'not json\n{"at": 1}\n[]\n{"shares": {"a": "x"}}\n')
    found = read_evaluations(path)
    assert len(found) == MOST_KEPT
    assert (found[0].subject, found[0].requests) == ("set 0", 200)
    assert found[-1].subject == "set 2"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
