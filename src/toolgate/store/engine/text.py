"""Texts that every database keeps."""

import re

__all__ = ["UNKEEPABLE", "keepable", "kept"]

UNKEEPABLE = re.compile("[\x00\x1a\ud800-\udfff]")
"""What has to be written otherwise."""

_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def keepable(text: str) -> str:
    """Text that every database keeps, and that `kept` turns back.

    PostgreSQL keeps no NUL, and neither database keeps half a surrogate pair, but JSON may hold
    both. They are written as SUB (U+001A) and four hex digits.
    """
    return UNKEEPABLE.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def kept(text: str) -> str:
    """The text that `keepable` was given."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
