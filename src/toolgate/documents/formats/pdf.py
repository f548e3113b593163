"""PDF to text, page by page, with the headings of the outline."""

import io
import logging
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError

from toolgate.documents.formats.conversion import ConvertedDocument
from toolgate.errors import DocumentError

__all__ = ["read"]

log = logging.getLogger(__name__)

_MOST_PAGES = 20_000


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:
    """The text of a file."""
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
    headings = _headings(reader)
    pages: list[str] = []
    size = 0
    for number, page in enumerate(reader.pages):
        text = page.extract_text().replace("\f", "\n")
        size += len(text)
        if size > max_bytes:
            break  # `convert` says that it is too much
        pages.append(_with_headings(text, headings.get(number, ())))
    information = reader.metadata
    title = str(information.title or "") if information else ""
    text = "\f".join(pages)
    return ConvertedDocument(
        text=text + " " * max(0, size - len(text)), title=title, has_pages=True
    )


def _encrypted(name: str) -> DocumentError:
    return DocumentError(f"{name} is encrypted.", hint="Save it without a password.")


def _headings(reader: pypdf.PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Levels and titles of the outline by page, from 0 on; none where it is broken."""
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
    """Headings where the page has their words in a line of their own, else before the page."""
    lines = text.split("\n")
    begin = 0
    above: list[str] = []
    for level, title in headings:
        mark = f"{'#' * level} {title}"
        folded = "".join(title.split()).casefold()
        at = next(
            (
                at
                for at in range(begin, len(lines))
                if "".join(lines[at].split()).casefold() == folded
            ),
            None,
        )
        if at is None:
            above.append(mark)
        else:
            lines[at], begin = mark, at + 1
    return "\n".join([*above, *lines])
