"""Read the files of messages: several messages in each line."""

import re
from importlib.resources.abc import Traversable
from itertools import product
from typing import Final

_VARIANTS: Final = 18
"""Largest number of messages made from one line (chosen): 740 to 1,580 messages per language."""

_CHOICE: Final = re.compile(r"\(([^()]*)\)")


def message_lines(file: Traversable) -> list[str]:
    """Return the lines of a file that are neither blank nor comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def variants(line: str) -> list[str]:
    """Return the messages of a line, at most `_VARIANTS`, spread over all combinations."""
    pieces = _CHOICE.split(line)
    # Odd pieces are the bracketed ones.
    options = [piece.split("|") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    combinations = ["".join(chosen) for chosen in product(*options)]
    count = min(len(combinations), _VARIANTS)
    # A fractional step, so that all options of the last bracket occur.
    return [combinations[int(k * len(combinations) / count)] for k in range(count)]
