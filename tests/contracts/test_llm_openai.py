"""The adapter `openai` against a service that speaks like its provider."""

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from tests.contracts.model_services import Service, service_of
from tests.limits import HANG_S
from toolgate.models.llm import ChatModel, ChatRequest, Message, complete
from toolgate.models.llm.openai import Options, build
from toolgate.testing.contracts.llm import ChatModelContract


class TestOpenAI(ChatModelContract):
    @pytest.fixture
    async def service(self) -> AsyncIterator[Service]:  # type: ignore[override] # it ends too
        async with service_of("openai", "/v1") as service:
            yield service

    @pytest.fixture
    def make_model(self, service: Service) -> Callable[[], ChatModel]:
        return lambda: build(Options(url=service.url, key="k", model="m"))

    async def test_a_proxy_of_the_environment_is_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the library's own transport would; a host that is excepted is asked directly."""
        asked: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.append(head.partition(b"\r\n")[0])
            body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("http_proxy", place)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        request = ChatRequest(messages=(Message(role="user", content="hello"),))
        async with server:
            for url in ("http://models.example/v1", f"{place}/v1"):
                model = build(Options(url=url, key="k", model="m"))
                with anyio.fail_after(HANG_S):
                    assert (await complete(model, request)).message.text == "hi"
                await model.aclose()
        assert asked == [
            b"POST http://models.example/v1/chat/completions HTTP/1.1",
            b"POST /v1/chat/completions HTTP/1.1",
        ]

    async def test_arguments_that_a_service_sends_as_an_object_are_read(self) -> None:
        """Our decision: some services that call themselves compatible send no text here."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            call = (
                b'{"index":0,"id":"c1","function":{"name":"add","arguments":{"a":[1,"\xc3\xa9"]}}}'
            )
            delta = b'{"delta":{"tool_calls":[%s]},"finish_reason":"tool_calls"}' % call
            body = b'data: {"choices":[%s]}\n\n' % delta
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        request = ChatRequest(messages=(Message(role="user", content="hello"),))
        async with server:
            model = build(Options(url=url, key="k", model="m"))
            with anyio.fail_after(HANG_S):
                reply = await complete(model, request)
            await model.aclose()
        (call,) = reply.message.calls
        assert call.read() == {"a": [1, "é"]}
