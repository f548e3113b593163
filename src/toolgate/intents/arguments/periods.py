"""Find the parts of a message that limit a period but cannot be read as a date."""

from typing import Final

from toolgate.intents.arguments.message import ArgumentMessage, Offsets
from toolgate.intents.patterns import late_pattern

_OPENS: Final = late_pattern(
    r"(?<![\w-])(?:since|seit(?:dem)?|depuis|desde|sinds|sedert|between|zwischen|entre|tussen)"
    # Up to eight words of the same clause (chosen): a longer text rarely names a moment.
    r"(?P<said>(?:\s+[^\s.,;:!?()]+){1,8})"
)

_ENDS: Final = late_pattern(
    r"\s(?:show|list|give|tell|what|which|please|limit|top|and\s+(?:show|list|what|which)|was|zeig\w*"
    r"|bitte|montre\w*|muestra\w*|toon)\b.*"
)


def unread_periods(message: ArgumentMessage) -> list[Offsets]:
    """Return each "since" or "between" with the text after it that is not a date, in order."""
    unread: list[Offsets] = []
    for match in _OPENS.finditer(message.folded.text):
        end = match.end()
        if (rest := _ENDS.search(match[0])) is not None:
            end = match.start() + rest.start()
        start, end = message.span_of(match.start(), end)
        is_read = any(dated.start <= start < dated.end for dated in message.dates)
        if not is_read and end > start + len(match[0].split()[0]):
            unread.append((start, end))
    return unread
