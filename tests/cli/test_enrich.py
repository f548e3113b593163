"""`toolgate enrich`: what a model gets for a message, as people and programs see it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command

FILES = {
    "toolgate.toml": ('[packs]\ndisable = ["schema"]\n[rules.variables]\nPROJECT_NAME = "shop"\n'),
    "packs/refunds/intents/refunds.txt": (
        "give me my money back\nrefund order 4711\nthe customer wants a refund\nstart a refund\n"
    ),
    "packs/refunds/rules/refunds.md": "How refunds are done: {{HOW}}.\n",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("place")
def test_a_message_is_shown_with_its_rules_and_their_cost(command: Command) -> None:
    shown = command("enrich", "please", "refund", "order", "12")
    as_json = command("enrich", "please refund order 12", "--json").json

    assert shown.status == 0
    assert shown.out.startswith(
        "=== REFUNDS CONTEXT ===\n**Current Project:** shop\n\n"
        "USER REQUEST:\nplease refund order 12\n\nHow refunds are done: {{HOW}}.\n\n"
    )
    assert "rules of the pack refunds, 8 tokens; unknown: {{HOW}}." in shown.err
    assert as_json["text"] == shown.out.rstrip("\n")
    assert as_json["rules"][0]["unknown_variables"] == ["HOW"]


@pytest.mark.usefixtures("place")
def test_a_message_without_rules_ends_with_status_3(command: Command) -> None:
    done = command("enrich", "what is the capital of France")

    assert (done.status, done.out) == (3, "PASS_THROUGH\n")


def test_a_pack_can_be_tried_that_is_not_configured(place: Path, command: Command) -> None:
    (place / "packs").rename(place / "drafts")
    done = command("enrich", "--query", "start refund", "--pack", "drafts/refunds", "--json")

    assert done.status == 0
    assert done.json["found"][0]["intent"] == "refunds"
    assert command("enrich", "--query", "start refund").status == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "There is no message."),
        (("x", "--query", "y"), "A message and --query exclude each other."),
    ],
)
@pytest.mark.usefixtures("place")
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], message: str, command: Command
) -> None:
    done = command("enrich", *words)

    assert done.status == 2
    assert message in done.err
