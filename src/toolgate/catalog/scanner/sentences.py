"""Finds sentences that steer a model without matching a rule.

Rules know phrases; attackers use others. The ingredients of such a sentence are harder to avoid:
something valuable, an order to do something with it, and often a reason to keep quiet.
Descriptions of honest tools contain each of them, too, but seldom together.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolgate.catalog.scanner.signals import Group, Signal, load_signals

QUARANTINE_WEIGHT: Final = 1.0
"""Total weight from which a sentence is suspicious on its own."""

STEERING_WEIGHT: Final = 0.85
"""Total weight from which it is suspicious together with another finding."""

_BESIDE: Final = 0.5
"""Factor for the weight of a signal in an adjacent sentence."""

_MORE: Final = 0.3
"""Factor for the weights of further signals of a group."""

_MOST: Final = 3
"""Signals of a group that count."""

_LEAST: Final = 8
"""Shortest meaningful sentence in characters."""

_WITHOUT: Final = 0.3
"""Weight of signals other than directives from which directives are searched for."""

_END: Final = re.compile(
    r"(?<=[.!?])[\"')]{0,2}\s{1,40}(?=[\"'`(\[<]?[A-Z0-9`(<\[])|\n{1,40}|(?<=[。！？])"
)
"""The end of a sentence; `.env` and `e.g. this` contain none."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence and its signals."""

    text: str
    """The normalized text."""

    signals: tuple[Signal, ...] = ()
    """Its signals."""


@dataclass(frozen=True, kw_only=True)
class Steering:
    """A sentence that steers a model."""

    sentence: Sentence
    """The sentence with the highest weight."""

    weight: float
    """Total weight; `QUARANTINE_WEIGHT` or more is suspicious."""

    says: tuple[str, ...]
    """The reasons, highest weight first."""


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of a plain text, with their signals."""
    lowered = text.lower()
    signals = load_signals()
    things = [
        signal for signal in signals if signal.group != "directive" and signal.may_be_in(lowered)
    ]
    parts = [part for part in _END.split(text) if len(part) >= _LEAST]
    groups = [_signals(things, part, first=at == 0) for at, part in enumerate(parts)]
    if any(groups):
        directives = [
            signal
            for signal in signals
            if signal.group == "directive" and signal.may_be_in(lowered)
        ]
        heavy = [sum(signal.weight for signal in group) >= _WITHOUT for group in groups]
        for at, part in enumerate(parts):
            if any(heavy[max(0, at - 1) : at + 2]):
                groups[at] = [*groups[at], *_signals(directives, part, first=at == 0)]
    return tuple(
        Sentence(text=part, signals=tuple(group)) for part, group in zip(parts, groups, strict=True)
    )


def with_signals(sentence: Sentence, more: Iterable[Signal]) -> Sentence:
    """Add signals that no expression can find to a sentence; directives then count, too."""
    present = {signal.id for signal in sentence.signals}
    directives = [
        signal
        for signal in load_signals()
        if signal.group == "directive" and signal.id not in present
    ]
    # Whether it is the first sentence of its text is unknown here; but a first sentence that
    # mentions another server's tool does not describe its own.
    directive_signals = _signals(directives, sentence.text, first=False)
    return replace(sentence, signals=(*sentence.signals, *more, *directive_signals))


def steering(sentences: Sequence[Sentence]) -> Steering | None:
    """Return the most steering sentence; None if none has signals of several groups."""
    best: Steering | None = None
    for at, sentence in enumerate(sentences):
        if not sentence.signals:
            continue
        groups: dict[Group, dict[str, float]] = {}
        says: dict[str, float] = {}
        beside = (*sentences[max(0, at - 1) : at], *sentences[at + 1 : at + 2])
        for share, neighbour in ((1.0, sentence), *((_BESIDE, other) for other in beside)):
            for signal in neighbour.signals:
                weights = groups.setdefault(signal.group, {})
                weights[signal.id] = max(weights.get(signal.id, 0.0), share * signal.weight)
                says[signal.says] = max(says.get(signal.says, 0.0), share * signal.weight)
        if len(groups) < 2:
            continue
        weight = _weight(groups)
        if best is None or weight > best.weight:
            ranked = sorted(says, key=lambda words: -says[words])
            best = Steering(sentence=sentence, weight=weight, says=tuple(ranked[:3]))
    return best


def _weight(groups: Mapping[Group, Mapping[str, float]]) -> float:
    total = 0.0
    for weights in groups.values():
        ranked = sorted(weights.values(), reverse=True)[:_MOST]
        total += ranked[0] + _MORE * sum(ranked[1:])
    return total


def _signals(signals: Iterable[Signal], sentence: str, *, first: bool) -> list[Signal]:
    lowered = sentence.lower()
    return [
        signal
        for signal in signals
        if not (first and signal.later) and signal.is_in(sentence, lowered)
    ]
