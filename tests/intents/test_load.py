"""Files of intents: what they may hold, and what is said about one that cannot be used."""

from pathlib import Path

import pytest

from toolgate.errors import PackError
from toolgate.intents import IntentDetector, load_intent, load_intents

WHOLE = """
name = "REFUNDS"
tool = "refund"
tools = ["find_order"]
order = 5
description = "Give money back."
[keywords.en]
exact = ["money back"]
partial = ["refund"]
context = ["order"]
patterns = ["{shops} refund"]
[keywords.de]
exact = ["geld zurück"]
[[arguments]]
name = "shop"
kind = "choice"
values = "shops"
[[arguments]]
name = "state"
kind = "choice"
values = { open = ["pending"], done = [] }
"""


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_says_all_of_an_intent(tmp_path: Path) -> None:
    write(tmp_path / "pack.toml", 'name = "sales"\n[lists]\nshops = ["Oslo", "Rome"]\n')
    write(tmp_path / "intents" / "refunds.toml", WHOLE)

    (intent,) = load_intents(tmp_path)
    found = IntentDetector([intent]).detect("pending rome refund")

    assert (intent.name, intent.pack, intent.tool) == ("REFUNDS", "sales", "refund")
    assert intent.tools == ("refund", "find_order")
    assert found.arguments == {"shop": "Rome", "state": "open"}


def test_the_name_of_a_file_is_that_of_its_intent(tmp_path: Path) -> None:
    assert load_intent(write(tmp_path / "hello-world.toml", "")).name == "hello-world"


def test_a_mark_of_byte_order_is_no_fault(tmp_path: Path) -> None:
    assert load_intent(write(tmp_path / "a.toml", b'\xef\xbb\xbftool = "x"')).tool == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tool = "a"\ntool = = 1', ":2: this is not valid TOML"),
        ('tool = "a"\ncolour = 1', ":2: there is no key 'colour' here. Allowed: arguments"),
        ("tool = 1", ":1: 'tool' is 1. It has to be a text."),
        ("order = true", ":1: 'order' is True. It has to be a whole number."),
        ('guarded = "yes"', "It has to be true or false."),
        ('name = "None"', "an intent cannot be called 'None'"),
        ('name = " "', "an intent cannot be called ''"),
        ('keywords = ["a"]', "'keywords' is not a table"),
        ('[keywords.english]\nexact = ["a"]', "'english' is not a language"),
        ('[keywords.en]\nexact = "a"', ":2: 'exact' is not a list of strings"),
        ('[keywords.en]\nexact = ["a", ""]', "'exact' is not a list of strings"),
        ('[keywords.en]\nexcat = ["a"]', ":2: there is no key 'excat' here"),
        ('[keywords.en]\npartial = ["a"]', "partial keywords need a context"),
        (
            '[keywords.en]\npatterns = ["{shops} x"]',
            "'{shops}' is none of: date, identifier, name, number",
        ),
        (
            '[keywords.en]\npatterns = ["move {name} to {identifier}"]',
            "'{identifier}' is a second name",
        ),
        ('[keywords.en]\npatterns = ["{date} to {date}"]', "'{date}' is a second date"),
        ('arguments = "a"', "'arguments' is not a list of tables"),
        ('[[arguments]]\nkind = "date"', "an argument has no name"),
        (
            '[[arguments]]\nname = "a"\nkind = "colour"',
            ":3: 'kind' is 'colour'. Allowed: ",
        ),
        ('[[arguments]]\nname = "a"\nkind = "choice"', "is a choice without values"),
        ('[[arguments]]\nname = "a"\nkind = "name"\nvalues = "x"', "there is no list 'x'"),
        ('[[arguments]]\nname = "a"\nkind = "count"\nminimum = "1"', "It has to be a number."),
        (
            '[[arguments]]\nname = "a"\nkind = "date"\n[[arguments]]\nname = "a"\nkind = "date"',
            "argument 'a' is declared twice",
        ),
        (b"tool = '\xff'", ":1: this is not UTF-8 text"),
        (b"\x00\x01", "this is not valid TOML"),
        ("#" * 1_000_001, "is larger than 1,000,000 bytes"),
        ("a = " + "[" * 5_000, "this is not valid TOML"),
    ],
    ids=range(27),
)
def test_a_file_that_cannot_be_used_is_named_with_line_and_reason(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    path = write(tmp_path / "refunds.toml", text)

    with pytest.raises(PackError) as raised:
        load_intent(path)

    assert str(raised.value).startswith(str(path))
    assert said in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="cannot be read: No such file"):
        load_intent(tmp_path / "none.toml")


def test_a_name_stands_once_in_a_pack(tmp_path: Path) -> None:
    write(tmp_path / "intents" / "a.toml", 'name = "Refunds"\n[keywords.en]\nexact = ["a"]')
    write(tmp_path / "intents" / "refunds.txt", "money back")

    with pytest.raises(PackError, match=r"there is an intent 'refunds' already, in a\.toml"):
        load_intents(tmp_path)


def test_a_broken_pack_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "intents" / "a.toml", "")
    write(tmp_path / "pack.toml", "[subject.en]\nhom = []")

    with pytest.raises(PackError, match=r"pack\.toml:2: there is no key 'hom' here"):
        load_intents(tmp_path)
