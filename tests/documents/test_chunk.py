"""Cutting texts into passages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.base.token_estimate import estimate_tokens
from toolgate.documents import split_document


def shown(text: str, *, max_tokens: int = 100, has_pages: bool = False) -> list[tuple[str, str]]:
    pieces = split_document(text, max_tokens=max_tokens, has_pages=has_pages)
    return [(each.heading, each.text) for each in pieces]


def test_a_passage_has_the_headings_above_it() -> None:
    long = "word " * 40
    text = "Intro.\n\n# A\n\n{0}\n\n## B\n\n{0}\n\n### C\n\n{0}\n\n## D\n\n{0}\n\n# E\n\ne"
    assert [heading for heading, _ in shown(text.format(long))] == [
        "",
        "A",
        "A > B",
        "A > B > C",
        "A > D",
        "E",
    ]


def test_short_sections_below_or_beside_a_short_one_are_joined_with_it() -> None:
    text = "# A\n\na\n\n## B\n\nb\n\n## C\n\nc\n\n# D\n\nd"
    assert shown(text) == [("A", "a\n\nB\nb\n\nC\nc"), ("D", "d")]


def test_a_section_that_is_not_short_stays_alone() -> None:
    text = f"# A\n\na\n\n## B\n\n{'word ' * 40}\n\n## C\n\nc"
    assert [heading for heading, _ in shown(text)] == ["A", "A > B", "A > C"]


def test_headings_can_be_underlined_and_hold_marks() -> None:
    text = "Title *one*\n===\n\n{0}\n\nSecond\n---\n\n{0}\n\n## [Link](x) `code` ##\n\n{0}"
    assert [heading for heading, _ in shown(text.format("word " * 40))] == [
        "Title one",
        "Title one > Second",
        "Title one > Link code",
    ]


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    text = "# A\n\n```sh\n# not a heading\n\nls\n```\n\nafter"
    assert shown(text) == [("A", "```sh\n# not a heading\n\nls\n```\n\nafter")]


def test_a_line_under_a_table_or_list_is_no_heading() -> None:
    assert [heading for heading, _ in shown("- a\n---\n\nb")] == [""]
    assert [heading for heading, _ in shown("a long paragraph\nof two lines\n---\n\nb")] == [""]


def test_paragraphs_stay_together_as_far_as_they_fit() -> None:
    text = "\n\n".join(f"{'word ' * 9}{number}" for number in range(6))
    parts = [text for _, text in shown(text, max_tokens=30)]
    assert [part.count("\n\n") for part in parts] == [1, 1, 1]


def test_a_long_table_keeps_its_head_in_each_passage() -> None:
    rows = "\n".join(f"| {n} | {'x' * 20} |" for n in range(40))
    parts = [text for _, text in shown(f"| n | what |\n| --- | --- |\n{rows}", max_tokens=100)]
    assert len(parts) > 3
    assert all(part.startswith("| n | what |\n| --- | --- |\n| ") for part in parts)
    assert sum(part.count("xxxx |") for part in parts) == 40


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    text = "This is a sentence. " * 30
    parts = [text for _, text in shown(text, max_tokens=40)]
    assert len(parts) > 3
    assert all(part.endswith("sentence.") for part in parts)


def test_pages_are_counted_and_never_crossed() -> None:
    text = "# A\none\ftwo\f\f# B\nfour"
    pieces = split_document(text, max_tokens=100, has_pages=True)
    assert [(each.page, each.heading, each.text) for each in pieces] == [
        (1, "A", "one"),
        (2, "A", "two"),
        (4, "B", "four"),
    ]


@pytest.mark.parametrize("text", ["", "  \n\n", "# Only a heading", "\f\f"])
def test_a_text_without_words_has_no_passages(text: str) -> None:
    assert shown(text) == []


LINES = st.text(
    st.sampled_from("ab #|-=`~.\n\f\t é漢"),
    max_size=400,
)


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(32, 80))
def test_no_passage_is_longer_than_it_may_be(text: str, most: int) -> None:
    assert all(estimate_tokens(each.text) <= most for each in split_document(text, max_tokens=most))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), max_size=200), st.integers(32, 80))
def test_no_word_is_lost_and_none_comes_twice(words: list[str], most: int) -> None:
    pieces = split_document(" ".join(words), max_tokens=most)
    assert [word for each in pieces for word in each.text.split()] == words
