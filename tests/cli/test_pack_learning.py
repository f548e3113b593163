"""`toolgate pack test` and `toolgate pack learn`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.packs.pack_files import write_files

REFUNDS = """\
i want my money back
refund order 12
please reimburse the customer
show me the last refunds
give the money back for order 7
"""
FORMS = """\
open the customers form
create a new form for invoices
which forms are there
show all forms please
i need a screen to enter addresses
"""
MEANT = """\
{"message": "refund order 4711", "intent": "refunds", "arguments": {"order": 4711}}

# comments are allowed
{"message": "open the form for orders", "intent": "forms"}
{"message": "what is the capital of France?", "intent": null}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolgate.toml").write_text('[packs]\ndisable = ["schema"]\n')
    table = 'tool = "give_refund"\n[[arguments]]\nname = "order"\nkind = "integer"\n'
    return write_files(
        tmp_path / "packs" / "shop",
        {
            "pack.toml": "",
            "intents/refunds.txt": REFUNDS,
            "intents/refunds.toml": table,
            "intents/forms.txt": FORMS,
            "tests.jsonl": MEANT,
        },
    )


def test_expectations_that_are_met_end_with_status_0(shop: Path, command: Command) -> None:
    done = command("pack", "test", "--json")

    assert (done.status, done.json) == (0, {"tests": 3, "failed": []}), done.err
    assert command("pack", "test", str(shop)).status == 0


def test_an_expectation_that_is_not_met_is_named_with_its_line(
    shop: Path, command: Command
) -> None:
    tests = shop / "tests.jsonl"
    tests.write_text(
        '{"message": "refund order 12", "intent": "forms", "arguments": {"order": 13}}\n'
    )

    done = command("pack", "test")

    assert done.status == 1
    assert f"{tests}:1: refund order 12" in done.out
    assert 'intent is "refunds", expected "forms"' in done.out
    assert 'arguments is {"order": 12}, expected {"order": 13}' in done.out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no json", "tests.jsonl:1 is not a test"),
        ('{"message": "x"}', "tests.jsonl:1 is not a test"),
        ('{"message": "x", "intend": "refunds"}', "has an unknown key: 'intend'"),
        ('{"message": "x", "intent": null, "today": "soon"}', "today is 'soon'"),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error(
    shop: Path, command: Command, line: str, reason: str
) -> None:
    (shop / "tests.jsonl").write_text(line)

    done = command("pack", "test")

    assert done.status not in {0, 1, 3}
    assert reason in done.err


def test_without_expectations_the_status_is_3(shop: Path, command: Command) -> None:
    (shop / "tests.jsonl").unlink()

    assert command("pack", "test").status == 3


def test_a_message_becomes_a_prompt_once(shop: Path, command: Command) -> None:
    prompts = shop / "intents" / "refunds.txt"

    done = command("pack", "learn", "my  cash, now", "--intent", "REFUNDS", "--json")
    again = command("pack", "learn", "my cash, now", "--intent", "refunds")

    assert done.status == again.status == 0, done.err
    assert done.json["written"] == 1
    assert done.json["known"] == 14
    assert prompts.read_text() == f"{REFUNDS}my cash, now\n"


def test_a_message_that_makes_known_ones_wrong_is_not_written_unasked(
    shop: Path, command: Command
) -> None:
    prompts = shop / "intents" / "forms.txt"
    wrong = [f"refund order {number}" for number in range(4700, 4720)]

    done = command("pack", "learn", *wrong, "--intent", "forms", "--json")
    unwritten = prompts.read_text()
    forced = command("pack", "learn", *wrong, "--intent", "forms", "--yes")

    regressions = [change for change in done.json["changed"] if change["regression"]]
    assert done.status == 1
    assert done.json["written"] == 0
    assert [change["message"] for change in regressions] == ["refund order 4711"]
    assert unwritten == FORMS
    assert forced.status == 0
    assert "WRONG  " in forced.out
    assert prompts.read_text().endswith("refund order 4719\n")


def test_a_message_for_nobody_goes_to_the_unsupported_ones(shop: Path, command: Command) -> None:
    nowhere = command("pack", "learn", "fly me to the moon", "--intent", "none")
    done = command("pack", "learn", "fly me to the moon", "--intent", "none", "--pack", "shop")

    assert nowhere.status not in {0, 1}
    assert "--pack" in nowhere.err
    assert done.status == 0, done.err
    assert (shop / "unsupported.txt").read_text() == "fly me to the moon\n"


def test_an_unknown_intent_is_refused(shop: Path, command: Command) -> None:
    done = command("pack", "learn", "x", "--intent", "nope")

    assert "There is no intent 'nope'." in done.err
    assert "Available: forms, refunds." in done.err
    assert shop.is_dir()
