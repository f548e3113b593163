"""Everyday messages on all kinds of topics, which most packs do not answer.

Every pack is trained against these, so that even a pack of ten prompts can tell what is not
meant for it. The files hold one line per kind of message, with variants in brackets: our own
work, composed of hand-written parts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Background", "background_messages", "background_texts"]

_VARIANTS: Final = 18
"""Largest number of messages made from one line (chosen): 740 to 1,580 messages per language."""

_CHOICE: Final = re.compile(r"\(([^()]*)\)")

_FOR_EACH: Final = 20
"""Background messages per prompt of an intent: many more would drown small intents, and a small
pack should be trained in less than a second."""

_AT_LEAST: Final = 800
"""Background messages for the smallest pack (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Background:
    """Messages about something else, prepared for training."""

    texts: Sequence[str]
    """The messages."""

    lines: Sequence[int]
    """The number of the source line of each message: messages from one line are very similar."""

    vectors: NDArray[np.float32]
    """The embedder's vectors, shape (texts, dim); dim 0 without an embedder."""


@lru_cache(maxsize=1)
def background_messages() -> tuple[tuple[str, int], ...]:
    """Return the distinct messages in all languages, with the numbers of their lines."""
    messages: dict[str, int] = {}
    number = 0
    folder = files(__name__)
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".txt"):
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                number += 1
                for message in variants(line):
                    messages.setdefault(message, number)
    return tuple(messages.items())


def background_texts(prompts: int) -> tuple[tuple[str, int], ...]:
    """Return the messages that a pack is trained against, with the numbers of their lines.

    Args:
        prompts: Average number of prompts per intent.
    """
    messages = background_messages()
    size = min(max(_FOR_EACH * prompts, _AT_LEAST), len(messages))
    return tuple(messages[k * len(messages) // size] for k in range(size))


def variants(line: str) -> list[str]:
    """Return the messages of a line, at most `_VARIANTS`, spread over all combinations."""
    pieces = _CHOICE.split(line)
    # Odd pieces are the bracketed ones.
    options = [piece.split("|") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    combinations = ["".join(chosen) for chosen in product(*options)]
    count = min(len(combinations), _VARIANTS)
    # A fractional step, so that all options of the last bracket occur.
    return [combinations[int(k * len(combinations) / count)] for k in range(count)]
