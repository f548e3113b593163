"""The transport `sse`: HTTP with server-sent events, as in revision 2024-11-05.

One stream carries all messages of the server; its first event names the address that messages
are posted to. Newer servers use streamable HTTP (`http`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
from yarl import URL

from toolgate.errors import ConnectionLostError, ToolgateError, UnreachableError
from toolgate.upstream.base import Credential, WireEvents
from toolgate.upstream.transports._duplex import DuplexWire, PendingRequest
from toolgate.upstream.transports._http_requests import (
    Endpoint,
    HttpOptions,
    finish_response,
    media_type,
    no_proxy,
    pieces,
    read_body,
    refusal,
)
from toolgate.upstream.transports._jsonrpc import read_big_message
from toolgate.upstream.transports._message_lines import OverlongMessage
from toolgate.upstream.transports._sse_events import EventParser, ServerEvent

log = logging.getLogger(__name__)

POST_S = 10.0
"""Seconds that a notification or an answer to the server may take."""

_ONE_MESSAGE_REFUSED = frozenset({400, 413, 415, 422})


@dataclass(frozen=True, kw_only=True)
class Options(HttpOptions):
    """Options of a server over HTTP with server-sent events."""


def build(
    options: Options,
    *,
    http: aiohttp.ClientSession,
    max_message_bytes: int,
    credential: Credential | None = None,
    proxy_for: Callable[[str], str] = no_proxy,
) -> "SseWire":
    """Create the wire for these options."""
    return SseWire(options.url, options.endpoints(http, credential, proxy_for), max_message_bytes)


class SseWire(DuplexWire):
    """An event stream, and the address to post messages to."""

    def __init__(
        self, url: str, endpoint: Callable[[str], Endpoint], max_message_bytes: int
    ) -> None:
        super().__init__(max_message_bytes)
        self._endpoint = endpoint
        self._stream = endpoint(url)
        self._target: asyncio.Future[Endpoint] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._posts: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self, events: WireEvents) -> None:
        """Open the stream and wait for the address to post messages to.

        Raises:
            UnreachableError: There is no such stream.
        """
        self._events = events
        response = await self._stream.send("GET", {"accept": "text/event-stream"})
        try:
            await self._check_stream(response)
        except BaseException:
            response.close()
            raise
        self._target = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(response), name="toolgate-sse")
        await asyncio.wait({self._target, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        if not self._target.done():
            raise UnreachableError(self._end_reason or "The stream ended before it began.")

    async def _check_stream(self, response: aiohttp.ClientResponse) -> None:
        if response.status >= 400:
            body = await read_body(response, self._max_message_bytes)
            raise refusal(self._stream, response, body)
        if media_type(response) != "text/event-stream":
            raise UnreachableError(
                f"The server at {self._stream} answered {response.status} with "
                f"{media_type(response) or 'no content type'} instead of a stream of events.",
                hint='Check url of this server, or set type = "http" for a newer server.',
            )

    async def aclose(self) -> None:
        """Close the stream and stop everything that is pending."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end("The connection was closed.")
        tasks = list(self._posts)
        if self._reading is not None:
            tasks.append(self._reading)
        for task in tasks:
            task.cancel()
        await self._finish_questions()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        parser = EventParser(max_bytes=self._max_message_bytes)
        try:
            async for piece in pieces(response):
                for event in parser.feed(piece):
                    await self._hear(event)
                    if self._end_reason is not None:
                        return
            self._end("The server closed the stream of events.")
        finally:
            response.close()
            self._end("Reading the stream of events failed.")  # unless there is a better reason

    async def _hear(self, event: ServerEvent) -> None:
        if event.is_overlong:
            self._take_overlong(OverlongMessage(head=event.data))
            self._take_overlong(OverlongMessage(head=event.data, tail=b""))
        elif event.name == "endpoint":
            self._set_target(event.data.decode(errors="replace").strip())
        elif event.name == "message" and event.data:
            await self._take(await read_big_message(event.data))

    def _set_target(self, text: str) -> None:
        assert self._target is not None
        # Only the first endpoint counts: pending calls must not change their target.
        if self._target.done():
            return
        try:
            url = self._stream.url.join(URL(text))
        except ValueError:
            url = None
        # Messages carry the credential, which must not go wherever the server chooses.
        if url is None or not self._stream.is_same_origin(url):
            self._end(
                f"The server at {self._stream} wants messages at another origin, which is not "
                "allowed."
            )
            return
        self._target.set_result(self._endpoint(str(url)))

    async def _send_call(
        self, text: bytes, call: PendingRequest, headers: Mapping[str, str]
    ) -> None:
        # In its own task: some servers answer on the stream before they end the POST.
        self._spawn(self._post_call(text, call, headers))

    async def _post_call(
        self, text: bytes, call: PendingRequest, headers: Mapping[str, str]
    ) -> None:
        call.sent = True
        try:
            await self._post(text, headers)
        except ConnectionLostError as error:
            call.fail(error)  # before all others, since only this one may not have been sent
            self._end(error.failed, expired=error.expired)
        except ToolgateError as error:
            call.fail(error)

    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:
        with anyio.move_on_after(POST_S):
            try:
                await self._post(text, headers)
            except ConnectionLostError as error:
                self._end(error.failed, expired=error.expired)
                raise

    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:
        if self._end_reason is None:
            self._spawn(self._post_after(set(self._posts), text, headers))

    async def _post_after(
        self, earlier: set[asyncio.Task[None]], text: bytes, headers: Mapping[str, str]
    ) -> None:
        """Post a message after the earlier ones, which it must not overtake."""
        with anyio.move_on_after(POST_S):
            if earlier:
                # A server would ignore a cancellation that arrives before its request.
                await asyncio.wait(earlier, timeout=POST_S / 2)
            try:
                await self._send(text, headers)
            except ToolgateError as error:
                log.debug("message not sent", extra={"reason": str(error)})

    async def _post(self, text: bytes, headers: Mapping[str, str]) -> None:
        """Post one message.

        Raises:
            ConnectionLostError: This has ended the connection.
            ToolgateError: The server refuses this message, but not others.
        """
        if self._end_reason is not None or self._target is None or not self._target.done():
            raise self._lost(sent=False)
        target = self._target.result()
        response = await target.send("POST", {"content-type": "application/json", **headers}, text)
        try:
            if response.status >= 400:
                raise await self._refused(target, response)
        finally:
            await finish_response(response)

    async def _refused(self, target: Endpoint, response: aiohttp.ClientResponse) -> ToolgateError:
        body = await read_body(response, self._max_message_bytes)
        error = refusal(target, response, body)
        is_gone = response.status in {404, 410} or (
            response.status == 400 and "session" in str(error).lower()
        )
        if response.status in _ONE_MESSAGE_REFUSED and not is_gone:
            return error
        return ConnectionLostError(str(error), sent=response.status >= 500, expired=is_gone)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="toolgate-sse-post")
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
