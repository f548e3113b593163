"""Large messages: what is refused before it is parsed, and that what is accepted arrives whole."""

import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE, headers_for, listening, modern, post
from toolgate.server.asgi.parsing.json_limits import count_json
from toolgate.server.asgi.parsing.json_parser import BadMessageError, parse_json
from toolgate.server.mcp.summarize_body import summarize_body

HANDSHAKE = {"MCP-Protocol-Version": "2025-11-25"}
MODERN = headers_for(modern("tools/list"))

TOO_MUCH = {
    "open brackets": (b"[" * 8_000_000, "nested deeper than 200 levels"),
    "open objects": (b'{"a":' * 1_000_000, "nested deeper than 200 levels"),
    "empty arrays": (b'{"x":[' + b"[]," * 2_000_000 + b"[]]}", "more than 500000 objects"),
    "objects": (b'{"x":[' + b"{}," * 2_000_000 + b"{}]}", "more than 500000 objects"),
    "values": (b"[" + b"1," * 5_000_000 + b"1]", "more than 1000000 values"),
    "digits": (b"[" + b",".join([b"9" * 4000] * 2500) + b"]", "more than 1000 digits"),
    "digits of one": (b'{"a":' + b"9" * 9_000_000 + b"}", "more than 1000 digits"),
    "wide integers": (
        b"[" + b",".join([b"9" * 30] * 300_000) + b"]",
        "an integer of more than 64 bits",
    ),
    "half a pair": (
        b'{"a":"' + rb"\ud83d\ude00" * 500_000 + rb'\ud800"}',
        "no JSON",
    ),
    "an open string": (b'{"a":"' + b'\\"' * 2_000_000 + b"[", "no JSON"),
}


@pytest.mark.parametrize(("body", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
async def test_a_message_that_would_stop_everybody_is_refused_at_once(
    body: bytes, words: str
) -> None:
    """Each stood for seconds, and everybody else with it."""
    async with listening() as place:
        with anyio.fail_after(HANG_S):
            answered = await post(place.url, body, MODERN)
            assert (answered.status, words in answered.error["message"]) == (400, True)
            async with (
                aiohttp.ClientSession() as http,
                http.post(
                    f"{place.url}/api/v1/discover",
                    data=body,
                    headers={"Content-Type": "application/json"},
                ) as response,
            ):
                assert response.status == 400
                assert words in (await response.json())["error"]["message"]


LARGE: dict[str, Any] = {
    "text": 'é\\"\n[{' * 400_000,
    "digits in text": "7" * 2_000_000,
    "brackets in text": "[" * 2_000_000,
    "numbers": [2**63, -(2**63), 0.12345678901234567890, 1e-300] * 10_000,
    "objects": [{"a": 1, "b": [None, True]}] * 20_000,
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("door", ["lane", "modern", "handshake"])
async def test_a_large_message_arrives_whole(door: str, value: Any) -> None:
    call: Any = {"name": "a__echo", "arguments": {"structured": {"value": value}}}
    async with listening() as place:
        if door == "handshake":
            opened = await post(place.url, INITIALIZE, {"Content-Type": "application/json"})
            session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **HANDSHAKE}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            answered = await post(place.url, request, session)
        else:
            meta = {"progressToken": 1} if door == "modern" else {}
            answered = await post(place.url, modern("tools/call", {**call, "_meta": meta}))
    assert answered.result["structuredContent"] == {"value": value}
    assert place.gateway.received[0][1]["arguments"] == call["arguments"]


async def test_a_large_call_of_a_tool_that_mirrors_a_parameter_is_still_checked() -> None:
    arguments = {"text": "x" * 1_000_000, "region": "eu"}
    message = modern("tools/call", {"name": "a__regional", "arguments": arguments})
    async with listening() as place:
        headers = headers_for(message)
        right = await post(place.url, message, {**headers, "Mcp-Param-Region": "eu"})
        wrong = await post(place.url, message, {**headers, "Mcp-Param-Region": "us"})
    assert right.status == 200
    assert wrong.error["code"] == -32020


def test_wide_integers_stay_exact_in_large_messages() -> None:
    numbers = [10**40 + n for n in range(20_000)]
    body = b"[" + b",".join(str(number).encode() for number in numbers) + b"]"
    assert parse_json(body, max_depth=200) == numbers


@pytest.mark.parametrize("shift", range(8))
def test_what_is_in_strings_is_not_counted_wherever_pieces_are_cut(shift: int) -> None:
    """The pieces are of 128 KB."""
    tricky = "\\" * 3 + '"[{,' + "1" * 30 + "\\\\"
    value = {"p" * shift: [tricky] * 20_000, "end": [[1]]}
    found = count_json(orjson.dumps(value), max_depth=200)
    assert (found.depth, found.containers, found.values) == (3, 4, 20_000)
    assert not found.has_wide_integer


@pytest.mark.parametrize("shift", range(30))
def test_a_number_that_is_cut_between_pieces_is_still_one(shift: int) -> None:
    body = b"[" + b" " * (128 * 2**10 - shift) + b"1" * 30 + b"]"
    assert count_json(body, max_depth=200).has_wide_integer


def test_a_backslash_without_end_takes_no_time() -> None:
    with pytest.raises(BadMessageError, match="no JSON"):
        parse_json(b'{"a":"' + b"\\" * 9_000_001, max_depth=200)


def test_a_skimmed_message_keeps_what_decides_where_it_goes() -> None:
    meta = {"progressToken": 5}
    many = {str(n): n for n in range(5_000)}
    params = {"uri": "memo://1", "text": "x" * 100_000, "many": many, "_meta": meta}
    skimmed = orjson.loads(
        summarize_body({"jsonrpc": "2.0", "id": 1, "method": "m", "params": params})
    )
    assert skimmed["params"]["_meta"] == meta
    assert (skimmed["id"], skimmed["params"]["uri"]) == (1, "memo://1")
    assert skimmed["params"]["text"] == ""
    assert 0 < len(skimmed["params"]["many"]) < 1_001


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size from /proc")
async def test_memory_of_large_calls_of_a_session_is_given_back() -> None:
    """It grew with each call, by the size of its body, until garbage was searched for."""
    call = {"name": "nothing", "arguments": {"text": "y" * 8_000_000}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    body = orjson.dumps(request)
    async with listening() as place:
        opened = await post(place.url, INITIALIZE, {"Content-Type": "application/json"})
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **HANDSHAKE}
        sizes: list[int] = []
        for _ in range(6):
            await post(place.url, body, session)
            place.gateway.received.clear()
            place.gateway.peers.clear()
            sizes.append(_resident_bytes())
    assert sizes[-1] - sizes[0] < 3 * len(body)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
