"""One function per kind of value: finds it in a message and returns it with its offsets."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time
from typing import Final
from zoneinfo import ZoneInfo

from toolgate.intents.arguments.expressions import (
    BEFORE_AMOUNT,
    CALLED,
    COUNTS,
    EMAIL,
    NAMED,
    NO_COUNT_BEFORE,
    ONE_PERIOD,
    PATH,
    PERIOD,
    SECONDS,
    THING_AFTER,
    UNIT_DAYS,
    UNIT_FOLLOWS,
    YES_WORDS,
)
from toolgate.intents.arguments.links import read_link
from toolgate.intents.arguments.lists import read_list
from toolgate.intents.arguments.message import ArgumentMessage, Offsets, ReadValue
from toolgate.intents.arguments.names import read_known_value, read_name
from toolgate.intents.arguments.prepared_spec import PreparedSpec, name_words
from toolgate.intents.base import ArgumentKind, ArgumentSpec
from toolgate.intents.dates.parser import DateMatch, Moment
from toolgate.intents.dates.vocabulary import NUMBERS, TIME_UNITS, UNITS


# Readers
def _read_date(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    announced = message.announced.get(ready.spec.name)
    announced_starts = [dated.start for dated in message.announced.values()]
    for dated in [announced] if announced else message.dates:
        if announced is None and dated.start in announced_starts:
            continue
        if any(start < dated.end and dated.start < end for start, end in message.paired):
            continue
        value = date_value(dated, ready.spec, message)
        if value is not None:
            return value, (dated.start, dated.end)
    return None


def date_value(dated: DateMatch, spec: ArgumentSpec, message: ArgumentMessage) -> str | None:
    """Return a date in its parameter's format; None if it does not fit, such as an open end."""
    moment: Moment | None = dated.since
    if spec.part == "day":
        if dated.since is None or dated.last_day != dated.since:
            return None
    elif spec.part == "until":
        moment = dated.last_day if spec.inclusive else dated.until
        if dated.until is not None and spec.past:
            until = dated.until
            today = message.today
            reached = until.date() if isinstance(until, datetime) else until
            if reached > (today.date() if isinstance(today, datetime) else today):
                return None
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if spec.form == "date-time":
        zone = UTC if message.zone == "UTC" else ZoneInfo(message.zone)
        try:
            first = datetime.combine(moment, time(), zone).astimezone(UTC)
        except OverflowError:
            return None
        return first.strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.isoformat()


