"""The sources of an answer: the passages that the model was given, and its citations of them."""

import re
from collections.abc import Collection
from typing import NamedTuple

from toolgate.chat.turns.turn import Turn
from toolgate.documents import FoundPassage
from toolgate.types import Json

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CITED = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\](?!\()")
"""`[1]` or `[1, 2]`, but not a link in Markdown."""


class Citation(NamedTuple):
    """A citation in an answer."""

    start: int
    """Its start, in characters."""

    end: int
    """Its end."""

    number: int
    """Number of the source."""


def sources_of(turn: Turn) -> list[Json]:
    """Return the passages that the model was given, in the order of their citation numbers.

    Each has `number`, `document`, `title`, `heading`, `page`, `collection`, `document_id`,
    `passage_id`, `score` (similarity within its collection, None if the search returned none)
    and `link` (None if the document has no URL).
    """
    return [
        _source(number, passage) for number, passage in enumerate(turn.passages.values(), start=1)
    ]


def citations(text: str) -> list[Citation]:
    """Return the citations in a text, in order, ignoring code."""
    plain = _CODE.sub(lambda match: " " * len(match[0]), text)
    return [
        Citation(match.start(), match.end(), int(number))
        for match in _CITED.finditer(plain)
        for number in match[1].split(",")
    ]


def unknown_citations(text: str, sources: Collection[Json]) -> list[int]:
    """Return cited numbers without a source; empty if the text has no sources at all."""
    if not sources:
        return []
    cited = {citation.number for citation in citations(text)}
    return sorted(cited - {source["number"] for source in sources})


def _source(number: int, passage: FoundPassage) -> Json:
    return {
        "number": number,
        "document": passage.source,
        "title": passage.title,
        "heading": passage.heading,
        "page": passage.page,
        "collection": passage.collection,
        "document_id": passage.document_id,
        # As text: JavaScript rounds numbers of this size.
        "passage_id": str(passage.passage_id),
        "score": None if passage.similarity is None else round(passage.similarity, 3),
        "link": passage.source if passage.source.startswith(("https://", "http://")) else None,
    }
