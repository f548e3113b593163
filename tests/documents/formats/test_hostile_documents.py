"""Small files that cost much, through REST: refused or stopped, and the gateway goes on."""

import base64
import io
import json
import sys
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import psutil
import pytest
from pypdf import PdfWriter
from pypdf.generic import NameObject, StreamObject

from tests.documents.libraries import docx, pdf
from toolgate.app.app import open_app
from toolgate.cli.client._local_gateway import in_process
from toolgate.documents.formats.conversion import convert
from toolgate.settings import DocumentSettings, Settings, StoreSettings

Add = Callable[[str, bytes], Any]


@asynccontextmanager
async def collection(**settings: Any) -> AsyncGenerator[Add]:
    """Adds files to a collection; gives the status and the message or the answer."""
    loaded = Settings(
        store=StoreSettings(url="sqlite://"), documents=DocumentSettings(max_file_mb=8, **settings)
    )
    async with open_app(loaded) as app:
        exchange = in_process(app)

        async def add(source: str, data: bytes) -> tuple[int, Any]:
            body = {"source": source, "content": base64.b64encode(data).decode()}
            status, raw = await exchange("POST", "/api/v1/collections/files/documents", body)
            answer = json.loads(raw)
            return status, answer["detail"] if status >= 400 else answer

        await exchange("POST", "/api/v1/collections", {"name": "files"})
        yield add
    assert workers() == []


def workers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if any("worker_program" in word for word in child.cmdline())
    ]


def with_body(xml: str) -> bytes:
    """A Word document whose main part is this."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(docx(("", "text")))) as before,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            after.writestr(name, xml if name == "word/document.xml" else before.read(name))
    return target.getvalue()


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def document(content: str, head: str = "") -> bytes:
    return with_body(f"{head}<w:document {W}><w:body>{content}</w:body></w:document>")


def with_main_part(name: str, data: bytes) -> bytes:
    """The same Word document, whose main part has another name."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(target, "w") as after:
        for part in before.infolist():
            content = before.read(part).replace(b"word/document.xml", name.encode())
            renamed = part.filename.replace("word/document.xml", name)
            after.writestr(renamed, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def entities() -> bytes:
    """Ten to the ninth texts, from ten entities."""
    levels = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
    head = f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY e0 "text">{levels}]>'
    return document("<w:p><w:r><w:t>&e9;</w:t></w:r></w:p>", head)


def packed_page(content: bytes, count: int) -> bytes:
    """A PDF whose page says this many times."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf("text")))
    stream = StreamObject()
    packer = zlib.compressobj(9)
    stream._data = packer.compress(b"BT /F1 9 Tf " + content * count + b"ET") + packer.flush()
    stream[NameObject("/Filter")] = NameObject("/FlateDecode")
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("flat.docx", lambda: document("<w:p/>" * 280_000), "too many XML elements for its size"),
        ("rows.docx", lambda: document("<w:tr><w:tc/></w:tr>" * 100_000), "too many XML elements"),
        (
            "renamed.docx",
            lambda: with_main_part("word/picture.png", document("<w:p/>" * 280_000)),
            "too many XML elements for its size",
        ),
        (
            "fields.docx",
            lambda: document('<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r></w:p>' * 3_000),
            "too many fields for its size",
        ),
        (
            "attributes.docx",
            lambda: document("<w:p {}/>".format(" ".join(f"a{at}='x'" for at in range(1_001)))),
            "has an XML element with 1,001 attributes",
        ),
        ("deep.docx", lambda: document("<w:p>" * 5_000 + "</w:p>" * 5_000), "is nested too deeply"),
        ("entities.docx", entities, "has a document type definition"),
        ("zip.docx", lambda: document(" " * 340_000_000), "unpacks to 324 MB"),
        ("text.docx", lambda: document(" " * 20_000_000), "holds 16.0 MB of text"),
        ("deep.html", lambda: b"<div>" * 20_000, "is nested too deeply"),
        ("lists.html", lambda: b"<ul><li>" * 120 + b"<br>" * 50_000, "is nested too deeply"),
        ("lines.html", lambda: b"<ul><li>" * 100 + b"a\n" * 100_000, "is nested too deeply"),
        (
            "rows.html",
            lambda: b"<table><tr><td>" * 70 + b"<td>x</td>" * 9_000,
            "is nested too deeply",
        ),
        ("films.html", lambda: b"<video>" * 200 + b"<source>" * 30_000, "is nested too deeply"),
        ("tags.html", lambda: b"<p>" * 1_000_001, "has 1,000,001 tags"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
async def test_a_small_file_that_would_cost_much_is_refused(
    name: str, make: Callable[[], bytes], words: str
) -> None:
    async with collection() as add:
        status, message = await add(name, make())
        after, _ = await add("good.docx", docx(("", "text")))

    assert (status, after) == (422, 201)
    assert message.startswith(name)
    assert words in message


async def test_lines_that_almost_match_a_pattern_do_not_stop_the_gateway() -> None:
    """Documents are split in the gateway's own process: 5,000 spaces held it for minutes."""
    lines = (
        f"# heading{' ' * 5_000}end",
        f"# {'[' * 100_000}",
        f"# {'[](' * 30_000}",
        f"| table |\n{'|' * 50_000}end\n| row |",
    )
    async with collection() as add:
        status, answer = await add("lines.md", "\n\n".join(lines).encode())

    assert status == 201, answer


