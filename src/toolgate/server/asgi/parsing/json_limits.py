"""Counts the elements of a JSON text piece by piece, before it is parsed.

Each step is a pass in C over a small piece, so that other threads get their turn. Counting ends
at the first limit that is exceeded.
"""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

MAX_CONTAINERS = 500_000
"""Largest number of objects and arrays in a message; parsing more would block all other
requests."""

MAX_VALUES = 1_000_000
"""Largest number of object members and array elements in a message."""

MAX_DIGITS = 1_000
"""Largest number of digits of a number; conversion takes quadratic time."""

_PIECE_BYTES = 128 * 2**10
"""Bytes scanned at a time; chosen: avoids a second copy of a large body."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_TO_STEPS = bytes(1 if code in b"[{" else 255 for code in range(256))
_TO_ZEROS = bytes(ord("0") if code in b"0123456789" else ord(" ") for code in range(256))
_OF_A_NUMBER = b"0123456789+-.eE"
_LONG = b"0" * 19
_TOO_LONG = b"0" * (MAX_DIGITS + 1)
_LONG_INTEGER = re.compile(rb"(?<![\d.])-?\d{19,}(?![\d.eE])")


@dataclass(kw_only=True)
class JsonCounts:
    """Counts of a JSON text; approximate if the text is not valid JSON."""

    depth: int = 0
    """Nesting depth of objects and arrays."""

    containers: int = 0
    """Objects and arrays."""

    values: int = 0
    """Object members and array elements, one too few for each non-empty object or array."""

    has_too_long_number: bool = False
    """Whether a number has more than `MAX_DIGITS` digits."""

    has_wide_integer: bool = False
    """Whether an integer needs more than 64 bits."""

    def exceeds_limits(self, max_depth: int) -> bool:
        """Whether a limit is exceeded."""
        return (
            self.depth > max_depth
            or self.containers > MAX_CONTAINERS
            or self.values > MAX_VALUES
            or self.has_too_long_number
        )


def count_json(body: bytes | bytearray, *, max_depth: int) -> JsonCounts:
    """Return the counts of `body`, or those up to the first limit exceeded."""
    counts = JsonCounts()
    level = 0
    number = b""  # what may go on in the next piece
    for text in _outside_strings(body):
        brackets = text.translate(_TO_STEPS, _NO_BRACKETS)
        counts.containers += brackets.count(1)
        counts.values += text.count(b",")
        for level in accumulate(array("b", brackets), initial=level):  # noqa: B020
            if level > counts.depth:
                counts.depth = level
                if level > max_depth:
                    return counts
        whole = (number + text).rstrip(_OF_A_NUMBER)
        number = (number + text)[len(whole) :]
        _count_numbers(whole, counts)
        counts.has_too_long_number |= len(number) > 2 * MAX_DIGITS
        if counts.exceeds_limits(max_depth):
            return counts
    _count_numbers(number, counts)
    return counts


def _count_numbers(text: bytes, counts: JsonCounts) -> None:
    zeros = text.translate(_TO_ZEROS)
    if _LONG not in zeros:
        return
    if _TOO_LONG in zeros:
        counts.has_too_long_number = True
    elif not counts.has_wide_integer:
        counts.has_wide_integer = any(
            not -(2**63) <= int(match[0]) < 2**64 for match in _LONG_INTEGER.finditer(text)
        )


def _outside_strings(body: bytes | bytearray) -> Iterator[bytes]:
    """Yield the pieces of a JSON text, with each string replaced by a quotation mark."""
    is_in_string = False
    carry = b""
    for start in range(0, len(body), _PIECE_BYTES):
        piece = carry + bytes(body[start : start + _PIECE_BYTES])
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        carry = b"\\" if backslashes % 2 else b""
        piece = piece.removesuffix(carry)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b'"'.join(parts[1 if is_in_string else 0 :: 2])
        if len(parts) % 2 == 0:
            is_in_string = not is_in_string
