"""Files become Markdown; what cannot be read says why."""

import io
import re
import sys
import zipfile

import pytest

from tests.documents.libraries import docx, pdf
from toolgate.base.installation import install_hint
from toolgate.documents.formats.conversion import (
    ConvertedDocument,
    convert,
    is_supported,
    supported_formats,
)
from toolgate.errors import DocumentError, MissingExtraError


def text_of(name: str, data: bytes) -> str:
    return convert(name, data).text


def test_markdown_stays_as_it_is_without_its_front_matter() -> None:
    found = convert("a.md", b"---\ntitle: 'My page'\nx: 1\n---\n# One\n\ntext\n")
    assert found == ConvertedDocument(text="# One\n\ntext\n", title="My page")
    assert convert("a.markdown", b"# One #\n\ntext").title == "One"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Größe".encode(), "Größe"),
        ("\ufeffGröße".encode(), "Größe"),
        ("Größe".encode("utf-16"), "Größe"),
        ("Größe".encode("utf-32"), "Größe"),
        ("Größe".encode("cp1252"), "Größe"),
    ],
    ids=["utf-8", "with a mark", "utf-16", "utf-32", "as windows writes"],
)
def test_texts_are_read_in_their_encoding(data: bytes, text: str) -> None:
    assert text_of("a.txt", data) == text


def test_a_hash_in_a_plain_text_is_no_heading() -> None:
    assert text_of("a.txt", b"# not a heading\n#1 neither") == "\\# not a heading\n#1 neither"


def test_html_keeps_headings_and_tables_and_drops_scripts_and_menus() -> None:
    page = (
        b"<html><head><title>Leave</title><style>x{}</style></head><body><nav>Menu</nav>"
        b"<h1>Leave policy</h1><p>30 days, see <a href='/x'>the list</a>.</p><script>alert(1)"
        b"</script><table><tr><th>a</th></tr><tr><td>1</td></tr></table></body></html>"
    )
    found = convert("leave.html", page)
    assert found.title == "Leave"
    assert "# Leave policy" in found.text
    assert "30 days, see the list." in found.text
    assert "| a |" in found.text
    assert not any(word in found.text for word in ("Menu", "alert", "x{}"))


def test_html_without_nav_elements_loses_menus_and_tables_of_contents_too() -> None:
    page = (
        b"<div class='navheader'>2.9. Transactions <a href='p'>Prev</a> <a href='n'>Next</a></div>"
        b"<div class='menu mainmenu'><ul><li><a href='/'>Home</a></ul></div>"
        b"<div class='toc'><p>Contents</p>"
        b"<dl><dt><a href='#a'>2.9.1. Basic concepts of an account</a></dl></div>"
        b"<h2>Basics</h2><p>See <a href='x'>splits</a>.</p>"
        b"<div class='menu'>Soup of the day, bread <a href='a'>(allergens)</a></div>"
    )
    text = text_of("a.html", page)
    assert text.split("\n\n") == ["## Basics", "See splits.", "Soup of the day, bread (allergens)"]


def test_a_page_of_links_alone_keeps_them() -> None:
    page = b"<h1>Part I</h1><div class='toc'><a href='a'>1. Getting started with accounts</a></div>"
    assert "1. Getting started with accounts" in text_of("a.html", page)


@pytest.mark.parametrize(
    ("start", "first"),
    [("7", 7), ("\u0663", 3), ("\u00b2", 1), ("9" * 5_000, 1), ("-1", 1)],
    ids=["a number", "Arabic digits", "a superscript", "far too many digits", "below zero"],
)
def test_a_list_starts_with_its_number_if_that_is_one(start: str, first: int) -> None:
    page = f"<ol start='{start}'><li>a</li><li>b</li></ol>".encode()

    assert text_of("a.html", page).strip() == f"{first}. a\n{first + 1}. b"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>", "- a\n  - b\n  - c\n- d"),
        ("<ul><li><p>a<li><p>b</ul>", "- a\n- b"),
        ("<p>a<p>b<div>c</div><p>d", "a\n\nb\n\nc\n\nd"),
        ("<p>a<ul><li><p>b</ul>c", "a\n\n- b\n\nc"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n:   b\n\nc\n:   d"),
        (
            "<table><thead><tr><th>a<th>b<tbody><tr><td>c<td>d<tr><td>e<td>f</table>",
            "| a | b |\n| --- | --- |\n| c | d |\n| e | f |",
        ),
        ("<select><option>a<option>b</select>", "ab"),
    ],
)
def test_ends_of_tags_may_be_left_out_as_in_html(page: str, text: str) -> None:
    assert convert("page.html", page.encode()).text.strip() == text


