"""The wire `http` keeps the contract, and the protocol's rules for streamable HTTP."""

from collections.abc import AsyncGenerator

import aiohttp
import pytest

from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    MakeWire,
    TextWireContract,
)
from toolgate.testing.echo_server import EchoServer, serve_http
from toolgate.upstream import Wire
from toolgate.upstream._http import open_http_session
from toolgate.upstream.http import HttpWire, Options, build


@pytest.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession]:
    async with open_http_session() as session:
        yield session


def wire_to(http: aiohttp.ClientSession, url: str, **headers: str) -> HttpWire:
    return build(Options(url=url, headers=headers), http=http, max_message_bytes=MAX_MESSAGE_BYTES)


class TestHttp(TextWireContract):
    """All duties of a wire."""

    @pytest.fixture
    async def make_wire(self, http: aiohttp.ClientSession) -> AsyncGenerator[MakeWire]:
        async with serve_http(EchoServer()) as address:
            yield lambda: wire_to(http, address)

    @pytest.fixture
    def unreachable_wire(self, http: aiohttp.ClientSession) -> Wire:
        return wire_to(http, "http://127.0.0.1:9/mcp")
