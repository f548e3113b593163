"""Makes text storable in every database."""

import re

__all__ = ["UNSUPPORTED_CHARACTERS", "escape_text", "unescape_text"]

UNSUPPORTED_CHARACTERS = re.compile("[\x00\x1a\ud800-\udfff]")
"""What has to be written otherwise."""

_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def escape_text(text: str) -> str:
    """Text that every database keeps, and that `unescape_text` turns back.

    PostgreSQL keeps no NUL, and neither database keeps half a surrogate pair, but JSON may hold
    both. They are written as SUB (U+001A) and four hex digits.
    """
    return UNSUPPORTED_CHARACTERS.sub(lambda match: f"\x1a{ord(match[0]):04x}", text)


def unescape_text(text: str) -> str:
    """The text that `escape_text` was given."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
