"""A message in the forms that value readers need: folded text, dates, quotes, addresses."""

from collections.abc import Callable
from datetime import date
from functools import cached_property
from typing import TypeAlias

from toolgate.intents.arguments.expressions import CLOSERS, QUOTED, URL
from toolgate.intents.dates.parser import DateMatch, dates_in
from toolgate.intents.text import Folded, fold

Offsets: TypeAlias = tuple[int, int]

ReadValue: TypeAlias = tuple[object, Offsets]
"""A value and where it was read, as offsets in the source."""


class ArgumentMessage:
    """A message in the forms that readers need, each computed on first use."""

    def __init__(
        self, source: str, today: date, zone: str, translate: Callable[[str], str] | None = None
    ) -> None:
        self.source = source
        self._translate = translate
        self.today = today
        self.zone = zone
        self.taken: list[Offsets] = []
        self.paired: list[Offsets] = []
        self.announced: dict[str, DateMatch] = {}

    @cached_property
    def folded(self) -> Folded:
        """The message in lower case without accents, with offsets in the source."""
        return fold(self.source)

    @cached_property
    def english(self) -> str:
        """The words of the message in English, in lower case; empty if it is English."""
        return "" if self._translate is None else fold(self._translate(self.source)).text

    @cached_property
    def dates(self) -> list[DateMatch]:
        """All dates and date ranges."""
        return list(dates_in(self.folded, today=self.today, zone=self.zone))

    @cached_property
    def quoted(self) -> list[tuple[str, Offsets]]:
        """Texts in quotation marks."""
        return [
            (text, match.span())
            for match in QUOTED.finditer(self.source)
            if (text := next(group for group in match.groups() if group is not None)).strip()
        ]

    @cached_property
    def urls(self) -> list[tuple[str, Offsets]]:
        """URLs, without the punctuation that follows them."""
        urls: list[tuple[str, Offsets]] = []
        for match in URL.finditer(self.source):
            text = match[0].rstrip(CLOSERS)
            # A closing parenthesis belongs to the URL if it was opened in it, as on Wikipedia.
            if match[0][len(text) : len(text) + 1] == ")" and text.count("(") > text.count(")"):
                text += ")"
            urls.append((text, (match.start(), match.start() + len(text))))
        return urls

    def span_of(self, start: int, end: int) -> Offsets:
        """Convert offsets in the folded text to offsets in the source."""
        return self.folded.start(start), self.folded.end(end)

    def text(self, span: Offsets) -> str:
        """Return the source text between two offsets."""
        return self.source[span[0] : span[1]]

    def is_taken(self, span: Offsets) -> bool:
        """Whether an argument was already read from any of these characters."""
        return any(start < span[1] and span[0] < end for start, end in self.taken)
