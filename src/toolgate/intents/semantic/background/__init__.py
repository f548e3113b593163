"""Everyday messages on all kinds of topics, which most packs do not answer.

Every pack is trained against these, so that even a pack of ten prompts can tell what is not
meant for it, and against messages that only mention what it is about. The files hold one line per
kind of message, with variants in brackets: our own work, composed of hand-written parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.intents.semantic.background.lines import message_lines, variants
from toolgate.intents.semantic.background.mentions import Prompts, mentions_of

__all__ = ["Background", "background_messages", "background_texts"]

_FOR_EACH: Final = 20
"""Background messages per prompt of an intent: many more would drown small intents, and a small
pack should be trained in less than a second."""

_AT_LEAST: Final = 800
"""Background messages for the smallest pack (chosen)."""


_MENTIONS: Final = 0.35
"""Messages that only mention a topic of the pack, per background message (chosen; 0.25 and 0.6 give
about the same figures)."""

_FEW_INTENTS: Final = 8
"""Most intents of a pack that is trained against these: of more intents the typical words are too
ordinary, and with twelve of them two in a hundred requests more were rejected."""


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
        for line in message_lines(file):
            number += 1
            for message in variants(line):
                messages.setdefault(message, number)
    return tuple(messages.items())


def background_texts(prompts: Prompts) -> tuple[tuple[str, int], ...]:
    """Return the messages that a pack is trained against, with the numbers of their lines.

    Args:
        prompts: The example prompts of the pack by language and intent.
    """
    intents = {intent for by_intent in prompts.values() for intent in by_intent}
    total = sum(len(texts) for by_intent in prompts.values() for texts in by_intent.values())
    messages = background_messages()
    typical = total // max(len(intents), 1)
    size = min(max(_FOR_EACH * typical, _AT_LEAST), len(messages))
    share = _MENTIONS if len(intents) <= _FEW_INTENTS else 0.0
    mentions = mentions_of(
        prompts, everyday=[text for text, _ in messages], size=round(share * size)
    )
    first = messages[-1][1] + 1
    return (
        *(messages[k * len(messages) // size] for k in range(size)),
        *((text, first + line) for text, line in mentions),
    )
