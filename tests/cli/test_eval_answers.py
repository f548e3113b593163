"""`toolgate eval answers`: questions, their generation, verdicts, comparisons."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from toolgate.cli.terminal._exit import FAILED, SUCCESS, USAGE_ERROR
from toolgate.evaluation.results import evaluations_file, read_evaluations
from toolgate.evaluation.saved_answer_runs import recent_runs, runs_folder

CONFIG = """
packs.enable = ["documents"]

[serve]
port = 0

[chat]
grade = false
engine = "plain"

[models.main]
provider = "scripted"
options = { steps = STEPS }
"""

TOKENS = "The token comes from IT. It is sent by post, and it is valid for three years. " * 2
LEAVE = "Everybody has 30 days of paid leave a year, which is asked for in the portal. " * 2
QUESTIONS = (
    {"id": "a", "question": "Who hands out tokens?", "answer": "IT", "quote": "comes from IT."},
    {"id": "b", "question": "How much leave is there?", "answer": "30 days", "document": "x.md"},
    {"id": "c", "question": "Is it valid for long?"},
)


def answering(*steps: dict[str, Any], judge: str = "Correct.", faithful: str = "supported") -> str:
    """Settings with a model that answers, and judges."""
    script = [
        *steps,
        {"after": "documents__retriever", "say": "From IT [1]."},
        {"user": "compare an answer", "say": judge},
        {"user": "do the documents say", "say": faithful},
    ]
    lines = ", ".join(
        "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in step.items()) + " }"
        for step in script
    )
    return CONFIG.replace("STEPS", f"[{lines}]")


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Path:
    """A working folder with a collection of two passages, and a set of questions."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    (folder / "toolgate.toml").write_text(answering(), "utf-8")
    (folder / "help.md").write_text(f"# VPN\n\n{TOKENS}\n\n# Leave\n\n{LEAVE}\n", "utf-8")
    text = "".join(f"{json.dumps(row)}\n" for row in QUESTIONS)
    (folder / "set.jsonl").write_text(text, "utf-8")
    assert command("docs", "add", "help.md", "-c", "docs", "--description", "Help").status == 0
    return folder


def test_answers_are_judged_and_kept_for_the_console(command: Command, place: Path) -> None:
    measured = command("eval", "answers", "set.jsonl", "--json")
    assert measured.status == SUCCESS, measured.err
    [variant] = measured.json["variants"]
    assert measured.json["set"] == "set"
    assert (variant["correct"], variant["faithful"], variant["answered"]) == (1.0, 1.0, 1.0)
    # "b" says that a document has the answer that is not there; "c" does not say where it is.
    assert (variant["hit@1"], variant["MRR"]) == (0.5, 0.5)
    a, b, c = variant["answers"]
    assert (a["rank"], b["rank"], c["rank"]) == (1, 0, None)
    assert a["answer"] == "From IT [1]."
    assert 'help.md, "VPN"' in a["sources"]
    assert c["correctness"] is None
    assert a["tokens"] > 0

    [saved] = recent_runs(runs_folder())
    assert saved.variants[0]["answers"] == variant["answers"]
    [row] = read_evaluations(evaluations_file())
    assert (row.kind, row.subject, row.by, row.requests) == ("answers", "set", "settings", 3)
    assert row.shares["correct"] == 1.0


def test_settings_are_compared(command: Command, place: Path) -> None:
    measured = command(
        "eval", "answers", "set.jsonl", "--with", "top_k=1,retrieval=forced", "--json"
    )
    default, narrow = measured.json["variants"]
    assert narrow["name"] == "top_k=1,retrieval=forced"
    assert [len(answer["sources"]) for answer in narrow["answers"]] == [1, 1, 1]
    assert len(default["answers"][0]["sources"]) == 2
    assert narrow["tokens"] < default["tokens"]
    table = command("eval", "answers", "set.jsonl", "--with", "top_k=1")
    firsts = [line.split("\t")[0] for line in table.out.splitlines()]
    assert firsts == ["variant", "settings", "top_k=1"]


