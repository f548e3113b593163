"""Where an answer comes from: the passages that the model was given, and its citations of them."""

import re
from collections.abc import Collection
from typing import NamedTuple

from toolgate.chat.turns.turn import Turn
from toolgate.documents import FoundPassage
from toolgate.types import Json

__all__ = ["Citation", "citations", "sources_of", "unknown_citations"]

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CITED = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\](?!\()")
"""`[1]` or `[1, 2]`, but no link in Markdown."""


class Citation(NamedTuple):
    """A place in an answer that cites a source."""

    start: int
    """Where it begins, in characters."""

    end: int
    """Where it ends."""

    number: int
    """Number of the source, as the answer says it."""


def sources_of(turn: Turn) -> list[Json]:
    """The passages that the model was given, in the order of the numbers by which it cites them.

    Each has `number`, `document`, `title`, `heading`, `page`, `collection`, `document_id`,
    `passage_id`, `score` (similarity within its collection, None where the search gave none) and
    `link` (None where the document came from no address).
    """
    return [
        _source(number, passage) for number, passage in enumerate(turn.passages.values(), start=1)
    ]


def citations(text: str) -> list[Citation]:
    """What a text cites, in order; code is left out."""
    plain = _CODE.sub(lambda match: " " * len(match[0]), text)
    return [
        Citation(match.start(), match.end(), int(number))
        for match in _CITED.finditer(plain)
        for number in match[1].split(",")
    ]


def unknown_citations(text: str, sources: Collection[Json]) -> list[int]:
    """Numbers that a text cites and no source has; empty for a text without any source."""
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
        "passage_id": passage.passage_id,
        "score": None if passage.similarity is None else round(passage.similarity, 3),
        "link": passage.source if passage.source.startswith(("https://", "http://")) else None,
    }
