"""Escapes text so that every database can store it."""

import re

UNSUPPORTED_CHARACTERS = re.compile("[\x00\x1a\ud800-\udfff]")
"""Characters that must be escaped."""

_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def escape_text(text: str) -> str:
    """Escape text for every database; `unescape_text` reverses it.

    PostgreSQL cannot store NUL, and no database can store half of a surrogate pair, but JSON can
    contain both. They become SUB (U+001A) and four hex digits.
    """
    return UNSUPPORTED_CHARACTERS.sub(lambda match: f"\x1a{ord(match[0]):04x}", text)


def unescape_text(text: str) -> str:
    """The original of a text escaped by `escape_text`."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
