"""`toolgate detect`: what a message asks for, on the command line."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Command, LoadedBy, Run

ROWS = Path(__file__).parents[1] / "intents" / "data" / "acceptance_detector.jsonl"
DAY = ("--today", "2025-10-21")


def test_a_person_sees_intent_tool_reason_and_where_each_argument_stands(command: Command) -> None:
    done = command("detect", *DAY, "Show changes since  last week, top 3")

    assert done.status == 0
    assert done.out.splitlines() == [
        "schema-changes  0.90  tool schema_changelog",
        "  keyword: The exact keyword 'show changes'.",
        '  since = "2025-10-14"  from "since  last week" at 13-29',
        '  limit = 3  from "top 3" at 31-36',
    ]


def test_a_program_gets_the_same_as_json(command: Command) -> None:
    answer = command("detect", *DAY, "--json", "latest", "3", "changes").json

    assert answer["intent"] == "schema-changes"
    assert answer["arguments"] == {"limit": 3}
    assert answer["stage"] == "keyword"
    assert answer["found"] == [
        {
            "name": "limit",
            "value": 3,
            "spans": [{"start": 0, "end": 8}],
            "text": "latest 3",
            "kind": "count",
        }
    ]


def test_a_message_about_nothing_ends_with_3(command: Command) -> None:
    done = command("detect", "How do I create a project?")

    assert (done.status, done.out) == (3, "none\n")
    assert "like the examples of what is not offered" in done.err


def test_every_line_of_a_file_gets_a_line(toolgate: Run, command: Command) -> None:
    done = toolgate("detect", "--file", str(ROWS), "--stage", "keyword", "--languages", "en")

    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [each["id"] for each in answers] == [each["id"] for each in rows]
    whole = command("detect", "--stage", "keyword", "--json", rows[0]["input"]).json
    assert set(answers[0]) == {"id", *whole}
    for row, answer in zip(rows, answers, strict=True):
        for key in {"use_mcp", "intent", "confidence", "tool", "arguments"} & set(row["expect"]):
            assert answer[key] == row["expect"][key], row["id"]


def test_lines_may_come_from_a_pipe(toolgate: Run) -> None:
    lines = '{"input": "changes since yesterday", "today": "2025-10-21"}\n\n{"input": ""}\n'

    done = toolgate("detect", "--file", "-", stdin=lines)

    first, second = map(json.loads, done.stdout.splitlines())
    assert first["arguments"] == {"since": "2025-10-20", "limit": 10}
    assert (second["id"], second["intent"], second["tool"]) == (None, "none", None)


def test_a_message_may_come_from_a_pipe(program: Run) -> None:
    done = program("detect", "-", "--json", stdin="schema version " * 7_000)

    assert json.loads(done.stdout)["intent"] == "schema-version"


def test_explain_shows_every_intent(command: Command) -> None:
    text = command("detect", "--explain", "schema version and recent changes").out
    answer = command("detect", "--stage", "keyword", "--explain", "--json", "weather").json

    assert "0.90  schema-changes  The exact keyword 'recent changes'." in text
    assert "0.00  type-info  no evidence" in text
    assert [row["confidence"] for row in answer["explanation"]["intents"]] == [0.0, 0.0, 0.0]


def test_languages_and_zone_are_obeyed(command: Command) -> None:
    french = "Quelle est la version du sch\u00e9ma?"

    assert command("detect", french).status == 0
    assert command("detect", "--languages", "en,de", french).status == 3
    asked = command("detect", *DAY, "--zone", "Asia/Tokyo", "--json", "changes since yesterday")
    assert asked.json["arguments"]["since"] == "2025-10-20"


def test_another_pack_is_a_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents" / "refunds.toml").write_text(
        'tool = "refund"\n[keywords.en]\nexact = ["money back"]\n'
        '[[arguments]]\nname = "order"\nkind = "integer"\n',
        encoding="utf-8",
    )

    answer = command(
        "detect", "--pack", str(tmp_path), "--json", "I want my money back for order 77"
    ).json

    assert (answer["intent"], answer["tool"], answer["arguments"]) == (
        "refunds",
        "refund",
        {"order": 77},
    )


def test_example_prompts_decide_where_keywords_say_nothing(
    command: Command, tmp_path: Path
) -> None:
    prompts = {
        "refunds": ["give me my money back", "i want a refund", "refund my order", "pay it back"],
        "tracking": ["where is my parcel", "track my order", "is my package late", "has it left"],
    }
    (tmp_path / "intents").mkdir()
    for name, lines in prompts.items():
        (tmp_path / "intents" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "intents" / "tracking.toml").write_text(
        'tool = "track"\n[keywords.en]\nexact = ["tracking number"]\n', encoding="utf-8"
    )
    pack = ("detect", "--pack", str(tmp_path), "--json")

    meant = command(*pack, "please track my order").json
    exact = command(*pack, "refund my tracking number").json
    alone = command(*pack, "--stage", "semantic", "give me my money back").json

    assert (meant["intent"], meant["stage"], meant["tool"]) == ("tracking", "semantic", "track")
    assert (exact["intent"], exact["stage"]) == ("tracking", "keyword")
    assert (alone["intent"], alone["stage"], alone["tool"]) == ("refunds", "semantic", None)
    assert command(*pack, "--stage", "keyword", "please track my order").status == 3


def test_a_pack_without_example_prompts_has_no_semantic_stage(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents" / "refunds.toml").write_text('[keywords.en]\nexact = ["money back"]\n')

    done = command("detect", "--pack", str(tmp_path), "--stage", "semantic", "money back")

    assert done.status == 2
    assert "needs example prompts, and no pack has any." in done.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "There is no message."),
        (("--today", "2025-13-01", "x"), "--today '2025-13-01' is not a date."),
        (("--zone", "Mars/Olympus", "x"), "There is no time zone 'Mars/Olympus'."),
        (("--zone", "../x", "x"), "There is no time zone '../x'."),
        (("--stage", "magic", "x"), "There is no stage 'magic'."),
        (("--languages", "xx", "x"), "Available: de, en, es, fr."),
        (("--pack", "nowhere", "x"), "nowhere is not a folder."),
        (("--file", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--file", "-", "x"), "A message and --file exclude each other."),
    ],
)
def test_wrong_use_is_one_sentence_and_2(command: Command, argv: list[str], said: str) -> None:
    done = command("detect", *argv)

    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["no json", "[]", '{"text": "x"}', '{"input": 1}', '{"input": "x", "today": 5}', "[" * 9999],
)
def test_a_line_that_is_no_message_is_named(command: Command, tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"input": "a"}}\n{line}\n', encoding="utf-8")

    done = command("detect", "--file", str(path))

    assert done.status == 2
    assert "rows.jsonl:2 is not a message." in done.err


def test_detecting_by_keywords_loads_nothing_heavy(loaded_by: LoadedBy) -> None:
    loaded = loaded_by("import toolgate.intents; toolgate.intents.detect('show changes')")

    assert {"numpy", "mcp", "sqlalchemy", "aiohttp", "pydantic", "anyio"} & loaded == set()


def test_tables_of_a_connected_database_are_known_types(command: Command, tmp_path: Path) -> None:
    """Also when it is gone: those of the last look count."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE order_items (id INTEGER PRIMARY KEY)")
    configuration = tmp_path / "toolgate.toml"
    configuration.write_text(f'[connections.shop]\nurl = "sqlite:///{file}"\n', encoding="utf-8")
    asked = ("--config", str(configuration), "detect", "--stage", "keyword", "--json")

    first = command(*asked, "what are the fields of an order item?").json
    file.unlink()
    again = command(*asked, "fields of order_items").json

    assert (first["intent"], first["arguments"]) == ("type-info", {"type_name": "order_items"})
    assert again["arguments"] == {"type_name": "order_items"}
    assert command("detect", "--stage", "keyword", "fields of order_items").status == 3
