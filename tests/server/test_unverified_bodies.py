"""Large requests of clients that have not proved who they are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.server.http_gateway import headers_for, modern, post
from tests.server.test_auth import Place, bearer, named, shared

MB = 10**6
SIZE_BYTES = 3 * MB
"""Of a message that is never complete."""


@asynccontextmanager
async def half_sent(
    place: Place, count: int, header: str
) -> AsyncIterator[list[asyncio.Task[bytes]]]:
    """Requests that lack the end of their bodies; gives the first lines of the responses."""
    lines = [f"{name}: {value}" for name, value in headers_for(modern("tools/list")).items()]
    head = "\r\n".join(
        ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {SIZE_BYTES}", header, *lines]
    )
    first_lines: list[asyncio.Task[bytes]] = []
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port)
            writers.append(writer)
            first_lines.append(asyncio.create_task(reader.readuntil(b"\r\n")))
            writer.write(f"{head}\r\n\r\n".encode() + b'{"a": "' + b"x" * (SIZE_BYTES - 10_000))
        yield first_lines
    finally:
        for writer, first_line in zip(writers, first_lines, strict=True):
            writer.transport.abort()
            first_line.cancel()
        await asyncio.gather(*first_lines, return_exceptions=True)


async def test_a_large_request_with_a_wrong_token_is_refused_before_it_is_read() -> None:
    async with shared() as place, half_sent(place, 3, "Authorization: Bearer nope") as first_lines:
        said = await asyncio.gather(*first_lines)

    assert said == [b"HTTP/1.1 401 Unauthorized\r\n"] * 3


async def test_clients_without_a_token_cannot_fill_the_memory_with_half_sent_requests() -> None:
    """Up to 4 MB are read from each such client, in case the message contains a token."""
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        token = {"token": anna}
        large = modern("tools/list", {"_meta": {"filler": "x" * 2 * MB}})
        async with half_sent(place, 30, "X-Nothing: 1") as first_lines:
            refusal = await next(asyncio.as_completed(first_lines))
            small_in_meta = await post(place.url, modern("tools/list", {"_meta": token}))
            in_header = await post(place.url, large, bearer(anna, large))
        large["params"]["_meta"] |= token
        large_in_meta = await post(place.url, large)

    assert refusal == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert named(small_in_meta) == named(in_header) == named(large_in_meta)
