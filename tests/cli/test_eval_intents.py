"""`toolgate eval intents`: how well example prompts tell messages apart."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

PROMPTS = {
    "refunds": ["give me my money back", "i want a refund", "return my payment please"],
    "relations": ["create a relation", "join two tables", "link orders and customers"],
}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A pack of two intents."""
    home = tmp_path / "pack" / "intents"
    home.mkdir(parents=True)
    for name, lines in PROMPTS.items():
        (home / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "pack"


def test_each_message_gets_a_line_and_the_labelled_ones_are_scored(
    command: Command, pack: Path, tmp_path: Path
) -> None:
    queries, out = tmp_path / "queries.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"id": "a", "text": "i want a refund", "intent": "REFUNDS"},
        {"id": "b", "text": "???", "intent": None},
        {"id": "c", "text": "create a relation"},
    ]
    queries.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    done = command(
        *("eval", "intents", "--pack", str(pack), "--queries", str(queries)),
        *("--predictions", str(out), "--embedder", "none", "--sweep", "--json"),
    )

    assert done.status == 0, done.err
    answer = json.loads(done.out)
    assert (answer["intents"], answer["prompts"], answer["messages"]) == (2, 6, 3)
    assert answer["labelled"]["out_of_scope_recall"] == 1.0
    assert answer["labelled"]["accuracy_before_cut"] == 1.0
    assert [row["false_alarms_wanted"] for row in answer["sweep"]][:2] == [0.0, 0.01]
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    assert set(lines[0]) == {"id", "intent", "confidence", "top"}
    assert lines[0]["top"][0][0] == "refunds"
    assert (lines[1]["intent"], lines[1]["confidence"]) == (None, 0.0)


def test_people_get_the_figures_as_sentences_and_tables(command: Command, pack: Path) -> None:
    done = command("eval", "intents", "--pack", str(pack), "--embedder", "none", "--sweep")
    assert done.status == 0, done.err
    assert "6 prompts of 2 intents" in done.out
    assert "prompts, each held out" in done.out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 1: not JSON"),
        ('{"text": "x"}', 'line 1: not an object with "id" and "text"'),
        ('{"id": 1, "text": 2}', 'line 1: "text" is not a string'),
    ],
)
def test_a_line_that_cannot_be_read_is_named(
    command: Command, pack: Path, tmp_path: Path, line: str, reason: str
) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(line, encoding="utf-8")
    done = command("eval", "intents", "--pack", str(pack), "--queries", str(queries))
    assert done.status == 2
    assert reason in done.err


def test_a_folder_without_prompts_is_refused(command: Command, tmp_path: Path) -> None:
    done = command("eval", "intents", "--pack", str(tmp_path))
    assert done.status == 2
    assert "no file with example prompts" in done.err
