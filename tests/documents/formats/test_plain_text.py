"""Plain text to Markdown: pages, headings, hyphenation."""

from hypothesis import given
from hypothesis import strategies as st

from toolgate.documents.formats.page_furniture import without_hyphenation, without_page_furniture
from toolgate.documents.formats.plain_text import markdown_of_text

WORDS = "walls and corridors remain on the map as you explore them "


def printed(pages: int) -> str:
    """A text as it is made for a printer: header and footer on each page."""
    return "\n".join(
        f"\n\n          Guide to Mazes        {number}\n\n\n   {WORDS}{chr(96 + number) * 9} goes\n"
        f"   on and ends here.\n\n\n   Mazes 3.6             March 8, 2020\n\n"
        for number in range(1, pages + 1)
    )


def test_headers_and_footers_of_a_printed_text_are_gone() -> None:
    markdown = markdown_of_text(printed(6))
    assert "Guide to Mazes" not in markdown
    assert "March 8" not in markdown
    assert all(f"{letter * 9} goes" in markdown for letter in "abcdef")


def test_pages_with_form_feeds_lose_what_they_repeat() -> None:
    pages = [f"ACME report\n\ntext {chr(97 + page)}\n\n{page + 5}" for page in range(6)]
    markdown = markdown_of_text("\f".join(pages))
    assert [line for line in markdown.split("\n") if line] == [
        f"text {chr(97 + page)}" for page in range(6)
    ]


def test_a_header_that_changes_with_the_chapter_goes_by_its_page_number() -> None:
    pages = [f"Chapter {page // 3}: Lists {page + 9}\nbody {'x' * page}" for page in range(9)]
    assert without_page_furniture(pages) == [f"body {'x' * page}" for page in range(9)]


def test_a_table_of_contents_is_no_text() -> None:
    assert without_page_furniture(["Contents\nLists . . . . . . . . . 12\nbody"]) == [
        "Contents\nbody"
    ]


def test_a_line_that_two_pages_share_stays() -> None:
    assert without_page_furniture(["Note\na", "Note\nb", "c", "d", "e"])[0] == "Note\na"


def test_numbered_lines_that_stand_alone_are_headings() -> None:
    text = "7.2.  Weapons (`)')\n\n   Given a chance.\n\n  7.2.1 Throwing\n\n   You can throw."
    lines = markdown_of_text(text).split("\n")
    assert "## 7.2. Weapons (`)')" in lines
    assert "### 7.2.1 Throwing" in lines


def test_headings_may_have_no_break_spaces_large_numbers_and_chapters_above_them() -> None:
    text = (
        "Table of Contents\n\n3.\xa0Configuration\n    3.182.\xa0message_cachedir\n\n"
        "Chapter\xa03.\xa0Configuration\n\nSettings.\n\n3.\xa0Variables\n\nThere are many.\n\n"
        "3.182.\xa0message_cachedir\n\nA folder.\n\n3.5 percent of them\n\nAre old."
    )
    lines = markdown_of_text(text).split("\n")
    assert [line for line in lines if line.startswith("#")] == [
        "# Chapter 3. Configuration",
        "## 3. Variables",
        "### 3.182. message_cachedir",
    ]


def test_headings_are_not_repeated_by_a_table_of_contents() -> None:
    text = (
        "Contents\n1. Sending\n  1.1. Replies\n\n1. Sending\n\nPress m.\n\n1.1. Replies\n\nPress r."
    )
    assert markdown_of_text(text) == (
        "Contents\n\n# 1. Sending\n\nPress m.\n\n## 1.1. Replies\n\nPress r."
    )


def test_a_drawn_table_loses_its_frame() -> None:
    text = "┌───┬─────┐\n│Key│ Use │\n├───┼─────┤\n│ m │ new │\n└───┴─────┘\nend"
    lines = [" ".join(line.split()) for line in markdown_of_text(text).split("\n")]
    assert lines == ["| Key | Use |", "| m | new |", "end"]


def test_items_of_a_list_are_no_headings() -> None:
    text = "   Developers may:\n\n    1. Appoint the leader.\n\n    2. Amend the rules;\n"
    assert "#" not in markdown_of_text(text)


def test_lines_at_the_margin_of_an_indented_text_are_headings() -> None:
    text = (
        "Closing reports\n\n   They are closed\n   when fixed.\n\nSeverity\n\n   There are\n   six."
    )
    lines = markdown_of_text(text).split("\n")
    assert [line for line in lines if line.startswith("#")] == ["# Closing reports", "# Severity"]


def test_divided_words_are_whole_again_and_compounds_keep_their_hyphen() -> None:
    text = "a two-handed sword; anes-\n   thetize it with a two-\nhanded blow"
    assert without_hyphenation(text) == "a two-handed sword; anesthetize it with a two-handed blow"


@given(st.text(st.sampled_from("ab1 .#-\n\f\tA"), max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    markdown = markdown_of_text(text)
    assert set(markdown) <= {*text, "\n", "#", " ", "\\"}