def _read_count(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    text = message.folded.text
    for number, pattern in enumerate(ready.patterns):
        for match in pattern.finditer(text):
            value = _count(match)
            inner = match.span("number") if match["number"] else match.span("few")
            if value is None or UNIT_FOLLOWS.match(text, inner[1]):
                continue
            # A bare number before a noun may be a year, or the number of a version or page.
            if number > len(COUNTS) and (
                1900 <= value <= 2199 or NO_COUNT_BEFORE.search(text, 0, inner[0])
            ):
                continue
            span = message.span_of(*inner)
            if message.is_taken(span):
                continue
            if any(dated.start < span[1] and span[0] < dated.end for dated in message.dates):
                continue
            bounded = within_limits(value, ready.spec)
            if bounded is not None:
                return bounded, message.span_of(match.start(), inner[1])
    return None


def _count(match: re.Match[str]) -> int | None:
    if match["few"]:
        return NUMBERS[match["few"]]
    plain = re.sub(r"[,.' ]", "", match["number"])
    return int(plain) if len(plain) <= 9 else None


def within_limits(value: float, spec: ArgumentSpec) -> float | None:
    """Return the value, lowered to the maximum; None if it is below the minimum."""
    if spec.minimum is not None and value < spec.minimum:
        return None
    if spec.maximum is not None and value > spec.maximum:
        return type(value)(spec.maximum)
    return value


def _read_period(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Read the length of a period in the parameter's own unit, rounded up."""
    unit_name = next(
        (word for word in [*name_words(ready.spec.name), *ready.spec.words] if word in SECONDS),
        "days",
    )
    for pattern in (PERIOD, ONE_PERIOD):
        for match in pattern.finditer(message.folded.text):
            count = _count(match) if pattern is PERIOD else 1
            unit = match["unit"]
            days = 365 if UNITS.get(unit) == "year" else UNIT_DAYS.get(UNITS.get(unit, ""), 0)
            seconds = TIME_UNITS.get(unit, days * 86400)
            if count is None or not seconds:
                continue
            value = within_limits(int(-(-count * seconds // SECONDS[unit_name])), ready.spec)
            if value is not None:
                return value, message.span_of(*match.span())
    return None


def _read_number(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Read a number next to the words that announce it, in the message or in its translation."""
    for match in _numbers(ready, message.folded.text):
        span = message.span_of(*match.span())
        if message.is_taken(span) or _is_amount(message.folded.text, match.span("value")):
            continue
        value = _number(ready.spec, match["value"])
        if value is not None:
            return value, span
    for match in _numbers(ready, message.english):
        raw = match["value"]
        value = _number(ready.spec, raw)
        written = re.search(rf"(?<![\w.,:/-]){raw}(?![\w]|[.,:/-]\d)", message.folded.text)
        if value is None or written is None or _is_amount(message.folded.text, written.span()):
            continue
        span = message.span_of(*written.span())
        if not message.is_taken(span):
            return value, span
    return None


def _is_amount(text: str, number: Offsets) -> bool:
    """Whether a number in a folded text says how many things there are: `of 20 screws`."""
    # Eight characters hold the longest word and a few blanks.
    before = text[max(number[0] - 8, 0) : number[0]]
    return bool(BEFORE_AMOUNT.search(before) and THING_AFTER.match(text, number[1]))


def _numbers(ready: PreparedSpec, text: str) -> Iterator[re.Match[str]]:
    return (match for pattern in ready.patterns for match in pattern.finditer(text))


def _number(spec: ArgumentSpec, raw: str) -> float | None:
    if spec.kind == "integer" and "." in raw:
        return None
    return within_limits(float(raw) if spec.kind == "number" else int(raw), spec)


def _read_string(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Read a quoted text: after the words that announce it, else the next unused one."""
    words = ready.words
    if words:
        called = "|".join(CALLED) if "name" in name_words(ready.spec.name) else "(?!)"
        for match in re.finditer(rf"(?<!\w)(?:{words}|{called}){NAMED}", message.folded.text):
            at = message.folded.start(match.end())
            for text, span in message.quoted:
                if span[0] == at and not message.is_taken(span):
                    return text, span
    for text, span in message.quoted:
        if not message.is_taken(span):
            return text, span
    if words:
        called = "|".join(CALLED) if "name" in name_words(ready.spec.name) else "(?!)"
        pattern = rf"(?<!\w)(?:(?:{words})\s*[:=]|{called})\s*(?P<value>\w[\w.-]*\w|\w)"
        match = re.search(pattern, message.folded.text)
        if match is not None:
            span = message.span_of(*match.span("value"))
            return message.text(span), span
    return None


def _read_boolean(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    text = message.folded.text
    for number, pattern in enumerate(ready.patterns):
        match = pattern.search(text)
        if match is not None and not message.is_taken(message.span_of(*match.span())):
            value = match["said"] in YES_WORDS if number == 0 else number != 1
            return value, message.span_of(*match.span())
    return None


def _read_email(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    del ready
    return _first(EMAIL.finditer(message.source), message)


def _read_url(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    del ready
    return next(((url, span) for url, span in message.urls if not message.is_taken(span)), None)


def _read_path(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    del ready
    for text, span in message.quoted:
        if (
            not message.is_taken(span)
            and re.search(r"[/\\]|\.\w{1,8}$", text)
            and "://" not in text
        ):
            return text, span
    # File names inside a URL or email address are part of that address.
    addresses = [span for _, span in message.urls]
    addresses += [match.span() for match in EMAIL.finditer(message.source)]
    for match in PATH.finditer(message.source):
        text = match[0].rstrip(".")
        span = match.start(), match.start() + len(text)
        inside = any(start < span[1] and span[0] < end for start, end in addresses)
        if not inside and not message.is_taken(span) and any(map(str.isalpha, text)):
            return text, span
    return None


def _first(matches: Iterator[re.Match[str]], message: ArgumentMessage) -> ReadValue | None:
    return next(
        ((match[0], match.span()) for match in matches if not message.is_taken(match.span())), None
    )


READERS: Final[dict[ArgumentKind, Callable[[PreparedSpec, ArgumentMessage], ReadValue | None]]] = {
    "boolean": _read_boolean,
    "choice": read_known_value,
    "count": _read_count,
    "date": _read_date,
    "email": _read_email,
    "integer": _read_number,
    "link": read_link,
    "list": read_list,
    "name": read_name,
    "number": _read_number,
    "path": _read_path,
    "period": _read_period,
    "string": _read_string,
    "url": _read_url,
}
