"""Expressions that are compiled late find what compiled ones find."""

import re
import threading
from datetime import date

import pytest

from toolgate.intents import Recognizer
from toolgate.intents.detection.intent_files import builtin_pack_folder, load_intents
from toolgate.intents.detection.keyword import KeywordStage
from toolgate.intents.patterns import are_compiled, late_pattern


def test_a_late_expression_is_compiled_once_at_its_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    compile_now = re.compile

    def count(expression: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(expression)
        return compile_now(expression, flags)

    monkeypatch.setattr(re, "compile", count)
    digits = late_pattern(r"(?P<all>D\d+)", re.IGNORECASE)
    assert digits.pattern == r"(?P<all>D\d+)"
    assert not compiled

    assert digits.sub("-", "d12 e") == "- e"
    assert digits.fullmatch("d12")
    assert not digits.match("e12")
    assert [match["all"] for match in digits.finditer("d1 d2")] == ["d1", "d2"]
    assert digits.groupindex == {"all": 1}
    assert compiled.count(digits.pattern) == 2  # its methods, and the rare `groupindex`


def test_loading_the_packs_that_ship_compiles_none_of_their_phrases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Source: the bound on the CPU time of the start."""
    compiled: list[str] = []
    compile_now = re.compile

    def count(expression: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(expression)
        return compile_now(expression, flags)

    monkeypatch.setattr(re, "compile", count)
    intents = load_intents(builtin_pack_folder("schema"))
    KeywordStage(intents)
    assert any("en" in i.keywords and i.keywords["en"].patterns for i in intents)
    assert not compiled


async def test_the_first_message_compiles_every_expression_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recognizer = Recognizer()
    phrase = late_pattern("compiled by the first message")
    threads: dict[str, int] = {}
    compile_now = re.compile

    def note(expression: str, flags: int = 0) -> re.Pattern[str]:
        threads[expression] = threading.get_ident()
        return compile_now(expression, flags)

    monkeypatch.setattr(re, "compile", note)
    await recognizer.detect("show the last 5 refunds", today=date(2026, 11, 27))
    await recognizer.aclose()

    assert are_compiled()
    assert threads[phrase.pattern] != threading.get_ident()
