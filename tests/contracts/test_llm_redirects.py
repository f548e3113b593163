"""Keys of chat models stay with the host that they were written down for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.contracts.model_services import model_of
from tests.limits import HANG_S
from toolgate.errors import ModelError
from toolgate.models.llm import ChatRequest, Message, complete

PROVIDERS = [
    pytest.param(name, marks=pytest.mark.xdist_group(name))
    for name in ("anthropic", "google", "openai")
]


@asynccontextmanager
async def answering(head: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A service that answers all with the same lines; its address, and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_redirect_to_another_host_takes_no_key_along(provider: str) -> None:
    async with answering("500 No") as (elsewhere, stolen):
        host = elsewhere.replace("127.0.0.1", "localhost")
        async with answering(f"307 Over There\r\nlocation: {host}/v1") as (url, asked):
            model = model_of(provider, url)
            request = ChatRequest(messages=(Message(role="user", content="hello"),))
            with anyio.fail_after(HANG_S), pytest.raises(ModelError):
                await complete(model, request)
            await model.aclose()
    assert len(asked) == 1
    assert stolen == []
