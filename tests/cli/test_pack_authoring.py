"""`toolgate pack new`, `lint` and `list`: making a pack and finding what is wrong with it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from toolgate.base.ids import utc_now
from toolgate.settings import data_dir
from toolgate.store import StoredDetection

PARTS = (
    "**Goal**",
    "{{PROJECT_NAME}}",
    "## AVAILABLE TOOLS",
    "## TOOL 1: show_refunds",
    "## DECISION TREE",
    "## DISAMBIGUATION",
    "## EXAMPLES",
    "## IMPORTANT RULES",
    "## \u26a0\ufe0f OUT-OF-CONTEXT",
    "CASE 1",
    "CASE 2",
    "## FINAL NOTES",
)
PROMPTS = (
    "give me my money back",
    "i want a refund for order 77",
    "show the last refunds please",
    "the customer wants his 20 euro again",
    "can u reverse that paymnt",
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def refunds(here: Path, command: Command) -> Path:
    """A new pack with five prompts."""
    assert command("pack", "new", "refunds").status == 0
    pack = here / "packs" / "refunds"
    with (pack / "intents" / "refunds.txt").open("a", encoding="utf-8") as file:
        file.write("\n".join(PROMPTS) + "\n")
    return pack


def rules_of(answer: dict[str, object]) -> set[str]:
    """Names of what was found."""
    findings = answer["findings"]
    assert isinstance(findings, list)
    return {each["rule"] for each in findings}


def test_a_new_pack_has_all_parts_of_its_rules_in_order(refunds: Path) -> None:
    text = (refunds / "rules" / "refunds.md").read_text(encoding="utf-8")

    places = [text.index(part) for part in PARTS]
    assert places == sorted(places)


def test_a_new_pack_with_prompts_has_neither_errors_nor_warnings(
    refunds: Path, command: Command
) -> None:
    done = command("pack", "lint", str(refunds), "--json")

    assert done.status == 0, done.err
    (pack,) = done.json["packs"]
    assert (pack["name"], pack["errors"], pack["warnings"]) == ("refunds", 0, 0)
    assert rules_of(done.json) == {"few-prompts", "todo"}
    assert pack["intents"][0]["tools"] == ["show_refunds"]
    assert all(each["hint"] for each in done.json["findings"])


def test_a_pack_of_ones_own_is_checked_and_listed_without_being_named(
    refunds: Path, command: Command
) -> None:
    assert "few-prompts" in command("pack", "lint").out
    listed = {row["name"]: row for row in command("pack", "list", "--json").json}

    assert listed["refunds"]["folder"] == str(refunds)
    assert (listed["refunds"]["intents"], listed["refunds"]["prompts"]) == (["refunds"], 5)
    assert listed["refunds"]["on"] is True
    assert listed["schema"]["origin"] == "shipped"


def test_a_folder_that_is_there_is_never_written_over(refunds: Path, command: Command) -> None:
    before = (refunds / "pack.toml").read_bytes()

    done = command("pack", "new", "refunds")

    assert done.status == 2
    assert "already exists" in done.err
    assert (refunds / "pack.toml").read_bytes() == before


@pytest.mark.parametrize("name", ["../up", "Big", "none", "", "a b", "-x"])
def test_a_name_that_does_not_fit_makes_nothing(here: Path, command: Command, name: str) -> None:
    assert command("pack", "new", "--", name).status == 2
    assert list(here.iterdir()) == []


def test_without_a_pack_there_is_nothing_to_check(here: Path, command: Command) -> None:
    done = command("pack", "lint")

    assert (done.status, done.out) == (3, "")
    assert "toolgate pack new" in done.err


def test_lint_names_each_fault_with_file_line_and_how_to_mend_it(
    here: Path, command: Command
) -> None:
    """Every kind of fault of the issue, in one pack."""
    pack = here / "sales"
    for folder in ("intents", "rules", "tools"):
        (pack / folder).mkdir(parents=True)
    (pack / "pack.toml").write_text('name = "sales"\n', encoding="utf-8")
    (pack / "intents" / "refunds.txt").write_text(
        "refund my order\nRefund my order!\nrefund the last order\nrefund it\nrefund order 7\n"
        "refund order 8\nrefund please\nrefund orders\nrefund a order\nwhere is my parcel now\n",
        encoding="utf-8",
    )
    (pack / "intents" / "refunds.toml").write_text(
        'tools = ["create_refund", "delete_refund", "send_money"]\n', encoding="utf-8"
    )
    (pack / "intents" / "parcels.txt").write_text(
        "where is my parcel\nwhere is my parcel now\ntrack my package\nis my delivery late\n"
        "when does the parcel arrive\n",
        encoding="utf-8",
    )
    (pack / "rules" / "refunds.md").write_text(
        "**Goal**: refunds for {{COMPANY}} and {{PROJECT\n\n## AVAILABLE TOOLS\n\n"
        "## TOOL 1: create_refund\n\n**Required parameters**:\n- order (string): which\n"
        "- colour (string): none\n",
        encoding="utf-8",
    )
    (pack / "tools" / "refunds.py").write_text(
        "from toolgate.upstream import tool\n\n\n@tool\ndef create_refund(order: str) -> str:\n"
        '    """Create it."""\n    return order\n\n\n'
        "@tool\ndef delete_refund(order: str) -> str:\n"
        '    """Delete it."""\n    return order\n',
        encoding="utf-8",
    )

    done = command("pack", "lint", str(pack), "--json")

    assert done.status == 1, done.err
    found = {(each["rule"], each["file"], each["line"]) for each in done.json["findings"]}
    assert {
        ("duplicate-prompt", "intents/refunds.txt", 2),
        ("few-prompts", "intents/refunds.txt", None),
        ("one-sided-prompts", "intents/refunds.txt", None),
        ("unknown-variable", "rules/refunds.md", 1),
        ("unclosed-variable", "rules/refunds.md", 1),
        ("unknown-parameter", "rules/refunds.md", 9),
        ("unknown-tool", "intents/refunds.toml", None),
        ("missing-part", "rules/refunds.md", None),
        ("missing-out-of-context", "rules/refunds.md", None),
        ("missing-rules", "", None),
        ("tool-without-prompt", "intents/refunds.txt", None),
    } <= found
    texts = [each["text"] for each in done.json["findings"]]
    assert "The rules lack the part of the tool 'delete_refund'." in texts
    assert "The rules lack the part DECISION TREE." in texts
    assert "No prompt of refunds asks for what the tool 'delete_refund' does." in texts
    assert any("is also in intents/parcels.txt:2, as a message for parcels" in t for t in texts)
    assert all(each["hint"] and each["level"] for each in done.json["findings"])


def test_lint_tells_which_intents_are_confused(here: Path, command: Command) -> None:
    pack = here / "shop"
    (pack / "intents").mkdir(parents=True)
    prompts = {
        "opening": ["open the blue door", "please open a door", "door open now", "unlock the gate",
                    "could you open that", "open sesame"],
        "closing": ["close the blue door", "please close a door", "door shut now", "open the door",
                    "could you close that", "lock the gate"],
    }  # fmt: skip
    for name, lines in prompts.items():
        (pack / "intents" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")

    done = command("pack", "lint", str(pack), "--json")

    near = [
        each
        for each in done.json["findings"]
        if each["rule"] in {"near-duplicate", "nearer-to-another-intent"}
    ]
    assert ("intents/closing.txt", 4) in {(each["file"], each["line"]) for each in near}
    accuracy = {one["name"]: one["accuracy"] for one in done.json["packs"][0]["intents"]}
    assert 0 <= accuracy["closing"] <= 1


def test_a_broken_tool_and_a_broken_table_are_faults(refunds: Path, command: Command) -> None:
    (refunds / "tools" / "bad.py").write_text("import nothing_like_it\n", encoding="utf-8")
    (refunds / "intents" / "other.toml").write_text("tool = \n", encoding="utf-8")

    done = command("pack", "lint", str(refunds), "--json")

    assert done.status == 1
    broken = [each["text"] for each in done.json["findings"] if each["rule"] == "unusable-file"]
    assert any("bad.py" in text for text in broken)
    assert any("other.toml:1" in text for text in broken)


def test_an_explanation_shows_scores_prompts_cut_and_rules(refunds: Path, command: Command) -> None:
    """What the five symptoms of docs/intents.md are told by."""
    asked = ("detect", "--pack", str(refunds), "--explain", "please give me my money back")

    answer = command(*asked, "--json").json["explanation"]
    text = command(*asked).out

    assert answer["intents"][0]["intent"] == "refunds"
    assert answer["nearest"][0]["prompt"] == "give me my money back"
    assert 0 < answer["cut"] < 1
    assert answer["rules"]["path"] == str(refunds / "rules" / "refunds.md")
    assert answer["rules"]["first_lines"][0] == "=== REFUNDS OPERATIONS ==="
    assert answer["rules"]["size_bytes"] > 1000
    assert "give me my money back\trefunds" in text
    assert "rules/refunds.md" in text


def test_stats_count_messages_and_name_the_doubtful_ones(refunds: Path, command: Command) -> None:
    assert refunds.is_dir()
    for message in ("give me my money back", "i want a refund for order 77", "what is pi"):
        command("detect", message)

    answer = command("detect", "--stats", "--json").json
    text = command("detect", "--stats").out

    assert (answer["messages"], answer["with_intent"]) == (3, 2)
    assert answer["intents"] == {"refunds": 2}
    assert answer["projects"][0]["project"] == "default"
    assert "refunds\t2" in text


def test_stats_name_a_message_that_came_often_once(here: Path, command: Command) -> None:
    assert here.is_dir()
    rows = [
        StoredDetection(
            detection_id=f"{number:032x}",
            at=utc_now(),
            project_id="default",
            caller_id="local",
            message=message,
            door="detect",
            outcome="none",
            rival="refunds",
            rival_confidence=0.4,
        )
        for number, message in enumerate(("Money back?", "money  back?", "pay it", "Money back?"))
    ]
    data_dir().mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(asdict(row))}\n" for row in rows)
    (data_dir() / "detections.jsonl").write_text(lines, encoding="utf-8")

    answer = command("detect", "--stats", "--json").json

    named = [(each["message"], each["times"]) for each in answer["near_misses"]]
    assert sorted(named) == [("Money back?", 3), ("pay it", 1)]
    assert "Money back?\t3\tnone" in command("detect", "--stats").out


def test_stats_hold_no_texts_where_these_are_not_kept(here: Path, command: Command) -> None:
    (here / "toolgate.toml").write_text("[audit]\nkeep_queries = false\n", encoding="utf-8")
    command("detect", "the secret plan changed")

    answer = command("detect", "--stats", "--json")

    assert "secret" not in answer.out
    assert answer.json["messages"] == 1
    assert answer.json["keeps_texts"] is False


def test_nothing_is_noted_where_that_is_switched_off(here: Path, command: Command) -> None:
    (here / "toolgate.toml").write_text("[audit]\ndetections = false\n", encoding="utf-8")
    command("detect", "show changes")

    done = command("detect", "--stats", "--json")

    assert (done.status, json.loads(done.out)["messages"]) == (3, 0)


def test_what_was_learned_is_kept_for_the_next_command(
    refunds: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("detect", "--pack", str(refunds), "--json", "please give me my money back")
    first = command(*asked).json
    monkeypatch.setattr(
        "toolgate.intents.semantic.stage.fit", lambda *_: pytest.fail("learned again")
    )

    assert command(*asked).json == first
