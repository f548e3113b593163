"""Read names: by the phrases of a pack, and live names anywhere in a message."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from toolgate.intents.arguments.message import ArgumentMessage, Offsets, ReadValue
from toolgate.intents.arguments.prepared_spec import PreparedSpec
from toolgate.intents.base import ArgumentSpec
from toolgate.intents.patterns import HAN
from toolgate.intents.spelling import LEAST_LETTERS, nearest_word

_WORD: Final = re.compile(rf"[^\W{HAN}]+(?:[.-][^\W{HAN}]+)*|[{HAN}]+")
_QUOTES: Final = "\"'`\u201c\u201d\u201e\u00ab\u00bb "

_MOST_WORDS: Final = 4
"""Largest number of words in a name with blanks, such as `order line item types` (chosen)."""

_BEFORE: Final = frozenset(
    [
        *(
            "table",
            "tables",
            "tabelle",
            "tabellen",
            "tabla",
            "tablas",
            "tabel",
            "tabela",
            "tabella",
        ),
        *("of", "in", "for", "from", "on", "about", "von", "der", "aus", "fur", "zu", "de", "du"),
        *("la", "del", "en", "van", "voor", "do", "da", "di", "des", "dans"),
    ]
)
"""A name after one of these is more likely the topic of the message than a name elsewhere."""


def read_name(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Return the first name that a phrase finds, or a live name anywhere in the message.

    A name that is written exactly counts more than one with a typing error, and a longer one more
    than the start of it: "the table order items" names neither `orders` nor an item.
    """
    if ready.values is not None:
        return read_known_value(ready, message)
    words = [match.span() for match in _WORD.finditer(message.folded.text)]
    live = _live_name(ready, message, words)
    misspelt: ReadValue | None = None
    unknown: ReadValue | None = None
    for value, span in _by_phrase(ready, message):
        if value in ready.value_of:
            if live is not None and live[1][0] == span[0] and live[1][1] > span[1]:
                return live
            return ready.value_of[value], span
        known = known_value(ready, value)
        if known is not None:
            misspelt = misspelt or (known, span)
        unknown = unknown or (cased(message.text(span), ready.spec), span)
        if not ready.spec.live:
            break
    return live or misspelt or _misspelt_live_name(ready, message, words) or unknown


def _by_phrase(ready: PreparedSpec, message: ArgumentMessage) -> Iterator[tuple[str, Offsets]]:
    for phrase in ready.phrases:
        for match in phrase.matches(message.folded.text):
            groups = match.groupdict()
            for group in ("quoted", "name", "listed"):
                if groups.get(group) is None:
                    continue
                word = groups[group].strip(_QUOTES)
                if not word or word in ready.spec.stop or word.isdecimal():
                    continue
                start = match.start(group) + groups[group].index(word)
                yield word, message.span_of(start, start + len(word))


def _live_name(
    ready: PreparedSpec, message: ArgumentMessage, words: Sequence[Offsets]
) -> ReadValue | None:
    """Return a live name anywhere in the message: after an announcing word, else the longest."""
    live = ready.spec.live
    if not live:
        return None
    text = message.folded.text
    best: tuple[bool, int, ReadValue] | None = None
    for at, (start, _) in enumerate(words):
        for length in range(min(_MOST_WORDS, len(words) - at), 0, -1):
            end = words[at + length - 1][1]
            said = text[start:end]
            # A name does not span the end of a sentence.
            value = ready.value_of.get(said) or ready.value_of.get(said.rpartition(".")[2])
            if value in live and not message.is_taken(message.span_of(start, end)):
                announced = at > 0 and text[slice(*words[at - 1])] in _BEFORE
                read: ReadValue = (value, message.span_of(start, end))
                if best is None or (announced, length) > best[:2]:
                    best = (announced, length, read)
                break
    return None if best is None else best[2]


def _misspelt_live_name(
    ready: PreparedSpec, message: ArgumentMessage, words: Sequence[Offsets]
) -> ReadValue | None:
    """Return the first live name that is written with a typing error."""
    live = ready.spec.live
    text = message.folded.text
    for start, end in words if live else ():
        said = text[start:end].rpartition(".")[2]
        if len(said) >= LEAST_LETTERS and said not in ready.spec.stop:
            value = known_value(ready, said)
            if value in live:
                return value, message.span_of(start, end)
    return None


def read_known_value(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Return the first known value anywhere in the message, allowing one typing error."""
    if ready.values is None:
        return None
    text = message.folded.text
    match = ready.values.search(text)
    if match is not None:
        return ready.value_of[match[0]], message.span_of(*match.span())
    seen: set[str] = set()
    for match in re.finditer(r"(?<![\w-])[^\W\d_]{4,40}(?![\w-])", text):
        if match[0] in seen:
            continue
        seen.add(match[0])
        value = known_value(ready, match[0])
        if value is not None:
            return value, message.span_of(*match.span())
    return None


def known_value(ready: PreparedSpec, word: str) -> str | None:
    """Return the known value that a word stands for, allowing one typing error."""
    if word in ready.value_of:
        return ready.value_of[word]
    if len(word) < LEAST_LETTERS - 1 or len(word) > 100:
        return None
    near = nearest_word(
        word, [value_word for value_word in ready.value_of if len(value_word) >= LEAST_LETTERS]
    )
    return None if near is None else ready.value_of[near]


def cased(text: str, spec: ArgumentSpec) -> str:
    """Return an unknown name in the case that its parameter requires."""
    if spec.case == "title":
        return text[:1].upper() + text[1:]
    return {"lower": text.lower, "upper": text.upper, "": text.strip}[spec.case]()
