"""Messages that only mention what a pack is about.

"Relations were on the agenda" has the word that all requests for relations have, and asks for
nothing. The files hold such sentences in eight languages, with a gap for the word; the gap is
filled with the topics of each pack: the words that are typical of the prompts of one intent. Our
own work, written without looking at the messages of any benchmark.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

from toolgate.intents.semantic.background.lines import message_lines, variants

__all__ = ["Prompts", "mentions_of"]

Prompts: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""Example prompts by language and intent."""

_GAP: Final = "{}"

_TOPICS: Final = 3
"""Most topics of an intent in a language (chosen)."""

_LONGEST: Final = 3
"""Most words of a topic (chosen): "liste de valeurs"."""

_SHORTEST: Final = 4
"""Fewest letters of the first and last word of a topic (chosen): others are articles and such."""

_FEWEST: Final = 3
"""Fewest prompts of an intent in a language that tell what it is about (chosen)."""

_LEAST: Final = 0.1
"""Smallest share of an intent's prompts that have a topic (chosen)."""

_LONGER: Final = 0.5
"""A longer phrase is the topic if this share of the prompts with a part of it have it (chosen)."""

_USUAL: Final = 20
"""How much the share of everyday messages with a phrase counts against it (chosen)."""

_STEP: Final = 7
"""Topics take turns in steps of this many, so that each meets sentences of all kinds (chosen)."""

_WORDS: Final = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")

_HAN: Final = re.compile(r"[\u3400-\u9fff]")


def mentions_of(
    prompts: Prompts, *, everyday: Sequence[str], size: int
) -> tuple[tuple[str, int], ...]:
    """Return messages that only mention the topics of a pack, with the numbers of their lines.

    Args:
        prompts: The prompts of the pack; those in other languages than the files are ignored.
        everyday: Messages about something else: a phrase that is common in them is no topic.
        size: Largest number of messages.
    """
    usual = _shares(tuple(everyday))
    made: list[tuple[str, int]] = []
    first = 0
    for language, by_intent in sorted(prompts.items()):
        sentences = _sentences(language or "en")
        topics = _topics(by_intent, usual)
        if topics and sentences:
            made += [
                (sentence.replace(_GAP, topics[at * _STEP % len(topics)]), first + line)
                for at, (sentence, line) in enumerate(sentences)
            ]
            first += sentences[-1][1] + 1
    size = min(size, len(made))
    return tuple(made[k * len(made) // size] for k in range(size))


def _topics(by_intent: Mapping[str, Sequence[str]], usual: Mapping[str, float]) -> list[str]:
    """Return the phrases that are typical of the prompts of one intent, the intents in turn.

    Args:
        by_intent: The prompts in one language.
        usual: The share of everyday messages that have a phrase.
    """
    shares = {
        intent: _shares(tuple(texts))
        for intent, texts in by_intent.items()
        if len(texts) >= _FEWEST
    }
    found: list[list[str]] = []
    for intent, own in shares.items():
        others = [share for name, share in shares.items() if name != intent]
        scores = {
            phrase: share
            - max((other.get(phrase, 0.0) for other in others), default=0.0)
            - _USUAL * usual.get(phrase, 0.0)
            for phrase, share in own.items()
            if share >= _LEAST
        }
        found.append(_best(scores, own))
    most = max(map(len, found), default=0)
    return [chosen[k] for k in range(most) for chosen in found if k < len(chosen)]


def _best(scores: Mapping[str, float], shares: Mapping[str, float]) -> list[str]:
    """Return the phrases with the highest scores, none of them part of another."""
    chosen: list[str] = []
    for phrase in sorted(scores, key=lambda each: (-scores[each], each)):
        if scores[phrase] <= 0 or len(chosen) == _TOPICS:
            break
        longer = [
            each for each in scores if phrase in each and shares[each] >= _LONGER * shares[phrase]
        ]
        # The last key: the order of a set, and so of `scores`, differs from process to process.
        best = min(longer, key=lambda each: (-len(each), -shares[each], each))
        if not any(best in each or each in best for each in chosen):
            chosen.append(best)
    return chosen


@lru_cache(maxsize=4)
def _shares(texts: tuple[str, ...]) -> Mapping[str, float]:
    """Return the share of texts that have a phrase; cached, since packs share the everyday ones."""
    counts = Counter(phrase for text in texts for phrase in _phrases(text))
    return {phrase: count / len(texts) for phrase, count in counts.items()}


def _phrases(text: str) -> Iterable[str]:
    """Return the distinct phrases of a text that may be a topic."""
    words = _WORDS.findall(text.lower())
    found: set[str] = set()
    for at, word in enumerate(words):
        if _HAN.match(word):
            # No blanks between words: any two to four characters may be one.
            found.update(
                word[start : start + length]
                for length in range(2, 5)
                for start in range(len(word) - length + 1)
            )
            continue
        for count in range(1, min(_LONGEST, len(words) - at) + 1):
            phrase = words[at : at + count]
            if min(len(phrase[0]), len(phrase[-1])) >= _SHORTEST:
                found.add(" ".join(phrase))
    return found


@lru_cache(maxsize=16)
def _sentences(language: str) -> tuple[tuple[str, int], ...]:
    """Return the sentences with a gap in a language, with the numbers of their lines."""
    file = files(__name__) / f"{language}.txt"
    if not file.is_file():
        return ()
    return tuple(
        (text, at) for at, line in enumerate(message_lines(file)) for text in variants(line)
    )