@pytest.mark.parametrize(
    ("judge", "faithful", "correctness", "faithfulness"),
    [
        ("wrong", "Unsupported.", 0.0, 0.0),
        ("It is partly right", "partly", 0.5, 0.5),
        ("**Correct**, I think", "supported (all of it)", 1.0, 1.0),
    ],
)
def test_the_first_verdict_in_the_reply_counts(
    command: Command,
    place: Path,
    judge: str,
    faithful: str,
    correctness: float,
    faithfulness: float,
) -> None:
    (place / "toolgate.toml").write_text(answering(judge=judge, faithful=faithful), "utf-8")
    first = command("eval", "answers", "set.jsonl", "--json").json["variants"][0]["answers"][0]
    assert (first["correctness"], first["faithfulness"]) == (correctness, faithfulness)


@pytest.mark.parametrize(
    ("judge", "faithful", "correctness", "faithfulness"),
    [("Hm.", "supported", None, 1.0), ("correct", "Hm.", 1.0, None)],
)
def test_a_judge_that_does_not_judge_is_reported_and_its_other_verdict_kept(
    command: Command,
    place: Path,
    judge: str,
    faithful: str,
    correctness: float | None,
    faithfulness: float | None,
) -> None:
    (place / "toolgate.toml").write_text(answering(judge=judge, faithful=faithful), "utf-8")
    measured = command("eval", "answers", "set.jsonl", "--json")
    assert measured.status == SUCCESS
    first = measured.json["variants"][0]["answers"][0]
    assert (first["correctness"], first["faithfulness"]) == (correctness, faithfulness)
    assert first["answer"]
    assert "not judged: The judge said 'Hm.'" in measured.err


def test_questions_are_generated_from_a_collection(command: Command, place: Path) -> None:
    asked = {
        "user": "write one question",
        "say": 'Here: {"question": "Who  sends it?", "answer": "IT", "quote": "no such words"}',
    }
    (place / "toolgate.toml").write_text(answering(asked), "utf-8")
    measured = command(
        "eval", "answers", "--generate", "docs", "--count", "1", "--save", "new.jsonl", "--json"
    )
    assert measured.status == SUCCESS, measured.err
    [row] = [json.loads(line) for line in (place / "new.jsonl").read_text("utf-8").splitlines()]
    assert (row["question"], row["answer"]) == ("Who sends it?", "IT")
    assert (row["collection"], row["document"]) == ("docs", "help.md")
    # A quote that the passage does not have is replaced by a sentence of it.
    assert row["quote"] in TOKENS or row["quote"] in LEAVE
    assert measured.json["variants"][0]["answers"][0]["rank"] in {1, 2}
    again = command("eval", "answers", "new.jsonl", "--json")
    assert again.json["variants"][0]["hit@5"] == 1.0


def test_passages_without_a_question_are_passed_over(command: Command, place: Path) -> None:
    asked = {"user": "write one question", "say": '{"question": ""}'}
    (place / "toolgate.toml").write_text(answering(asked), "utf-8")
    refused = command("eval", "answers", "--generate", "docs")
    assert refused.status == USAGE_ERROR
    assert "No question could be generated from the collection 'docs'" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Questions must come from files, or from a collection."),
        (("set.jsonl", "--generate", "docs"), "Questions must come from files"),
        (("set.jsonl", "--save", "x.jsonl"), "--save needs --generate."),
        (("set.jsonl", "--with", "top_k"), "--with 'top_k' is not NAME=VALUE."),
        (("set.jsonl", "--with", "top=1"), "There is no setting 'top' of threads."),
        (("none.jsonl",), "none.jsonl cannot be read"),
        (("bad.jsonl",), "bad.jsonl, line 2, has no question."),
    ],
)
def test_what_cannot_be_measured_is_refused_before_a_model_is_asked(
    command: Command, place: Path, arguments: tuple[str, ...], message: str
) -> None:
    (place / "bad.jsonl").write_text('{"question": "x"}\n{"answer": "y"}\n', "utf-8")
    refused = command("eval", "answers", *arguments)
    assert refused.status in {USAGE_ERROR, FAILED}
    assert message in refused.err
    assert not runs_folder().exists()


def test_the_pack_has_to_be_enabled(command: Command, place: Path) -> None:
    config = answering().replace('packs.enable = ["documents"]', "packs.enable = []")
    (place / "toolgate.toml").write_text(config, "utf-8")
    refused = command("eval", "answers", "set.jsonl")
    assert "toolgate pack enable documents" in refused.err
