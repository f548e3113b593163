"""Reading the arguments of a tool from a message, each with the place it was read from."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from toolgate.intents.base import Argument, ArgumentKind, ArgumentSpec, MessageSpan
from toolgate.intents.dates.parser import DateMatch, Moment, dates_in, find_dates
from toolgate.intents.dates.vocabulary import NUMBERS, ROLLING, TIME_UNITS, UNITS
from toolgate.intents.phrases import Phrase, compile_phrase
from toolgate.intents.spelling import LEAST_LETTERS, nearest_word
from toolgate.intents.text import Folded, fold

__all__ = ["ArgumentReader", "name_words"]

_Place: TypeAlias = tuple[int, int]
_Read: TypeAlias = tuple[object, _Place]
"""A value and where it was read, in offsets of the source."""

_PAIR: Final = re.compile(
    r"""
    (?<![\w-])(?:--?)?["'`]?(?P<key>[A-Za-z_][\w.-]{0,63})["'`]?
    (?:\s?(?P<sign>[=:])\s?|(?P<blank>[ ]))
    (?P<value>"[^"\n]{0,500}"|'[^'\n]{0,500}'|`[^`\n]{0,500}`|[^\s,;"'`]{1,500})
    """,
    re.VERBOSE,
)
_QUOTED: Final = re.compile(
    "\"([^\"\n]{1,500})\"|(?<!\\w)'([^'\n]{1,500})'(?!\\w)|`([^`\n]{1,500})`"
    "|\u201c([^\u201d\n]{1,500})\u201d|\u201e([^\u201c\u201d\n]{1,500})[\u201c\u201d]"
    "|\u00ab\\s?([^\u00bb\n]{1,500}?)\\s?\u00bb|(?<!\\w)\u2018([^\u2019\n]{1,500})\u2019(?!\\w)"
    "|\u300c([^\u300d\n]{1,500})\u300d"
)
_EMAIL: Final = re.compile(
    r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?![\w@])"
)
_URL: Final = re.compile(
    r"(?<!\w)(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`\u201c\u201d\u00ab\u00bb]{1,2000}",
    re.IGNORECASE,
)
_PATH: Final = re.compile(
    r"(?<![\w/.:@~-])(?:"
    r"(?:~|\.{1,2})?(?:/[\w.@+~%=-]+)+/?"
    r"|[A-Za-z]:\\[^\s:*?\"<>|]{1,500}"
    r"|[\w-]+(?:/[\w.@+~-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}"
    r"|[\w.-]+(?:/[\w.@+~-]+)+/?"
    r")(?![\w@])"
)
_NUMBER: Final = r"(?P<number>\d{1,3}(?:[,.' ]\d{3})+(?!\d)|\d{1,9})(?![\w%]|[.,:/]\d)"
_FEW: Final = "|".join(
    sorted(
        (word for word, value in NUMBERS.items() if value > 1 and word != "once"),
        key=lambda word: -len(word),
    )
)
_COUNTED: Final = rf"(?:{_NUMBER}|(?P<few>{_FEW})(?!\w))"
_TOP: Final = (
    r"last|latest|newest|recent|top|first|best|letzten?|neuesten?|jungsten?|ersten?|oberste"
    r"|derniers|dernieres|premiers|premieres|ultimos|ultimas|primeros|primeras|laatste|eerste"
)
_LIMIT: Final = (
    r"limit(?:ed)?(?: (?:of|to))?|max(?:imum|imal)?(?: of)?|at most|up to|no more than|only"
    r"|not more than|hochstens|nur|au plus|maximum de|como maximo|hasta|solo|hooguit"
)
_COUNTS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<!\w)(?:{_TOP})(?:\s+|-)?{_COUNTED}",
        rf"(?<![\w.,:/-]){_COUNTED}\s+(?:most\s+|plus\s+|mas\s+)?(?:{_TOP})(?!\w)",
        rf"(?<!\w)(?:{_LIMIT})\s*[:=]?\s*{_COUNTED}",
    )
)
_TIME_UNITS: Final = "|".join(
    sorted({*UNITS, *TIME_UNITS, "nights", "evenings"}, key=lambda word: -len(word))
)
_UNIT_FOLLOWS: Final = re.compile(
    rf"\s+(?:(?:full|whole|business|calendar|working|{'|'.join(sorted(ROLLING))})\s+)?(?:{_TIME_UNITS})(?!\w)"
)
_NO_COUNT_BEFORE: Final = re.compile(
    r"(?:version|release|no|nr|number|numero|nummer|v|#|page|id|step|port|chapter|part)[\s.:]*$"
)
_PERIOD: Final = re.compile(
    rf"(?<![\w.,:/-]){_COUNTED}\s+(?:(?:{'|'.join(sorted(ROLLING))})\s+)?"
    rf"(?P<unit>{_TIME_UNITS})(?!\w)"
)
_ONE_PERIOD: Final = re.compile(
    r"(?<!\w)(?:past|last|letzten?|letztes|vergangenen?|derniere?|ultim[oa]|afgelopen)\s+"
    rf"(?P<unit>{_TIME_UNITS})(?!\w)"
)
_UNIT_DAYS: Final = {"day": 1, "week": 7, "weekend": 2, "month": 30, "quarter": 91, "half": 182}
_SECONDS: Final = {
    "second": 1,
    "seconds": 1,
    "minute": 60,
    "minutes": 60,
    "hour": 3600,
    "hours": 3600,
    "day": 86400,
    "days": 86400,
    "week": 604800,
    "weeks": 604800,
    "month": 2592000,
    "months": 2592000,
    "year": 31536000,
    "years": 31536000,
}
_YES: Final = frozenset(["true", "yes", "on", "1", "ja", "oui", "si", "enabled", "an", "ein"])
_NO: Final = frozenset(["false", "no", "off", "0", "nein", "non", "disabled", "aus", "nee"])
_WITH: Final = (
    r"with|include|including|includes|enable|enabled|also|and|use|using|plus|only|mit|inklusive"
    r"|avec|inclure|con|incluir|incluye|met"
)
_WITHOUT: Final = (
    r"without|exclude|excluding|disable|disabled|skip|omit|no|not|don't|dont|do not|never|ignore"
    r"|ohne|keine?|sans|pas de|sin|zonder|geen"
)
_FILLER: Final = r"(?:(?:the|any|all|die|den|les|las|los|include|show|use|also)\s+){0,2}"
_NAMED: Final = (
    r"(?:\s+(?:is|are|of|to|as|called|named|with|ist|namens|est|appele|es|llamado))?\s*[:=#]?\s*"
)
_VERBS: Final = frozenset(
    [
        "include",
        "includes",
        "show",
        "with",
        "is",
        "has",
        "enable",
        "enabled",
        "use",
        "only",
        "allow",
    ]
)
"""Words of the name of a switch that say nothing about what it switches."""

_CALLED: Final = ("called", "named", "namens", "genannt", "appele", "nomme", "llamado", "llamada")
_CLOSERS: Final = ".,;:!?)]}\u2026"


@dataclass(frozen=True)
class _PreparedSpec:
    """A spec with what was prepared for it once."""

    spec: ArgumentSpec
    phrases: tuple[Phrase, ...]
    value_of: Mapping[str, str]
    """Folded words of values, with the value."""
    values: re.Pattern[str] | None
    words: str
    """The words that announce it, as alternatives of an expression."""
    patterns: tuple[re.Pattern[str], ...]
    """What its reader looks for, best first."""


class ArgumentReader:
    """Reads the arguments of one intent or tool. Immutable, made once."""

    def __init__(
        self,
        specs: Iterable[ArgumentSpec],
        lists: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Make specs ready.

        Raises:
            ValueError: A phrase of a spec does not hold.
        """
        self.specs = tuple(specs)
        self._ready = [_ready(spec, lists or {}) for spec in self.specs]

    def read(self, text: str, *, today: date, zone: str = "UTC") -> tuple[Argument, ...]:
        """The arguments that a message has, and defaults, in the order of the specs."""
        if not self.specs:
            return ()
        message = _Message(text, today, zone)
        pairs = _pairs(message, self._ready)
        message.paired = [span for _, span in pairs.values()]
        message.taken = list(message.paired)
        message.announced = _announced(message, self._ready)
        arguments: list[Argument] = []
        for ready in self._ready:
            spec = ready.spec
            pair = pairs.get(spec.name)
            read = pair or _READERS[spec.kind](ready, message)
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


class _Message:
    """A message in the forms that readers need, each made when it is first used."""

    def __init__(self, source: str, today: date, zone: str) -> None:
        self.source = source
        self.today = today
        self.zone = zone
        self.taken: list[_Place] = []
        self.paired: list[_Place] = []
        self.announced: dict[str, DateMatch] = {}

    @cached_property
    def folded(self) -> Folded:
        return fold(self.source)

    @cached_property
    def dates(self) -> list[DateMatch]:
        return list(dates_in(self.folded, today=self.today, zone=self.zone))

    @cached_property
    def quoted(self) -> list[tuple[str, _Place]]:
        return [
            (text, match.span())
            for match in _QUOTED.finditer(self.source)
            if (text := next(group for group in match.groups() if group is not None)).strip()
        ]

    @cached_property
    def urls(self) -> list[tuple[str, _Place]]:
        urls: list[tuple[str, _Place]] = []
        for match in _URL.finditer(self.source):
            text = match[0].rstrip(_CLOSERS)
            if match[0][len(text) : len(text) + 1] == ")" and text.count("(") > text.count(")"):
                text += ")"
            urls.append((text, (match.start(), match.start() + len(text))))
        return urls

    def span_of(self, start: int, end: int) -> _Place:
        """A piece of the folded text as one of the source."""
        return self.folded.start(start), self.folded.end(end)

    def text(self, span: _Place) -> str:
        return self.source[span[0] : span[1]]

    def is_taken(self, span: _Place) -> bool:
        return any(start < span[1] and span[0] < end for start, end in self.taken)


# Values given by the name of their parameter


def _pairs(message: _Message, ready: Sequence[_PreparedSpec]) -> dict[str, _Read]:
    """Values that are given by the name of their parameter."""
    source = message.source
    if "=" not in source and ":" not in source and "--" not in source:
        return {}
    by_key = {_key(prepared.spec.name): prepared for prepared in ready}
    pairs: dict[str, _Read] = {}
    at = 0
    while (match := _PAIR.search(source, at)) is not None:
        prepared = by_key.get(_key(match["key"]))
        dashed = match[0].startswith("--")
        if prepared is None or (match["blank"] and not dashed):
            at = match.end("key")
            continue
        at = match.end()
        raw = match["value"]
        quoted = len(raw) > 1 and raw[0] in "\"'`" and raw[-1] == raw[0]
        text = raw[1:-1] if quoted else raw.rstrip(_CLOSERS)
        value = _coerced(prepared, text, message)
        if value is not None and prepared.spec.name not in pairs:
            end = match.end() if quoted else match.start("value") + len(text)
            pairs[prepared.spec.name] = value, (match.start(), end)
    return pairs


def _key(name: str) -> str:
    return name.casefold().replace("-", "_")


def _coerced(prepared: _PreparedSpec, text: str, message: _Message) -> object:
    """A value as its parameter wants it; None where it does not fit."""
    spec = prepared.spec
    word = fold(text).text.strip()
    if spec.kind in {"count", "integer", "period"}:
        return _bounded(int(word), spec) if re.fullmatch(r"-?\d{1,15}", word) else None
    if spec.kind == "number":
        plain = re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", word)
        return _bounded(float(word), spec) if plain else None
    if spec.kind == "boolean":
        return True if word in _YES else False if word in _NO else None
    if spec.kind == "date":
        dates = find_dates(text, today=message.today, zone=message.zone)
        return _date_value(dates[0], spec, message) if len(dates) == 1 else None
    if spec.kind == "choice":
        return _known_value(prepared, word)
    if spec.kind == "name":
        return _known_value(prepared, word) or _cased(text, spec) or None
    return text or None


def _announced(message: _Message, ready: Sequence[_PreparedSpec]) -> dict[str, DateMatch]:
    """Dates that stand behind the name of their parameter: `end date 2025-10-15`."""
    announced: dict[str, DateMatch] = {}
    for prepared in ready:
        if prepared.spec.kind != "date" or (
            len(name_words(prepared.spec.name)) < 2 and not prepared.spec.words
        ):
            continue
        for dated in message.dates:
            before = message.source[max(0, dated.start - 60) : dated.start]
            if re.search(rf"(?<!\w)(?:{prepared.words}){_NAMED}$", fold(before).text):
                announced[prepared.spec.name] = dated
                break
    return announced


# Readers


def _read_date(ready: _PreparedSpec, message: _Message) -> _Read | None:
    announced = message.announced.get(ready.spec.name)
    announced_starts = [dated.start for dated in message.announced.values()]
    for dated in [announced] if announced else message.dates:
        if announced is None and dated.start in announced_starts:
            continue
        if any(start < dated.end and dated.start < end for start, end in message.paired):
            continue
        value = _date_value(dated, ready.spec, message)
        if value is not None:
            return value, (dated.start, dated.end)
    return None


def _date_value(dated: DateMatch, spec: ArgumentSpec, message: _Message) -> str | None:
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


def _read_count(ready: _PreparedSpec, message: _Message) -> _Read | None:
    text = message.folded.text
    for number, pattern in enumerate(ready.patterns):
        for match in pattern.finditer(text):
            value = _count(match)
            inner = match.span("number") if match["number"] else match.span("few")
            if value is None or _UNIT_FOLLOWS.match(text, inner[1]):
                continue
            if number > len(_COUNTS) and (
                1900 <= value <= 2199 or _NO_COUNT_BEFORE.search(text, 0, inner[0])
            ):
                continue
            span = message.span_of(*inner)
            if message.is_taken(span):
                continue
            if any(dated.start < span[1] and span[0] < dated.end for dated in message.dates):
                continue
            bounded = _bounded(value, ready.spec)
            if bounded is not None:
                return bounded, message.span_of(match.start(), inner[1])
    return None


def _count(match: re.Match[str]) -> int | None:
    if match["few"]:
        return NUMBERS[match["few"]]
    plain = re.sub(r"[,.' ]", "", match["number"])
    return int(plain) if len(plain) <= 9 else None


def _bounded(value: float, spec: ArgumentSpec) -> float | None:
    """The value inside the limits; None below the least."""
    if spec.minimum is not None and value < spec.minimum:
        return None
    if spec.maximum is not None and value > spec.maximum:
        return type(value)(spec.maximum)
    return value


def _read_period(ready: _PreparedSpec, message: _Message) -> _Read | None:
    """The length of a period in the parameter's own unit, rounded up."""
    unit_name = next(
        (word for word in [*name_words(ready.spec.name), *ready.spec.words] if word in _SECONDS),
        "days",
    )
    for pattern in (_PERIOD, _ONE_PERIOD):
        for match in pattern.finditer(message.folded.text):
            count = _count(match) if pattern is _PERIOD else 1
            unit = match["unit"]
            days = 365 if UNITS.get(unit) == "year" else _UNIT_DAYS.get(UNITS.get(unit, ""), 0)
            seconds = TIME_UNITS.get(unit, days * 86400)
            if count is None or not seconds:
                continue
            value = _bounded(int(-(-count * seconds // _SECONDS[unit_name])), ready.spec)
            if value is not None:
                return value, message.span_of(*match.span())
    return None


def _read_number(ready: _PreparedSpec, message: _Message) -> _Read | None:
    """A number beside the words that announce it."""
    for pattern in ready.patterns:
        for match in pattern.finditer(message.folded.text):
            raw = match["value"]
            if ready.spec.kind == "integer" and "." in raw:
                continue
            if message.is_taken(message.span_of(*match.span())):
                continue
            value = _bounded(float(raw) if ready.spec.kind == "number" else int(raw), ready.spec)
            if value is not None:
                return value, message.span_of(*match.span())
    return None


def _read_name(ready: _PreparedSpec, message: _Message) -> _Read | None:
    for phrase in ready.phrases:
        for match in phrase.matches(message.folded.text):
            groups = match.groupdict()
            for group in ("quoted", "name", "listed"):
                if groups.get(group) is None:
                    continue
                word = groups[group].strip("\"'`\u201c\u201d\u201e\u00ab\u00bb ")
                if not word or word in ready.spec.stop or word.isdecimal():
                    continue
                start = match.start(group) + groups[group].index(word)
                span = message.span_of(start, start + len(word))
                value = _known_value(ready, word) or _cased(message.text(span), ready.spec)
                return value, span
    return None


def _known_value(ready: _PreparedSpec, word: str) -> str | None:
    """The known value that a word stands for, also with one typing error."""
    if word in ready.value_of:
        return ready.value_of[word]
    if len(word) < LEAST_LETTERS - 1 or len(word) > 100:
        return None
    near = nearest_word(
        word, [value_word for value_word in ready.value_of if len(value_word) >= LEAST_LETTERS]
    )
    return None if near is None else ready.value_of[near]


def _cased(text: str, spec: ArgumentSpec) -> str:
    if spec.case == "title":
        return text[:1].upper() + text[1:]
    return {"lower": text.lower, "upper": text.upper, "": text.strip}[spec.case]()


def _read_choice(ready: _PreparedSpec, message: _Message) -> _Read | None:
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
        value = _known_value(ready, match[0])
        if value is not None:
            return value, message.span_of(*match.span())
    return None


def _read_string(ready: _PreparedSpec, message: _Message) -> _Read | None:
    """What stands in quotes: after the words that announce it, else the next one."""
    words = ready.words
    if words:
        called = "|".join(_CALLED) if "name" in name_words(ready.spec.name) else "(?!)"
        for match in re.finditer(rf"(?<!\w)(?:{words}|{called}){_NAMED}", message.folded.text):
            at = message.folded.start(match.end())
            for text, span in message.quoted:
                if span[0] == at and not message.is_taken(span):
                    return text, span
    for text, span in message.quoted:
        if not message.is_taken(span):
            return text, span
    if words:
        called = "|".join(_CALLED) if "name" in name_words(ready.spec.name) else "(?!)"
        pattern = rf"(?<!\w)(?:(?:{words})\s*[:=]|{called})\s*(?P<value>\w[\w.-]*\w|\w)"
        match = re.search(pattern, message.folded.text)
        if match is not None:
            span = message.span_of(*match.span("value"))
            return message.text(span), span
    return None


def _read_boolean(ready: _PreparedSpec, message: _Message) -> _Read | None:
    text = message.folded.text
    for number, pattern in enumerate(ready.patterns):
        match = pattern.search(text)
        if match is not None and not message.is_taken(message.span_of(*match.span())):
            value = match["said"] in _YES if number == 0 else number != 1
            return value, message.span_of(*match.span())
    return None


def _read_email(ready: _PreparedSpec, message: _Message) -> _Read | None:
    del ready
    return _first(_EMAIL.finditer(message.source), message)


def _read_url(ready: _PreparedSpec, message: _Message) -> _Read | None:
    del ready
    return next(((url, span) for url, span in message.urls if not message.is_taken(span)), None)


def _read_path(ready: _PreparedSpec, message: _Message) -> _Read | None:
    del ready
    for text, span in message.quoted:
        if (
            not message.is_taken(span)
            and re.search(r"[/\\]|\.\w{1,8}$", text)
            and "://" not in text
        ):
            return text, span
    addresses = [span for _, span in message.urls]
    addresses += [match.span() for match in _EMAIL.finditer(message.source)]
    for match in _PATH.finditer(message.source):
        text = match[0].rstrip(".")
        span = match.start(), match.start() + len(text)
        inside = any(start < span[1] and span[0] < end for start, end in addresses)
        if not inside and not message.is_taken(span) and any(map(str.isalpha, text)):
            return text, span
    return None


def _first(matches: Iterator[re.Match[str]], message: _Message) -> _Read | None:
    return next(
        ((match[0], match.span()) for match in matches if not message.is_taken(match.span())), None
    )


_READERS: Final[dict[ArgumentKind, Callable[[_PreparedSpec, _Message], _Read | None]]] = {
    "boolean": _read_boolean,
    "choice": _read_choice,
    "count": _read_count,
    "date": _read_date,
    "email": _read_email,
    "integer": _read_number,
    "name": _read_name,
    "number": _read_number,
    "path": _read_path,
    "period": _read_period,
    "string": _read_string,
    "url": _read_url,
}


def _ready(spec: ArgumentSpec, lists: Mapping[str, Iterable[str]]) -> _PreparedSpec:
    value_of: dict[str, str] = {}
    for value, synonyms in spec.values.items():
        for word in (value, value.replace("_", " "), value.replace("-", " "), *synonyms):
            folded = fold(word).text.strip()
            if folded:
                value_of.setdefault(folded, value)
    words = spec.words or (
        () if spec.kind == "count" else (spec.name, " ".join(name_words(spec.name)))
    )
    if spec.kind == "boolean":
        bare = " ".join(word for word in name_words(spec.name) if word not in _VERBS)
        words = (*words, *([bare] if len(bare) > 2 else []))
    announced = _choice(fold(word).text for word in words)
    return _PreparedSpec(
        spec=spec,
        phrases=tuple(compile_phrase(source, lists) for source in spec.patterns),
        value_of=value_of,
        values=re.compile(rf"(?<![\w-])(?:{_choice(value_of)})(?![\w-])")
        if value_of and spec.kind == "choice"
        else None,
        words=announced,
        patterns=_patterns(spec, announced),
    )


def _patterns(spec: ArgumentSpec, words: str) -> tuple[re.Pattern[str], ...]:
    """What the reader of a kind looks for."""
    patterns: list[str] = []
    if spec.kind == "count":
        named = _choice((fold(spec.name).text, " ".join(name_words(spec.name))))
        patterns = [*(pattern.pattern for pattern in _COUNTS)]
        patterns.insert(2, rf"(?<!\w)(?:{named})(?:\s+(?:of|to|is))?\s*[:=]?\s*{_COUNTED}")
        if words:
            patterns.append(rf"(?<![\w.,:/#-]){_COUNTED}\s+(?:[a-z]+\s+){{0,2}}?(?:{words})(?!\w)")
    elif spec.kind in {"integer", "number"} and words:
        number = r"(?P<value>-?\d{1,15}(?:[.]\d{1,15})?)(?![\w]|[.,:/-]\d)"
        patterns = [
            rf"(?<!\w)(?:{words}){_NAMED}{number}",
            rf"(?<![\w.,:/-]){number}\s+(?:{words})(?!\w)",
        ]
    elif spec.kind == "boolean" and words:
        answers = "|".join(sorted(_YES | _NO, key=lambda word: -len(word)))
        verb = r"\s*(?:is|ist|est|es|=|:)?\s*"
        patterns = [
            rf"(?<!\w)(?:{words}){verb}(?P<said>{answers})(?!\w)",
            rf"(?<!\w)(?:{_WITHOUT})\s+{_FILLER}(?:{words})(?!\w)",
            rf"(?<!\w)(?:{_WITH})\s+{_FILLER}(?:{words})(?!\w)",
        ]
        if spec.words:
            patterns.append(rf"(?<!\w)(?:{words})(?!\w)")
    return tuple(re.compile(pattern) for pattern in patterns)


def name_words(name: str) -> list[str]:
    """The words that the name of a parameter is made of: camelCase and snake_case."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return fold(re.sub(r"[_\W]+", " ", split)).text.split()


def _choice(words: Iterable[str]) -> str:
    plain = sorted({word for word in words if word}, key=lambda word: (-len(word), word))
    return "|".join(r"\s+".join(map(re.escape, word.split())) for word in plain)