async def test_a_page_of_blanks_is_read_in_linear_time() -> None:
    """300 KB of blanks took the library minutes."""
    blanks = " \t" * 150_000
    page = "".join(f"<{tag}>{blanks}word{blanks}</{tag}>" for tag in ("p", "b", "td", "pre"))
    async with collection(convert_timeout_s=20) as add:
        status, answer = await add("blanks.html", page.encode())

    assert status == 201, answer


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("front.md", lambda: "---" + "\n" * 300_000 + "word"),
        ("title.md", lambda: f"---\ntitle: a{' ' * 300_000}b\n---\nword"),
        ("spaces.md", lambda: f"# a{' ' * 300_000}b\n\nword"),
        ("marks.md", lambda: f"# a{'#' * 300_000}b\n\nword"),
        ("word.txt", lambda: "a" * 300_000),
        ("numbers.txt", lambda: "1. A\n\n" * 200_000 + "A word."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_text_that_almost_matches_a_pattern_is_read_in_linear_time(
    name: str, make: Callable[[], str]
) -> None:
    """Most of these took minutes."""
    async with collection(convert_timeout_s=20) as add:
        status, answer = await add(name, make().encode())

    assert status == 201, answer


@pytest.mark.parametrize("start", ['<a b="', "<a "])
async def test_markup_that_is_never_closed_is_left_out_in_linear_time(start: str) -> None:
    """The parser looked for the end again from each of the starts, some for a minute."""
    page = f"<p>An invoice &#with; tax</p>{start * 20_000}"
    async with collection(convert_timeout_s=20) as add:
        status, answer = await add("unclosed.html", page.encode())

    assert status == 201, answer
    assert convert("unclosed.html", page.encode()).text.startswith("An invoice &#with; tax")


@pytest.mark.parametrize("repeated", ["<li>x", "<p>x", "<dt>x<dd>x", "<tr><td>x<td>x", "<option>x"])
async def test_an_old_page_whose_tags_have_no_ends_is_read(repeated: str) -> None:
    """Each was taken to be in the one before, and 250 levels are the limit."""
    async with collection() as add:
        status, answer = await add("old.html", f"<h1>A</h1>{repeated * 1_000}".encode())

    assert status == 201, answer


@pytest.mark.parametrize(
    ("before", "repeated"),
    [
        ("<ol>", "<li>x</li>"),
        ("<table><thead>", "<tr><td>x</td></tr>"),
        ("<table>", "<tbody><tr><td>x</td></tr></tbody>"),
        ("<li><div><div><ul>", "<li>x"),
        ("<table>", "<tbody><tr><td>x"),
        ("<p><div>", "<p>x"),
    ],
)
def test_the_steps_of_a_conversion_grow_with_the_page(before: str, repeated: str) -> None:
    """The Markdown library went through the whole list or table for each of its items."""

    def steps(count: int) -> int:
        return _calls(before + repeated * count)

    steps(1)
    assert steps(400) < 2.5 * steps(200)


def test_the_steps_of_a_conversion_do_not_grow_with_the_levels() -> None:
    """The Markdown library looked for preformatted text around each tag."""
    lines = "<br>" * 500
    _calls(lines)
    assert _calls("<div>" * 200 + lines) < 2 * _calls("<div>" * 20 + lines)


def _calls(page: str) -> int:
    """Count the calls of functions that converting a page takes."""
    calls = 0

    def profile(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(profile)
    try:
        convert("page.html", page.encode())
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("slow.html", lambda: b"<b>x</b>" * 490_000),
        ("slow.pdf", lambda: packed_page(b"(a) Tj\n", 3_000_000)),
    ],
    ids=["html", "pdf"],
)
async def test_a_file_that_takes_too_long_is_stopped(name: str, make: Callable[[], bytes]) -> None:
    async with collection(convert_timeout_s=1) as add:
        status, message = await add(name, make())
        left = workers()

    assert status == 422
    assert message.startswith(f"{name} takes longer than 1 s to convert.")
    assert left == []


async def test_a_file_that_waits_for_slow_ones_is_not_called_slow() -> None:
    """Two are converted at a time."""
    said: list[str] = []

    async def added(number: int) -> None:
        _, message = await add(f"slow{number}.html", b"<b>x</b>" * 490_000)
        said.append(message)

    async with collection(convert_timeout_s=1) as add, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(added, number)

    assert any("takes longer than 1 s to convert." in one for one in said), said
    assert any("other files took all of the last 1 s." in one for one in said), said


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
async def test_a_file_that_takes_too_much_memory_is_stopped() -> None:
    async with collection() as add:
        status, message = await add("wide.csv", b"," * 498 + b"x\n" + b"x\n" * 1_000_000)
        after, _ = await add("good.pdf", pdf("text"))

    assert (status, after) == (422, 201)
    assert message.startswith("wide.csv needs more than 1120 MB of memory to convert.")
