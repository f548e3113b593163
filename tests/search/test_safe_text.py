"""Text of servers is data: it is shown in one line, and cannot pose as anything else."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.search.answer.safe_text import clean, cut, summary


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("two\n\nlines\tand  blanks ", "two lines and blanks"),
        ("\x1b[31mred\x1b[0m text", "red text"),
        ("\x1b]0;title\x07here", "here"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("hidden\U000e0041\U000e0042 tags", "hidden tags"),
        ("line\u2028separator", "line separator"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("👩‍💻 می‌خواهم", "👩‍💻 می‌خواهم"),
        ("查询天气", "查询天气"),
    ],
)
def test_only_visible_characters_are_shown(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@settings(deadline=None)
@given(st.text(max_size=400))
def test_any_text_becomes_one_visible_line(text: str) -> None:
    line = clean(text)

    assert "\n" not in line
    assert not [c for c in line if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}]
    assert clean(line) == line
    line.encode("utf-8")


def test_sections_that_the_signature_says_are_left_out() -> None:
    text = """Search the web.

    Args:
        query: what to search for
    Returns:
        a list"""

    assert summary(text) == "Search the web."


def test_a_description_that_is_only_sections_is_kept() -> None:
    assert summary("Args: query (the text)") == "Args: query (the text)"


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("Opens an issue. Fails when it is a duplicate.", 30, "Opens an issue. Fails when…"),
        ("Opens a new issue. Fails when it is a duplicate.", 30, "Opens a new issue."),
        ("Costs 3.5 euros a call and nothing else.", 20, "Costs 3.5 euros a…"),
        (
            "查询指定城市的天气情况和预报信息。返回未来四天的天气。",
            20,
            "查询指定城市的天气情况和预报信息。",
        ),
        ("short", 20, "short"),
        ("nothing fits", 1, ""),
        ("a" * 40, 10, "aaaaaaaaa…"),
    ],
)
def test_texts_are_cut_at_sentence_ends(text: str, most: int, short: str) -> None:
    assert cut(text, most) == short


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(0, 100))
def test_a_cut_text_is_within_its_size(text: str, most: int) -> None:
    assert len(cut(text, most)) <= most


def test_long_and_hostile_descriptions_are_read_in_no_time() -> None:
    """Quadratic regular expressions are how a description stops a gateway."""
    for text in (
        "\n" * 200_000,
        "args" * 50_000,
        ".\n \n" * 50_000,
        "\x1b]" * 100_000,
        ". " * 99_999,
    ):
        assert len(summary(text)) <= 5_000
