"""Messages out of bytes: any way of cutting a stream gives the same messages, in linear time."""

import json
import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolgate.errors import ArgumentError
from toolgate.upstream.json_text import InvalidJsonError, read_json, write_json
from toolgate.upstream.transports._jsonrpc import DamagedMessage, read_message, sniff_call_id
from toolgate.upstream.transports._message_lines import (
    HEAD_BYTES,
    TAIL_BYTES,
    LineFramer,
    OverlongMessage,
)
from toolgate.upstream.transports._sse_events import EventParser, ServerEvent

LIMIT = 20


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces, cut at these places."""
    borders = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(borders)]


def lines_of(pieces: list[bytes], limit: int = LIMIT) -> list[bytes | OverlongMessage]:
    framer = LineFramer(max_bytes=limit)
    return [line for piece in pieces for line in framer.feed(piece)]


@given(st.lists(st.binary(max_size=2 * LIMIT)), st.lists(st.integers(min_value=0)))
def test_lines_do_not_depend_on_how_the_stream_is_cut(
    parts: list[bytes], places: list[int]
) -> None:
    stream = b"\n".join(parts)
    expected: list[bytes | OverlongMessage] = []
    for line in stream.split(b"\n"):
        if len(line) > LIMIT:
            expected.append(OverlongMessage(head=line[: LIMIT + 1]))
            expected.append(OverlongMessage(head=line[: LIMIT + 1], tail=line[-TAIL_BYTES:]))
        else:
            expected.append(line)
    if len(stream.split(b"\n")[-1]) > LIMIT:
        del expected[-1]  # its end has not come
    else:
        del expected[-1:]

    found = lines_of(cut(stream, places))

    assert [shorten(line) for line in found] == [shorten(line) for line in expected]


def shorten(line: bytes | OverlongMessage) -> object:
    """An overlong line as far as it does not depend on the pieces."""
    if isinstance(line, OverlongMessage):
        return line.head[: LIMIT + 1], line.tail
    return line


def test_an_overlong_line_keeps_its_start_and_its_end_only() -> None:
    line = b"start" + b"x" * 100_000 + b"end"

    told, ended = lines_of([line[:70_000], line[70_000:], b"\nnext\n"], 50_000)[:2]

    assert isinstance(told, OverlongMessage)
    assert isinstance(ended, OverlongMessage)
    assert told.tail is None
    assert len(ended.head) == HEAD_BYTES
    assert ended.head.startswith(b"start")
    assert ended.tail == b"x" * (TAIL_BYTES - 3) + b"end"


LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
FIELDS = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data: ",
        b"event: message",
        b"event: other",
        b"id: 7",
        b"id",
        b"id: \0",
        b"retry: 30",
        b"retry: soon",
        b": comment",
        b"unknown: x",
        "data: ü✓".encode(),
        b"",
        b"",
    ]
)


def events_of(pieces: list[bytes], limit: int = 1000) -> list[ServerEvent]:
    parser = EventParser(max_bytes=limit)
    return [event for piece in pieces for event in parser.feed(piece)]


@given(st.lists(st.tuples(FIELDS, LINE_ENDS), max_size=30), st.lists(st.integers(min_value=0)))
@example([(b"data: a", b"\r\n"), (b"", b"\r\n")], [8])
def test_events_do_not_depend_on_how_the_stream_is_cut(
    lines: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    stream = b"".join(line + end for line, end in lines)
    whole = events_of([stream])

    assert events_of(cut(stream, places)) == whole
    assert events_of([bytes([byte]) for byte in stream]) == whole


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0)))
def test_any_bytes_are_some_events(stream: bytes, places: list[int]) -> None:
    assert events_of(cut(stream, places), 10) == events_of([stream], 10)


def test_an_event_is_read_as_the_standard_says() -> None:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html, its own examples among it."""
    stream = (
        b"\xef\xbb\xbfdata: YHOO\ndata: +2\ndata: 10\n\n"
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
        b"data:  third event\n\n"
        b"data\n\ndata\ndata\n\nid: 9\nretry: 20\n\nevent: add\ndata: 73\n\ndata: unfinished\n"
    )

    assert events_of([stream]) == [
        ServerEvent(data=b"YHOO\n+2\n10"),
        ServerEvent(data=b"first event", event_id="1"),
        ServerEvent(data=b"second event", event_id=""),
        ServerEvent(data=b" third event"),
        ServerEvent(data=b""),
        ServerEvent(data=b"\n"),
        ServerEvent(event_id="9", retry_ms=20),
        ServerEvent(name="add", data=b"73"),
    ]


