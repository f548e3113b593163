"""Converts files to Markdown. One module per format that needs a library."""

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import PurePosixPath
from typing import Final, Protocol, cast

from toolgate.base.installation import install_hint
from toolgate.documents.formats.plain_text import markdown_of_text
from toolgate.errors import DocumentError, MissingExtraError, ToolgateError

_KINDS: Final[Mapping[str, str]] = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".rst": "text/x-rst",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}

_READERS: Final[Mapping[str, str]] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
"""Modules of this folder that need a library, by media type."""

_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?)\n(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title[^\S\n]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r"^#{1,6}[^\S\n]+(.+)$", re.MULTILINE)
_LONGEST_TITLE = 200
"""Characters: fits a line of a list (chosen)."""
_MOST_COLUMNS = 500
"""Columns of a table: wider ones belong in a database (chosen)."""


@dataclass(frozen=True, kw_only=True)
class ConvertedDocument:
    """A file as text."""

    text: str
    """Markdown; a form feed ends a page."""

    title: str = ""
    """The document's own title."""

    media_type: str = "text/markdown"
    """Media type of the file."""

    has_pages: bool = False
    """Whether form feeds mark the pages of the original."""


class _FormatReader(Protocol):
    def read(self, data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:
        """Return the text of a file."""
        ...


def supported_formats() -> list[str]:
    """Return the supported file extensions."""
    return list(_KINDS)


def is_supported(name: str) -> bool:
    """Whether a file can be read, by its name."""
    return PurePosixPath(name.lower()).suffix in _KINDS


def convert(
    name: str, data: bytes, *, media_type: str = "", max_bytes: int = 2**24
) -> ConvertedDocument:
    """Return the text of a file. Slow, and endless for hostile files: call it in a worker process.

    Args:
        name: Its name; the extension determines its format.
        data: Its content.
        media_type: Its format, if the name has no known extension.
        max_bytes: Largest size of the text in bytes.

    Raises:
        DocumentError: It is empty, broken, encrypted, too large, or has an unknown format.
        MemoryError: It needs more memory than there is.
        MissingExtraError: A library for it is not installed.
    """
    kind = _KINDS.get(PurePosixPath(name.lower()).suffix, "")
    kind = kind or media_type.partition(";")[0].strip().lower()
    if kind not in _KINDS.values():
        raise DocumentError(
            f"{name} is not a supported kind of document.",
            allowed=f"Allowed: {', '.join(_KINDS)}.",
            hint="Save it as one of these.",
        )
    if not data.strip():
        raise DocumentError(f"{name} is empty.", hint="Leave it out, or write something into it.")
    try:
        converted = _read(kind, name, data, max_bytes)
    except (ToolgateError, MemoryError):
        raise
    except RecursionError as error:
        raise DocumentError(f"{name} is nested too deeply.", hint="Save it again.") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise DocumentError(
            f"{name} cannot be read, it is broken: {reason}.",
            hint="Open it in its own program and save it again.",
        ) from error
    size = len(converted.text.encode("utf-8", "replace"))
    if size > max_bytes:
        raise too_much_text(name, size, max_bytes)
    title = " ".join(converted.title.split())[:_LONGEST_TITLE]
    return replace(converted, media_type=kind, title=title)


def too_much_text(name: str, size: int, max_bytes: int) -> DocumentError:
    """Return the error for a file with `size` or more bytes of text."""
    return DocumentError(
        f"{name} holds {size / 2**20:.1f} MB of text.",
        allowed=f"Allowed: {max_bytes / 2**20:g} MB (setting documents.max_text_mb).",
        hint="Split it, or raise the limit.",
    )


def _read(kind: str, name: str, data: bytes, max_bytes: int) -> ConvertedDocument:
    if kind in _READERS:
        return _reader(_READERS[kind], name).read(data, name=name, max_bytes=max_bytes)
    text = _decoded(name, data)
    if kind == "text/csv":
        return ConvertedDocument(text=_table(text, name, ""))
    if kind == "text/tab-separated-values":
        return ConvertedDocument(text=_table(text, name, "\t"))
    title = ""
    if kind == "text/markdown":
        front = _FRONT.match(text)
        if front:
            named = _TITLE.search(front[1])
            title = named[1].strip().strip("\"'") if named else ""
            text = text[front.end() :]
        headings = (found[1].rstrip().rstrip("#").strip() for found in _HEADING.finditer(text))
        title = title or next(filter(None, headings), "")
    else:
        text = markdown_of_text(text)
    return ConvertedDocument(text=text.replace("\f", "\n"), title=title)


def _reader(module: str, name: str) -> _FormatReader:
    try:
        return cast("_FormatReader", import_module(f"toolgate.documents.formats.{module}"))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "toolgate"}:
            raise
        raise MissingExtraError(
            f"Reading {name} needs the library {missing!r}, which is not installed.",
            hint=install_hint("documents"),
        ) from error


def _decoded(name: str, data: bytes) -> str:
    """Decode text: UTF-8, UTF-16 or UTF-32 with a byte order mark, else Windows-1252."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # one begins as UTF-16 does
        return data.decode("utf-32")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    if b"\0" in data[:65_536]:
        raise DocumentError(
            f"{name} is not text: it contains NUL bytes.",
            hint="Give it the right extension, or leave it out.",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _table(text: str, name: str, delimiter: str) -> str:
    """Return rows as a Markdown table, with the first one as its header."""
    csv.field_size_limit(2**24)
    if not delimiter:
        try:
            delimiter = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    if not rows:
        raise DocumentError(f"{name} is empty.", hint="Leave it out, or write something into it.")
    width = max(map(len, rows))
    if width > _MOST_COLUMNS:
        raise DocumentError(
            f"{name} has {width:,} columns.", allowed=f"Allowed: {_MOST_COLUMNS}.", hint="Split it."
        )
    head, *body = [[*row, *[""] * (width - len(row))] for row in rows]
    lines = [_row(head), "|" + " --- |" * width, *map(_row, body)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    texts = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return "| " + " | ".join(texts) + " |"
