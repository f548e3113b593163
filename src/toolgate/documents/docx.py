"""Word documents to Markdown through HTML, with headings, lists and tables."""

import io
import zipfile
from typing import Any

import bs4
import mammoth  # pyright: ignore[reportMissingTypeStubs]

from toolgate.documents.conversion import ConvertedDocument
from toolgate.documents.html import markdown_of
from toolgate.errors import DocumentError

__all__ = ["read"]

_OLD = b"\xd0\xcf\x11\xe0"
"""How files of Office begin that are encrypted, or older than 2007."""

_MOST_UNPACKED = 20
"""Times as much as the text may be that all parts of a document may be, pictures included."""


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:
    """The text of a document."""
    if data.startswith(_OLD):
        raise DocumentError(
            f"{name} is encrypted, or of a Word older than 2007.",
            hint="Save it as .docx without a password.",
        )
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        size = sum(part.file_size for part in parts.infolist())
        if size > _MOST_UNPACKED * max_bytes:
            raise DocumentError(
                f"{name} unpacks to {size / 2**20:,.0f} MB.",
                allowed=f"Allowed: {_MOST_UNPACKED * max_bytes / 2**20:,.0f} MB.",
                hint="Take pictures out, or split it.",
            )
    library: Any = mammoth
    converted = library.convert_to_html(io.BytesIO(data), convert_image=_no_image)
    page = bs4.BeautifulSoup(converted.value, "html.parser")
    heading = page.find(["h1", "h2"])
    return ConvertedDocument(text=markdown_of(page), title=heading.get_text() if heading else "")


def _no_image(image: object) -> list[object]:
    """Pictures are no text."""
    del image
    return []