@pytest.mark.parametrize("lines", [[b"data: " + b"x" * 200], [b"data: " + b"x" * 9] * 20])
def test_an_event_over_the_limit_is_told_and_the_next_one_is_read(lines: list[bytes]) -> None:
    stream = b"id: 1\n" + b"\n".join(lines) + b"\n\ndata: next\n\n"

    for pieces in ([stream], [bytes([byte]) for byte in stream]):
        told, following = events_of(pieces, 100)
        assert told.is_overlong
        assert told.event_id == "1"
        assert told.data.startswith(b"xxxxxxxxx")
        assert following == ServerEvent(data=b"next")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcdé\n"), inner),
    max_leaves=20,
)


@given(VALUES)
@example(2**64)
@example(-(2**63) - 1)
@example({"a": [10**400]})
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    text = write_json(value)

    assert b"\n" not in text
    assert read_json(text) == value


@pytest.mark.parametrize("many", [0, 20_000], ids=["few values", "many values"])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**64 - 1, 10**30, 1e300, 0.1])
def test_a_number_in_a_large_message_keeps_its_digits(number: float, many: int) -> None:
    """Looked for in another way there than in small ones."""
    value = ["x" * 2**20, {"numbers": [0.5, {"n": number}]}, [1.5] * many]

    assert read_json(json.dumps(value).encode()) == value


@given(VALUES)
def test_texts_of_other_writers_are_read_like_by_the_standard_library(value: Any) -> None:
    for text in (json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert read_json(text.encode()) == value


@given(st.text())
def test_half_surrogates_are_written_as_they_came(text: str) -> None:
    """A client cut an emoji in two; the server gets what the client had."""
    assert json.loads(write_json(text)) == text


@given(st.text())
def test_half_surrogates_are_read_as_replacement_signs(text: str) -> None:
    found = read_json(json.dumps(text).encode())

    assert isinstance(found, str)
    assert found == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [lambda x: x, lambda x: {"a": [None, x]}], ids=["bare", "inside"])
def test_numbers_that_json_lacks_are_not_written(value: float, shape: Any) -> None:
    """orjson would write null."""
    with pytest.raises(ArgumentError, match="JSON has finite numbers only"):
        write_json(shape(value))


def test_what_cannot_be_written_says_why() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(ArgumentError, match="nested too deeply"):
        write_json(deep)
    with pytest.raises(ArgumentError, match="not JSON serializable"):
        write_json({"a": {1, 2}})
    while deep:  # or its end would be a recursion of its own
        deep = deep.pop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[NaN]", "holds NaN"),
        (b"[-Infinity]", "holds -Infinity"),
        (b"[1e999]", "number that is too large"),
        (b'["\xff"]', "is not UTF-8"),
        (b'["\xed\xa0\x80"]', "is not UTF-8"),
        (b"{", "is no JSON"),
        (b"", "is no JSON"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_cannot_be_read_says_why(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidJsonError, match=reason):
        read_json(text)


@given(st.binary())
def test_reading_a_message_never_raises(text: bytes) -> None:
    read_message(text)


@given(st.integers(min_value=0, max_value=10**17), st.booleans())
def test_the_id_is_seen_in_a_cut_message(call_id: int, is_first: bool) -> None:
    nested = {"id": 5, "jsonrpc": "2.0", "more": {"id": 6}}
    if is_first:
        whole = json.dumps({"jsonrpc": "2.0", "id": call_id, "result": nested})
        assert sniff_call_id(whole[:-5].encode(), b"") == call_id
    else:
        whole = json.dumps({"result": nested, "jsonrpc": "2.0", "id": call_id})
        assert sniff_call_id(b"...", whole[-100:].encode()) == call_id


def test_an_id_inside_a_result_is_not_taken_for_the_messages() -> None:
    text = b'{"result":{"jsonrpc":"2.0","id":5,"text":"' + b"x" * 1000

    assert sniff_call_id(text, text) is None
    assert read_message(text) == DamagedMessage(reason="is no JSON", call_id=None, is_rpc=True)
