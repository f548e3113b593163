"""Changes to inputs: to the structure of their JSON, to their headers and targets, and to bytes."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final
from urllib.parse import quote

import orjson

from tests.fuzz.inputs import FuzzInput

_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53 + 1, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308),
    *("", " ", "a", "0", "null", "\x00", "a\nb", "a\r\nX: y", "\u202e", "\ufeff", "é" * 50, "😀"),
    *("%s%n", "{0}", "${env:HOME}", "{{7*7}}", "<script>", "' OR 1=1 --", "../../etc/passwd", "*"),
    *("alpha:echo", "alpha__echo", "memo://1", "default", "2026-07-28", "2025-11-25", "1999-01-01"),
    *("tools/call", "sampling/createMessage", "-1", "1e999", "NaN", "9" * 400, "x" * 5_000),
    *([], {}, [[]], [None], {"": None}, [1, "a", {}], {"a": {"b": {"c": []}}}, ["x"] * 500),
)
_TEXTS: Final = tuple(value for value in _VALUES if isinstance(value, str))
_LITERALS: Final = (
    *(b"NaN", b"-Infinity", b"1e999", b"-", b"01", b"9" * 1_200, b"9" * 30, b"0." + b"1" * 400),
    *(
        rb'"\ud800"',
        rb'"\udfff\ud800"',
        rb'"\u0000"',
        b'"\xff\xfe"',
        b'"\xed\xa0\x80"',
        b"\xc0\x80",
    ),
    *(b"\x00", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\r\n\r\n", b'"', b"\\", b"{", b"}", b"[", b"]"),
    *(b",", b":", b"/* */", b"'", b"\x1b[31m", b"&", b"=", b"%00", b"%", b"+", b"%ff", b"0\r\n"),
)
_HEADER_VALUES: Final = (
    *("", " ", "x", "*", "*/*", "0", "-1", "9" * 50, "application/json", "text/event-stream"),
    *("application/json, text/event-stream", "application/json; charset=utf-16", "text/html"),
    *("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "gzip", "chunked"),
    *("2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05", "2099-01-01", "tools/list"),
    *("{session}", "{session}x", "{session:reversed}", "x" * 300, "\xff\xfe", "é", "a,b", "a;b=c"),
    *("=?base64?eA==?=", "=?base64?!?=", "http://evil.example", "null", "127.0.0.1:1", "[::1]"),
    *(
        "Bearer {admin}",
        "Bearer {member}",
        "Bearer {admin}x",
        "Bearer",
        "Basic eDp5",
        "Bearer \xff",
    ),
    *("00-" + "1" * 32 + "-" + "2" * 16 + "-01", "ff-0-0-0", "default", "no-such-project"),
)
_HEADER_NAMES: Final = (
    *("accept", "authorization", "content-type", "content-length", "content-encoding", "cookie"),
    *("host", "origin", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"),
    *("mcp-param-region", "x-toolgate-project", "x-toolgate-thread", "x-toolgate-events"),
    *("x-toolgate-key", "x-request-id", "traceparent", "tracestate", "last-event-id", "expect"),
    *("x-forwarded-for", "x-forwarded-host", "x-forwarded-prefix", "forwarded", "range"),
    *("sec-fetch-site", "referer", "if-none-match", "transfer-encoding", "te", "upgrade", "x"),
)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X")
_QUERIES: Final = (
    *("limit=-1", "limit=x", "limit=1&limit=2", "cursor=%00", "cursor=x", "days=1e9", "days=-1"),
    *("project=none", "page=99999999999999999999", "=", "&&&", "%", "%ff=%ff", "format=x", "a[]=b"),
    *("since=0001-01-01", "until=99999-01-01", "state=x", "thread_id=%2e%2e%2f", "token=x"),
)
_SEGMENTS: Final = (
    "",
    ".",
    "..",
    "%00",
    "%2e%2e",
    "*",
    "%ff",
    "a" * 2_000,
    "alpha",
    "default",
    "é",
)
_DEPTHS: Final = (1, 2, 10, 190, 199, 205, 2_000)
_LONG_TEXT: Final = 300_000
_MOST_BYTES: Final = 1_000_000


def mutate(entry: FuzzInput, others: Sequence[FuzzInput], dice: Random) -> FuzzInput:
    """The input after one to five changes; the same dice give the same result."""
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5))):
        changed = _change(entry, others, dice)
        entry = changed if len(changed.body) <= _MOST_BYTES else entry
    return entry


def _change(entry: FuzzInput, others: Sequence[FuzzInput], dice: Random) -> FuzzInput:
    if entry.kind == "socket":
        return replace(entry, body=_change_bytes(entry.body, dice))
    if entry.kind == "stdio":
        return replace(entry, body=_change_body(entry.body, others, dice))
    share = dice.random()
    if share < 0.55:
        return replace(entry, body=_change_body(entry.body, others, dice))
    if share < 0.8:
        return replace(entry, headers=_change_headers(entry.headers, others, dice))
    if share < 0.9:
        return replace(entry, target=_change_target(entry.target, dice))
    if share < 0.95:
        return replace(entry, method=dice.choice(_METHODS))
    return replace(entry, leave=dice.choice(("in_body", "in_answer")))


# Bodies


def _change_body(body: bytes, others: Sequence[FuzzInput], dice: Random) -> bytes:
    if dice.random() < 0.25:
        return _change_bytes(body, dice)
    try:
        document = [orjson.loads(body)]
    except orjson.JSONDecodeError:
        return _change_form(body, dice) if b"=" in body else _change_bytes(body, dice)
    slot = _Slot.any_of(document, dice)
    try:
        marker = dice.choice(_STRUCTURAL)(slot, others, dice)
        text = orjson.dumps(document[0])
    except TypeError:  # deeper, or a wider integer, than it writes
        return _change_bytes(body, dice)
    return text if marker is None else text.replace(_MARK, marker, 1)


_MARK: Final = b'"\\u0001fuzz"'
_MARKED: Final = "\x01fuzz"
"""Stands for text that no JSON writer would write; it is put in after writing."""


@dataclass
class _Slot:
    """A place in a document that holds a value."""

    holder: Any
    key: Any

    @classmethod
    def any_of(cls, document: list[Any], dice: Random) -> "_Slot":
        """A place at any depth, the whole document included."""
        slots = [cls(document, 0)]
        for slot in slots:
            value = slot.value
            if isinstance(value, dict):
                slots += [cls(value, key) for key in value]
            elif isinstance(value, list):
                slots += [cls(value, index) for index in range(min(len(value), 20))]
            if len(slots) > 300:
                break
        return dice.choice(slots)

    @property
    def value(self) -> Any:
        return self.holder[self.key]

    @value.setter
    def value(self, value: Any) -> None:
        self.holder[self.key] = value


_Change = Callable[[_Slot, Sequence[FuzzInput], Random], bytes | None]
"""Changes a document at a slot; gives the text that replaces the marker it may have left."""


def _replace_value(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    slot.value = deepcopy(dice.choice(_VALUES))


def _remove(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    if isinstance(slot.holder, dict):
        del slot.holder[slot.key]
    else:
        slot.value = None


def _rename(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    if isinstance(slot.holder, dict):
        slot.holder[dice.choice(_TEXTS)] = slot.holder.pop(slot.key)


def _add_member(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    if isinstance(slot.value, dict):
        slot.value[dice.choice((*_TEXTS, *_MEMBERS))] = deepcopy(dice.choice(_VALUES))
    else:
        slot.value = [slot.value, deepcopy(dice.choice(_VALUES))]


def _nest(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> bytes:
    inner, depth = orjson.dumps(slot.value), dice.choice(_DEPTHS)
    slot.value = _MARKED
    opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")))
    return opening * depth + inner + closing * depth


def _lengthen(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    if isinstance(slot.value, list):
        slot.value = slot.value * dice.choice((2, 100, 2_000))
    elif isinstance(slot.value, dict):
        slot.value |= {f"k{number}": number for number in range(dice.choice((10, 2_000)))}
    else:
        size = dice.choice((100, 4_097, 70_000, _LONG_TEXT))
        slot.value = (dice.choice(_TEXTS) or "x") * size
        slot.value = slot.value[:size]


def _write_literal(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> bytes:
    slot.value = _MARKED
    return dice.choice(_LITERALS)


def _repeat_member(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> bytes | None:
    if not isinstance(slot.holder, dict):
        return None
    first, second = orjson.dumps(slot.value), orjson.dumps(dice.choice(_VALUES))
    slot.value = _MARKED
    return first + b"," + orjson.dumps(slot.key) + b":" + second


def _graft(slot: _Slot, others: Sequence[FuzzInput], dice: Random) -> None:
    try:
        document = [orjson.loads(dice.choice(others).body)]
    except orjson.JSONDecodeError:
        return
    slot.value = _Slot.any_of(document, dice).value


_MEMBERS: Final = (
    *("_meta", "id", "cursor", "progressToken", "task", "inputResponses", "requestState"),
    *("name", "uri", "arguments", "level", "io.modelcontextprotocol/logLevel", "limit", "project"),
    *("stream", "tools", "tool_choice", "metadata", "response_format", "n", "max_tokens", "format"),
)
_STRUCTURAL: Final[tuple[_Change, ...]] = (
    *(_replace_value, _replace_value, _replace_value, _remove, _rename, _add_member, _add_member),
    *(_nest, _lengthen, _write_literal, _repeat_member, _graft),
)


def _change_form(body: bytes, dice: Random) -> bytes:
    """Change a field of an HTML form, but seldom the token that lets it in."""
    fields = body.split(b"&")
    index = dice.randrange(len(fields))
    name, _, value = fields[index].partition(b"=")
    match dice.randrange(5):
        case 0:
            fields[index] = name + b"=" + quote(dice.choice(_TEXTS)).encode()
        case 1:
            del fields[index]
        case 2:
            fields.append(name + b"=" + dice.choice(_LITERALS))
        case 3:
            fields[index] = quote(dice.choice(_TEXTS)).encode() + b"=" + value
        case _:
            fields[index] = name + b"=" + value * dice.choice((2, 1_000))
    return b"&".join(fields)


def _change_bytes(body: bytes, dice: Random) -> bytes:
    start = dice.randint(0, len(body))
    end = min(len(body), start + dice.choice((1, 1, 2, 4, 16, 200)))
    match dice.randrange(6):
        case 0:
            return body[:start] + bytes([dice.randrange(256)]) + body[start + 1 :]
        case 1:
            return body[:start] + dice.choice(_LITERALS) + body[start:]
        case 2:
            return body[:start] + body[end:]
        case 3:
            return body[:end] + body[start:end] * dice.choice((1, 3, 300)) + body[end:]
        case 4:
            return body[:start]
        case _:
            return body[:start] + dice.choice(_LITERALS) + body[end:]


# Headers and targets


def _change_headers(
    headers: tuple[tuple[str, str], ...], others: Sequence[FuzzInput], dice: Random
) -> tuple[tuple[str, str], ...]:
    changed = list(headers)
    index = dice.randrange(len(changed)) if changed else 0
    match dice.randrange(5):
        case 0 if changed:
            del changed[index]
        case 1 if changed:
            changed[index] = (changed[index][0], dice.choice(_HEADER_VALUES))
        case 2 if changed:
            changed.append((changed[index][0], dice.choice(_HEADER_VALUES)))
        case 3:
            changed = list(dice.choice(others).headers)
        case _:
            changed.append((dice.choice(_HEADER_NAMES), dice.choice(_HEADER_VALUES)))
    return tuple(changed)


def _change_target(target: str, dice: Random) -> str:
    path, mark, query = target.partition("?")
    match dice.randrange(4):
        case 0:
            return f"{path}?{dice.choice(_QUERIES)}"
        case 1:
            return f"{path}?{query}{'&' if mark else ''}{dice.choice(_QUERIES)}"
        case 2:
            return f"{path}/{quote(dice.choice(_SEGMENTS), safe='%*.')}{mark}{query}"
        case _:
            segments = path.split("/")
            segments[dice.randrange(1, max(2, len(segments))) - len(segments)] = quote(
                dice.choice(_SEGMENTS), safe="%*."
            )
            joined = "/".join(segments)
            return f"/{joined.lstrip('/')}{mark}{query}"
