"""Converts Word documents to Markdown by way of HTML, with headings, lists and tables."""

import io
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from xml.parsers import expat

import bs4
import mammoth  # pyright: ignore[reportMissingTypeStubs]

from toolgate.documents.formats.conversion import ConvertedDocument, too_much_text
from toolgate.documents.formats.html import markdown_of
from toolgate.errors import DocumentError

_OLD = b"\xd0\xcf\x11\xe0"
"""Start of Office files that are encrypted, or older than 2007."""

_MOST_UNPACKED = 20
"""Largest size of all unpacked parts, including pictures, as a multiple of the largest text."""

_MOST_ELEMENTS = 1_000_000
"""XML elements in all parts; each takes 60 µs and 750 bytes (mammoth 1.13.0, 2026-11-24)."""

_FEW_ELEMENTS = 50_000
"""XML elements that any file may have, besides ten per byte of the file.

Compressed repetition reaches 170 per byte, so that a file of 2 KB would take 14 s.
"""

_FEW_FIELDS = 2_000
"""Complex fields that any file may have, besides one per 50 bytes of the file.

Fields inside each other take quadratic time: 16,000 in a file of 3 KB took 10 s (mammoth 1.13.0,
2026-11-27). Their ends do not count, because the library ignores some of them.
"""

_MOST_ATTRIBUTES = 1_000
"""Attributes of one element: Word writes a few dozen namespaces; 200,000 took 22 s (mammoth
1.13.0, 2026-11-28)."""


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:
    """Return the text of a document."""
    if data.startswith(_OLD):
        raise DocumentError(
            f"{name} is encrypted, or from a version of Word before 2007.",
            hint="Save it as .docx without a password.",
        )
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        size = sum(part.file_size for part in parts.infolist())
        if size > _MOST_UNPACKED * max_bytes:
            raise DocumentError(
                f"{name} unpacks to {size / 2**20:,.0f} MB.",
                allowed=f"Allowed: {_MOST_UNPACKED * max_bytes / 2**20:,.0f} MB.",
                hint="Remove pictures, or split it.",
            )
        elements = min(_MOST_ELEMENTS, _FEW_ELEMENTS + 10 * len(data))
        fields = _FEW_FIELDS + len(data) // 50
        _check_parts(parts, name, elements=elements, most_fields=fields, max_bytes=max_bytes)
    library: Any = mammoth
    converted = library.convert_to_html(io.BytesIO(data), convert_image=_no_image)
    page = bs4.BeautifulSoup(converted.value, "html.parser")
    heading = page.find(["h1", "h2"])
    return ConvertedDocument(text=markdown_of(page), title=heading.get_text() if heading else "")


def _check_parts(
    parts: zipfile.ZipFile, name: str, *, elements: int, most_fields: int, max_bytes: int
) -> None:
    """Reject entity definitions, and what would take the library too long."""
    count = size = fields = 0

    def start(element: str, attributes: Mapping[str, str]) -> None:
        nonlocal count, fields
        count += 1
        if element.endswith("fldChar"):
            fields += "begin" in attributes.values()
        if count > elements:
            raise DocumentError(
                f"{name} has too many XML elements for its size.",
                allowed=f"Allowed for this file: {elements:,}.",
                hint="Split it, or save it again.",
            )
        if len(attributes) > _MOST_ATTRIBUTES:
            raise DocumentError(
                f"{name} has an XML element with {len(attributes):,} attributes.",
                allowed=f"Allowed: {_MOST_ATTRIBUTES:,}.",
                hint="Open it in Word and save it again.",
            )
        if fields > most_fields:
            raise DocumentError(
                f"{name} has too many fields for its size.",
                allowed=f"Allowed for this file: {most_fields:,}.",
                hint="Split it, or replace fields by their text (Ctrl+Shift+F9 in Word).",
            )

    def characters(text: str) -> None:
        nonlocal size
        size += len(text)
        if size > max_bytes:  # the library joins texts in quadratic time
            raise too_much_text(name, size, max_bytes)

    def definition(*_: object) -> None:
        raise DocumentError(
            f"{name} has a document type definition, which no Word file has.",
            hint="Open it in Word and save it again.",
        )

    # The library reads any part as XML, whatever its name, if another part refers to it.
    for part in parts.infolist():
        parser = expat.ParserCreate()
        parser.StartElementHandler = start
        parser.CharacterDataHandler = characters
        parser.StartDoctypeDeclHandler = definition
        with parts.open(part) as content, suppress(expat.ExpatError):  # pictures
            parser.ParseFile(content)


def _no_image(image: object) -> list[object]:
    """Drop images, which have no text."""
    del image
    return []
