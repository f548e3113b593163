"""Sends requests to the gateway's HTTP interface in this process, without a socket."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks._mcp import tools_call

LOCAL_HOST = (b"host", b"127.0.0.1:7420")
"""A host that the gateway accepts; the port is its default."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A ready-made HTTP request, so that building it is not timed."""

    path: str
    """Path without the query."""

    headers: Sequence[tuple[bytes, bytes]]
    """Headers, with lower-case names."""

    method: str = "POST"
    """HTTP method."""

    query: str = ""
    """Query string, without the question mark."""

    body: bytes = b""
    """The complete body."""


def echo_request(*headers: tuple[bytes, bytes]) -> Request:
    """A modern `tools/call` request for `echo` of server `a`."""
    message, names = tools_call("a__echo", {"text": "x"})
    pairs = [(name.lower().encode(), value.encode()) for name, value in names.items()]
    return Request(path="/mcp", headers=[LOCAL_HOST, *pairs, *headers], body=orjson.dumps(message))


async def send(application: Any, request: Request, *, expected: int = 200) -> bytes:
    """Return the body of the response.

    Raises:
        AssertionError: The response has another status.
    """
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        return await asyncio.get_running_loop().create_future()  # the client stays connected

    async def collect(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "query_string": request.query.encode(),
        "headers": [*request.headers, (b"content-length", b"%d" % len(request.body))],
        "client": ("127.0.0.1", 1),
    }
    await application(scope, receive, collect)
    assert sent[0]["status"] == expected, (request.path, request.query, sent)
    return b"".join(message.get("body", b"") for message in sent[1:])


async def wait_until_idle() -> None:
    """Wait until background work is done: half a second with at most 30 ms of CPU time.

    Gives up after a minute, since a busy machine may never be that quiet.
    """
    for _ in range(120):
        began = time.process_time()
        await asyncio.sleep(0.5)
        if time.process_time() - began < 0.03:
            return
