"""Read the arguments of a tool from a message, with the offsets of each value."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from toolgate.intents.arguments.expressions import CLOSERS, NAMED, NO_WORDS, PAIR, YES_WORDS
from toolgate.intents.arguments.lists import list_items
from toolgate.intents.arguments.message import ArgumentMessage, ReadValue
from toolgate.intents.arguments.names import cased, known_value
from toolgate.intents.arguments.periods import unread_periods
from toolgate.intents.arguments.prepared_spec import PreparedSpec, name_words, prepare_spec
from toolgate.intents.arguments.value_readers import (
    READERS,
    date_value,
    within_limits,
)
from toolgate.intents.base import Argument, ArgumentSpec, MessageSpan
from toolgate.intents.dates.parser import DateMatch, find_dates
from toolgate.intents.text import fold


class ArgumentReader:
    """Reads the arguments of one intent or tool. Immutable; created once."""

    def __init__(
        self,
        specs: Iterable[ArgumentSpec],
        lists: Mapping[str, Iterable[str]] | None = None,
        *,
        translate: Callable[[str], str] | None = None,
    ) -> None:
        """Compile the specs.

        Args:
            specs: How the parameters are filled.
            lists: Lists that their phrases may refer to.
            translate: Returns the words of a message in English; empty if it is English. None:
                numbers are only read next to words of the specs as they are written there.

        Raises:
            ValueError: A phrase of a spec is invalid.
        """
        self.specs = tuple(specs)
        self._translate = translate
        self._ready = [prepare_spec(spec, lists or {}) for spec in self.specs]

    @property
    def reads_dates(self) -> bool:
        """Whether any argument is a date."""
        return any(spec.kind == "date" for spec in self.specs)

    def unread(self, text: str, *, today: date, zone: str = "UTC") -> tuple[str, ...]:
        """Return the parts that limit a period but cannot be read as a date, in order."""
        if not self.reads_dates:
            return ()
        spans = unread_periods(ArgumentMessage(text, today, zone))
        return tuple(text[start:end].strip() for start, end in spans)

    def read(self, text: str, *, today: date, zone: str = "UTC") -> tuple[Argument, ...]:
        """Return the arguments in a message, with defaults, in the order of the specs."""
        if not self.specs:
            return ()
        message = ArgumentMessage(text, today, zone, self._translate)
        if self.reads_dates:
            # A date inside "between the merge and today" is one end of something that was not
            # understood.
            unread = unread_periods(message)
            message.dates = [
                dated
                for dated in message.dates
                if not any(start < dated.start < end for start, end in unread)
            ]
        pairs = _pairs(message, self._ready)
        # Values given by name are read first, so that no reader uses the same characters again.
        message.paired = [span for _, span in pairs.values()]
        message.taken = list(message.paired)
        message.announced = _announced(message, self._ready)
        arguments: list[Argument] = []
        for ready in self._ready:
            spec = ready.spec
            pair = pairs.get(spec.name)
            read = pair or READERS[spec.kind](ready, message)
            if read is None and spec.default is None:
                continue
            if read is None:
                arguments.append(Argument(name=spec.name, value=spec.default, kind="default"))
                continue
            value, (start, end) = read
            message.taken.append((start, end))
            arguments.append(
                Argument(
                    name=spec.name,
                    value=value,
                    spans=(MessageSpan(start=start, end=end),),
                    text=text[start:end],
                    kind="pair" if pair else spec.kind,
                )
            )
        return tuple(arguments)


# Values given by parameter name
def _pairs(message: ArgumentMessage, ready: Sequence[PreparedSpec]) -> dict[str, ReadValue]:
    """Return the values that are given by parameter name."""
    source = message.source
    # Every pair contains one of these signs, and most messages contain none.
    if "=" not in source and ":" not in source and "--" not in source:
        return {}
    by_key = {_key(prepared.spec.name): prepared for prepared in ready}
    pairs: dict[str, ReadValue] = {}
    at = 0
    while (match := PAIR.search(source, at)) is not None:
        prepared = by_key.get(_key(match["key"]))
        dashed = match[0].startswith("--")
        # `limit 5` without dashes is left to the readers: a space alone does not make a pair. The
        # search continues right after the key, since the value may itself be a key. After the colon
        # of a list come several words.
        is_list = prepared is not None and prepared.spec.kind == "list" and match["sign"] == ":"
        if prepared is None or is_list or (match["blank"] and not dashed):
            at = match.end("key")
            continue
        at = match.end()
        raw = match["value"]
        quoted = len(raw) > 1 and raw[0] in "\"'`" and raw[-1] == raw[0]
        text = raw[1:-1] if quoted else raw.rstrip(CLOSERS)
        value = _coerced(prepared, text, message)
        # The first usable value of a parameter is used.
        if value is not None and prepared.spec.name not in pairs:
            end = match.end() if quoted else match.start("value") + len(text)
            pairs[prepared.spec.name] = value, (match.start(), end)
    return pairs


def _key(name: str) -> str:
    return name.casefold().replace("-", "_")


def _coerced(prepared: PreparedSpec, text: str, message: ArgumentMessage) -> object:
    """Convert a text to the type of its parameter; None if it does not fit."""
    spec = prepared.spec
    word = fold(text).text.strip()
    if spec.kind in {"count", "integer", "period"}:
        return within_limits(int(word), spec) if re.fullmatch(r"-?\d{1,15}", word) else None
    if spec.kind == "number":
        plain = re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", word)
        return within_limits(float(word), spec) if plain else None
    if spec.kind == "boolean":
        return True if word in YES_WORDS else False if word in NO_WORDS else None
    if spec.kind == "date":
        dates = find_dates(text, today=message.today, zone=message.zone)
        return date_value(dates[0], spec, message) if len(dates) == 1 else None
    if spec.kind == "choice":
        return known_value(prepared, word)
    if spec.kind == "name":
        return known_value(prepared, word) or cased(text, spec) or None
    if spec.kind == "list":
        return list_items(text) or None
    return text or None


def _announced(message: ArgumentMessage, ready: Sequence[PreparedSpec]) -> dict[str, DateMatch]:
    """Return the dates that follow the name of their parameter: `end date 2025-10-15`."""
    announced: dict[str, DateMatch] = {}
    for prepared in ready:
        if prepared.spec.kind != "date" or (
            len(name_words(prepared.spec.name)) < 2 and not prepared.spec.words
        ):
            continue
        for dated in message.dates:
            # The 60 characters before a date are enough for the name of a parameter (chosen).
            before = message.source[max(0, dated.start - 60) : dated.start]
            if re.search(rf"(?<!\w)(?:{prepared.words}){NAMED}$", fold(before).text):
                announced[prepared.spec.name] = dated
                break
    return announced