def test_rows_of_a_table_follow_its_head() -> None:
    assert text_of("a.csv", b"name;city\nAnna;Bern\nBob;a|b\n") == (
        "| name | city |\n| --- | --- |\n| Anna | Bern |\n| Bob | a\\|b |"
    )
    assert text_of("a.tsv", b"a\tb\n1\n") == "| a | b |\n| --- | --- |\n| 1 |  |"


def test_a_pdf_has_pages_and_the_headings_of_its_outline() -> None:
    data = pdf(
        "Introduction\nWelcome.",
        "No heading here.",
        "Reset\nCall the desk.",
        title="Guide",
        outline=[("Introduction", 0), ("Reset", 2)],
    )
    found = convert("guide.pdf", data)
    assert (found.title, found.has_pages) == ("Guide", True)
    pages = found.text.split("\f")
    assert pages[0].startswith("# Introduction\nWelcome.")
    assert pages[1].strip() == "No heading here."
    assert pages[2].startswith("# Reset\nCall the desk.")


def test_a_word_document_keeps_its_headings() -> None:
    found = convert(
        "a.docx", docx(("Heading1", "Leave"), ("", "30 days."), ("Heading2", "Sick"), ("", "Call."))
    )
    assert found.title == "Leave"
    assert found.text.split() == ["#", "Leave", "30", "days.", "##", "Sick", "Call."]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.md", b"", "is empty"),
        ("a.pdf", b"  \n", "is empty"),
        ("a.csv", b"\n\n,,\n", "is empty"),
        ("a.pdf", b"%PDF-1.7 nothing", "is broken"),
        ("a.docx", b"PK\x03\x04 nothing", "is broken"),
        ("a.docx", b"\xd0\xcf\x11\xe0 old", "is encrypted, or from a version of Word before 2007"),
        ("a.txt", b"a\0b", "is not text"),
        ("a.exe", b"MZ", "is not a supported kind of document"),
        ("a", b"text", "is not a supported kind of document"),
        ("a.csv", b",".join([b"x"] * 600), "has 600 columns"),
        ("a.html", b"<div>" * 3000 + b"x", "nested too deeply"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, data: bytes, words: str) -> None:
    with pytest.raises(DocumentError, match=words) as caught:
        convert(name, data)
    assert str(caught.value).startswith(name)
    assert caught.value.hint


def test_an_encrypted_pdf_is_named_as_that() -> None:
    with pytest.raises(DocumentError, match=r"a\.pdf is encrypted"):
        convert("a.pdf", pdf("secret", user_password="pw"))
    assert "open" in text_of("a.pdf", pdf("open", user_password=""))


def test_a_text_that_is_too_long_names_the_limit() -> None:
    with pytest.raises(DocumentError, match=r"holds 0.2 MB of text.*max_text_mb"):
        convert("a.txt", b"word " * 40_000, max_bytes=2**17)
    with pytest.raises(DocumentError, match="MB of text"):
        convert("a.pdf", pdf(*["many words here"] * 20), max_bytes=100)


def test_a_document_that_unpacks_to_too_much_is_not_unpacked() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("word/document.xml", b"0" * 3_000_000)
    with pytest.raises(DocumentError, match="unpacks to 3 MB"):
        convert("bomb.docx", target.getvalue(), max_bytes=2**16)


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolgate.documents.formats.pdf", raising=False)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_hint("documents"))):
        convert("a.pdf", b"%PDF")


def test_the_media_type_counts_where_the_name_says_nothing() -> None:
    assert convert("page", b"<h1>A</h1>", media_type="text/html; charset=utf-8").text.strip() == (
        "# A"
    )


def test_kinds_are_known_by_their_endings() -> None:
    assert all(is_supported(f"A{ending.upper()}") for ending in supported_formats())
    assert not is_supported("a.bin")


def test_a_pdf_with_a_broken_outline_is_read_all_the_same() -> None:
    data = pdf("Hello.", outline=[("Somewhere", 0)]).replace(b"/Title", b"/Titel")
    assert "Hello." in text_of("a.pdf", data)
