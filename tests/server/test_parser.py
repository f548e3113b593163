"""The HTTP door, byte by byte: what its parser takes for a request."""

import asyncio
from urllib.parse import urlsplit

import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import headers_for, listening, modern
from toolgate.server.asgi.parsing.http_parser import MAX_HEAD_BYTES

CALL = modern("tools/call", {"name": "a__echo", "arguments": {"text": "hi"}})
BODY = orjson.dumps(CALL)


def head(**changed: str) -> bytes:
    """Request line and headers of a call; `__` in a name stands for a hyphen."""
    headers = {"Host": "127.0.0.1", "Content-Length": str(len(BODY)), **headers_for(CALL)}
    headers |= {name.replace("__", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode()


async def said(url: str, *parts: bytes) -> tuple[int, bytes]:
    """Send bytes in pieces; gives status and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    try:
        with anyio.fail_after(HANG_S):
            for part in parts:
                writer.write(part)
                await writer.drain()
            answered = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in answered.lower().splitlines() if b"-length" in line
            )
            return int(answered.split()[1]), await reader.readexactly(length)
    finally:
        writer.close()


async def test_blanks_after_a_header_are_no_part_of_it() -> None:
    """https://www.rfc-editor.org/rfc/rfc9110#section-5.5"""
    async with listening() as place:
        status, body = await said(place.url, head(Mcp__Name="a__echo \t ") + BODY)

    assert (status, orjson.loads(body)["result"]["content"][0]["text"]) == (200, "hi")


async def test_headers_after_the_body_change_nothing() -> None:
    chunked = b"%x\r\n%s\r\n0\r\nMcp-Name: other\r\nMcp-Method: tools/list\r\n\r\n"
    sent = head(Transfer__Encoding="chunked", Content__Length="")
    async with listening() as place:
        status, body = await said(place.url, sent + chunked % (len(BODY), BODY))

    assert (status, orjson.loads(body)["result"]["content"][0]["text"]) == (200, "hi")


async def test_a_head_without_end_is_refused() -> None:
    endless = head()[:-4] + b"\r\nX-Filler: "
    pieces = [b"x" * 2**16] * (MAX_HEAD_BYTES // 2**16 + 1)
    async with listening() as place:
        status, body = await said(place.url, endless, *pieces)

    assert (status, body) == (400, b"The head of the request is too long.")


async def test_a_long_body_after_a_short_head_is_no_long_head() -> None:
    call = modern(
        "tools/call", {"name": "a__echo", "arguments": {"text": "x" * 2 * MAX_HEAD_BYTES}}
    )
    body = orjson.dumps(call)
    async with listening() as place:
        status, _ = await said(place.url, head(Content__Length=str(len(body))), body)

    assert status == 200


@pytest.mark.parametrize(
    "begun",
    [b"2\r\n{}\r\n0\r\nX: ", b"2\r\n{}\r\n0\r\nX", b"2;"],
    ids=["value of a trailer", "name of a trailer", "extension of a chunk"],
)
async def test_what_is_neither_head_nor_body_has_an_end(begun: bytes) -> None:
    """The library joins the parts of a header: each megabyte takes longer than the one before."""
    sent = head(Transfer__Encoding="chunked", Content__Length="") + begun
    async with listening() as place:
        status, body = await said(place.url, sent, b"a" * (MAX_HEAD_BYTES + 2**10))

    assert (status, body) == (400, b"The head of the request is too long.")


async def test_a_body_in_chunks_of_one_byte_is_read() -> None:
    """What frames it is longer than a head may be."""
    text = b'"%s"' % (b"a" * 60_000)
    call = BODY.replace(b'"hi"', text)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in call)
    sent = head(Transfer__Encoding="chunked", Content__Length="")
    async with listening() as place:
        status, body = await said(place.url, sent + chunks + b"0\r\n\r\n")

    assert len(chunks) > MAX_HEAD_BYTES
    assert (status, len(orjson.loads(body)["result"]["content"][0]["text"])) == (200, 60_000)


async def test_what_is_no_request_is_refused() -> None:
    async with listening() as place:
        status, _ = await said(place.url, b"\x16\x03\x01 hello\r\n\r\n")

    assert status == 400


async def test_an_offer_to_speak_http_2_is_declined_and_the_request_answered() -> None:
    """Java's own HTTP client offers it with its first request; the body must not get lost."""
    offer = head(Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2__Settings="AAEAAEAA")
    async with listening() as place:
        status, body = await said(place.url, offer + BODY)

    assert (status, orjson.loads(body)["result"]["content"][0]["text"]) == (200, "hi")


async def test_no_tunnel_is_opened() -> None:
    async with listening() as place:
        tunnel = b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n"
        status, _ = await said(place.url, tunnel)

    assert status == 400
