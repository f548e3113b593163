"""Converts PDF to text, page by page, with the headings of the outline."""

import io
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError

from toolgate.documents.formats.conversion import ConvertedDocument
from toolgate.documents.formats.page_furniture import without_hyphenation, without_page_furniture
from toolgate.errors import DocumentError

log = logging.getLogger(__name__)

_MOST_PAGES = 20_000
"""Pages: bounds time, more than any book has (chosen)."""

_HEADING_LINES = 3
"""Most lines of a heading."""

_SECTION_NUMBER = re.compile(
    r"^(?:chapter|appendix|part)?\s*(?:\d+|[a-z]\b)(?:\.\d+)*[.:]?\s+", re.IGNORECASE
)


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:
    """Return the text of a file."""
    reader = pypdf.PdfReader(io.BytesIO(data))
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            raise _encrypted(name)
        count = len(reader.pages)
    except (FileNotDecryptedError, DependencyError) as error:
        raise _encrypted(name) from error
    if count > _MOST_PAGES:
        raise DocumentError(
            f"{name} has {count:,} pages.", allowed=f"Allowed: {_MOST_PAGES:,}.", hint="Split it."
        )
    pages: list[str] = []
    size = 0
    for page in reader.pages:
        text = _text_of(page)
        size += len(text)
        if size > max_bytes:
            break  # `convert` raises the error
        pages.append(text)
    headings = _headings(reader)
    marked = [
        _with_headings(without_hyphenation(text), headings.get(number, ()))
        for number, text in enumerate(without_page_furniture(pages))
    ]
    information = reader.metadata
    title = str(information.title or "") if information else ""
    text = "\f".join(marked)
    return ConvertedDocument(
        text=text + " " * max(0, size - len(text)), title=title, has_pages=True
    )


def _text_of(page: pypdf.PageObject) -> str:
    """Return the text of a page; text above the previous text starts a new line.

    Headers often come last in the file, and would be joined to the last word of the page.
    """
    parts: list[str] = []
    lowest = float("inf")

    def take(text: str, _cm: Any, matrix: Sequence[float], _font: Any, size: float) -> None:
        nonlocal lowest
        height = matrix[5]
        if text.strip():
            if height > lowest + 3 * max(abs(size), 6.0) and parts and not parts[-1].endswith("\n"):
                parts.append("\n")
            lowest = height
        parts.append(text)

    page.extract_text(visitor_text=take)
    return "".join(parts).replace("\f", "\n")


def _encrypted(name: str) -> DocumentError:
    return DocumentError(f"{name} is encrypted.", hint="Save it without a password.")


def _headings(reader: pypdf.PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Return levels and titles of the outline by page, from 0; empty if it is broken."""
    headings: dict[int, list[tuple[int, str]]] = {}
    try:
        outline: Any = reader.outline
        for level, entry in _entries(outline, 1):
            number = reader.get_destination_page_number(entry)
            title = " ".join(str(entry.title or "").split())
            if number is not None and title:
                headings.setdefault(number, []).append((level, title))
    except Exception:
        log.info("outline of a PDF not read", exc_info=True)
    return headings


def _entries(outline: Sequence[Any], level: int) -> Iterator[tuple[int, Any]]:
    for entry in outline:
        if isinstance(entry, list):
            yield from _entries(cast("list[Any]", entry), level + 1)
        else:
            yield min(level, 6), entry


def _with_headings(text: str, headings: Sequence[tuple[int, str]]) -> str:
    """Mark headings if their words are on lines of their own, else put them before the page."""
    lines = text.split("\n")
    begin = 0
    above: list[str] = []
    for level, title in headings:
        place = next(
            (
                (at, end)
                for at in range(begin, len(lines))
                for end in range(at + 1, min(at + _HEADING_LINES, len(lines)) + 1)
                if _is_heading(" ".join(lines[at:end]), title)
            ),
            None,
        )
        if place is None:
            above.append(f"{'#' * level} {title}")
        else:
            at, end = place
            lines[at:end] = [f"{'#' * level} {' '.join(' '.join(lines[at:end]).split())}"]
            begin = at + 1
    return "\n".join([*above, *lines])


def _is_heading(line: str, title: str) -> bool:
    """Whether a line is a heading of the outline, which often lacks its number."""
    folded, sought = _folded(line), _folded(title)
    return folded == sought or _folded(_SECTION_NUMBER.sub("", line.strip())) == sought


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()
