"""The transport `http`: streamable HTTP, in both protocol eras, over the shared client.

Each message is its own POST; the answer comes as JSON or on an event stream, which may also
carry progress, logs and questions of that request. There is no permanent connection: the wire
counts as ended if no connection can be made or the server has forgotten the session, so that a
new wire is opened. A broken stream fails only its own request.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, cast

import aiohttp
import anyio

from toolgate.base.tracing import note_sent
from toolgate.errors import ConnectionLostError, InvalidAnswerError, RpcError, ToolgateError
from toolgate.types import MODERN_VERSION, Json, json_object
from toolgate.upstream.base import CallSink, ChildlessWire, Credential, WireEvents
from toolgate.upstream.transports._http_requests import (
    JSON_AND_EVENTS,
    Endpoint,
    HttpOptions,
    finish_response,
    media_type,
    no_proxy,
    pieces,
    read_body,
    refusal,
)
from toolgate.upstream.transports._jsonrpc import (
    NEVER_CANCELLED,
    DamagedMessage,
    answer_question,
    cancellation,
    excerpt,
    may_be_answer,
    notification_bytes,
    read_big_message,
    request_bytes,
    result_of,
    with_token,
)
from toolgate.upstream.transports._sse_events import EventParser, ServerEvent

log = logging.getLogger(__name__)

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"

# Bounds and default of the `retry` that a server may set, in seconds (chosen).
SHORTEST_DELAY_S = 0.1
FIRST_DELAY_S = 1.0
"""Seconds before the first attempt to listen again, doubled each time (chosen)."""
LONGEST_DELAY_S = 60.0
"""Seconds (chosen: a recovered server is noticed within a minute)."""
MOST_RESUMPTIONS = 5
"""Consecutive attempts to resume a broken stream that bring nothing new."""

CLOSE_S = 2.0
"""Seconds to tell the server that a call or the session is over."""

# Seconds to send a notification (chosen).
NOTIFY_S = 10.0

_SESSION_IS_GONE = re.compile(r"session|not initialized", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Options(HttpOptions):
    """Options of a server over streamable HTTP."""


def build(
    options: Options,
    *,
    http: aiohttp.ClientSession,
    max_message_bytes: int,
    credential: Credential | None = None,
    proxy_for: Callable[[str], str] = no_proxy,
) -> "HttpWire":
    """Create the wire for these options."""
    endpoint = options.endpoints(http, credential, proxy_for)
    return HttpWire(endpoint(options.url), max_message_bytes)


class _Exchange:
    """A pending request."""

    def __init__(
        self, *, call_id: int, method: str, headers: Mapping[str, str], sink: CallSink | None
    ) -> None:
        self.call_id = call_id
        self.method = method
        self.headers = headers
        self.sink = sink
        self.last_event: str | None = None
        self.delay_s = FIRST_DELAY_S
        self.questions: dict[str | int, asyncio.Task[None]] = {}

    @property
    def is_modern(self) -> bool:
        """Whether closing the stream cancels it, and nothing can be resumed."""
        return self.headers.get(VERSION) == MODERN_VERSION

    def note(self, event: ServerEvent) -> None:
        """Store where to resume, and after how long."""
        if event.event_id is not None:
            self.last_event = event.event_id
        if event.retry_ms is not None:
            self.delay_s = min(event.retry_ms / 1000, LONGEST_DELAY_S)

    async def finish(self) -> None:
        """Stop the tasks that answer the server's questions."""
        tasks = list(self.questions.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class HttpWire(ChildlessWire):
    """One server over streamable HTTP, and its session if it has one."""

    def __init__(self, endpoint: Endpoint, max_message_bytes: int) -> None:
        self._endpoint = endpoint
        self._max_message_bytes = max_message_bytes
        self._events: WireEvents | None = None
        self._ids = count(1)
        self._session: str | None = None
        self._version: str | None = None
        self._end_reason: str | None = None
        self._expired = False
        self._ended = asyncio.Event()
        self._running: set[asyncio.Timeout] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self, events: WireEvents) -> None:
        """Store the receiver of messages; nothing is sent before the first request."""
        self._events = events

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Send a request and wait for its result; see `Wire.request`."""
        if self._end_reason is not None:
            raise ConnectionLostError(self._end_reason, sent=False, expired=self._expired)
        call_id = next(self._ids)
        note_sent(call_id)
        text = request_bytes(call_id, method, with_token(params, call_id) if progress else params)
        exchange = _Exchange(call_id=call_id, method=method, headers=headers, sink=sink)
        abort = asyncio.timeout(None)  # `aclose` lets it run out
        self._running.add(abort)
        try:
            async with abort:
                return await self._converse(exchange, text)
        except TimeoutError:
            # The caller's own timeout is passed through unchanged.
            if not abort.expired():
                raise
            raise ConnectionLostError(
                self._end_reason or "The connection was closed.",
                sent=True,
                hint="The call had been sent and may have run; check before repeating it.",
            ) from None
        except ToolgateError:
            raise
        except BaseException:  # nobody waits for the answer any more
            self._tell_cancelled(exchange)
            raise
        finally:
            self._running.discard(abort)
            if exchange.questions:
                await exchange.finish()

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Send a notification; it is dropped if it cannot be sent."""
        if self._end_reason is None:
            await self._post_quietly(notification_bytes(method, params), headers, NOTIFY_S)

    def begin_session(self, version: str) -> None:
        """Listen for unsolicited messages, if the server gave a session to listen to."""
        self._version = version
        # The modern protocol has no such stream; without a session a server cannot send on one.
        if version != MODERN_VERSION and self._session is not None:
            self._spawn(self._listen())

    async def closed(self) -> str:
        """Wait until the connection has ended; return the reason as one sentence."""
        await self._ended.wait()
        assert self._end_reason is not None
        return self._end_reason

    async def aclose(self) -> None:
        """Stop everything that is pending, then end the session."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end("The connection was closed.")
        loop = asyncio.get_running_loop()
        for abort in self._running:
            # Expires now, so that each request ends with the reason of this close.
            if abort.when() is None:
                abort.reschedule(loop.time())
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None and not self._expired:
            with anyio.move_on_after(CLOSE_S):
                try:
                    # Lets the server free the session; it may answer 405, which changes nothing.
                    response = await self._endpoint.send("DELETE", self._with_session({}))
                    response.release()
                except ToolgateError as error:
                    log.debug("session not deleted", extra={"reason": str(error)})

    def _end(self, reason: str, *, expired: bool = False) -> None:
        if self._end_reason is None:
            self._end_reason = reason
            self._expired = expired
            self._ended.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="toolgate-http")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _with_session(self, headers: Mapping[str, str]) -> dict[str, str]:
        sent = {**JSON_AND_EVENTS, **headers}
        if self._session is not None:
            sent[SESSION] = self._session
            if self._version is not None:
                # Required on every request after the handshake since revision 2025-06-18.
                sent.setdefault(VERSION, self._version)
        return sent

    async def _converse(self, exchange: _Exchange, text: bytes) -> Json:
        response = await self._post(text, exchange.headers)
        try:
            await self._check_status(response)
            # Only this answer assigns a session id:
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
            if exchange.method == "initialize":
                self._session = response.headers.get(SESSION)
            if media_type(response) == "text/event-stream":
                answer = await self._follow(response, exchange)
                while answer is None:
                    answer = await self._resume(exchange)
                self._release(response)
                return result_of(answer)
            answer = await self._read_single(response, exchange)
        # Half a body is left on the connection: it cannot be reused.
        except BaseException:
            response.close()
            raise
        response.release()
        return result_of(answer)

    def _release(self, response: aiohttp.ClientResponse) -> None:
        if response.closed:
            return
        if response.content.at_eof():
            response.release()
        else:  # only the end of the stream is missing, and the connection can be used again
            self._spawn(finish_response(response))

    async def _post(self, text: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        try:
            return await self._endpoint.send("POST", self._with_session(headers), text)
        except ConnectionLostError as error:
            # Nothing listens there any more; messages already sent may be answered on another
            # stream.
            if not error.sent:
                self._end(error.failed)
            raise

    async def _check_status(self, response: aiohttp.ClientResponse) -> None:
        if response.status < 400:
            return
        body = await read_body(response, self._max_message_bytes)
        error = refusal(self._endpoint, response, body)
        # The server did not run the request, so it may be retried in a new session.
        if self._session is not None and _means_no_session(response.status, error):
            self._end("The server no longer knows the session.", expired=True)
            raise ConnectionLostError(
                "The server no longer knows the session.", sent=False, expired=True
            )
        raise error

    async def _read_single(self, response: aiohttp.ClientResponse, exchange: _Exchange) -> Json:
        body = await read_body(response, self._max_message_bytes)
        if media_type(response) != "application/json":
            text = excerpt(body.decode(errors="replace"))
            raise InvalidAnswerError(
                f"The server at {self._endpoint} answered {response.status} with "
                f"{media_type(response) or 'no content type'} instead of a message"
                f"{f': {text}' if text else ''}.",
                hint="Check url of this server.",
            )
        answer = await self._take(await read_big_message(body), exchange)
        if answer is None:
            raise InvalidAnswerError(
                "The server sent no answer to the request.",
                hint="Report it to the author of the server.",
            )
        return answer

    async def _follow(self, response: aiohttp.ClientResponse, exchange: _Exchange) -> Json | None:
        """Handle the messages of a stream; return the answer, or None if the stream has none."""
        parser = EventParser(max_bytes=self._max_message_bytes)
        async for piece in pieces(response):
            for event in parser.feed(piece):
                exchange.note(event)
                if event.name != "message" or not event.data:
                    continue
                # An overlong notification is dropped; only an answer deserves an error.
                if event.is_overlong:
                    self._refuse_overlong(event)
                    continue
                answer = await self._take(await read_big_message(event.data), exchange)
                if answer is not None:
                    return answer
        return None

    def _refuse_overlong(self, event: ServerEvent) -> None:
        if may_be_answer(event.data):
            raise InvalidAnswerError(
                f"The server sent a message of more than {self._max_message_bytes:,} bytes.",
                hint="Ask for less, or raise max_message_bytes of this server.",
            )

    async def _resume(self, exchange: _Exchange) -> Json | None:
        """Resume a stream that ended early, if the server supports it."""
        attempts = 0
        while exchange.last_event is not None and not exchange.is_modern:
            seen = exchange.last_event
            await anyio.sleep(exchange.delay_s)
            headers = {
                **self._with_session({VERSION: exchange.headers.get(VERSION, "")}),
                "accept": "text/event-stream",
                LAST_EVENT: exchange.last_event,
            }
            try:
                response = await self._endpoint.send("GET", _without_body(headers))
            except ConnectionLostError:
                response = None
            if response is not None:
                try:
                    if response.status >= 400:
                        break
                    answer = await self._follow(response, exchange)
                finally:
                    response.close()
                if answer is not None:
                    return answer
            # A stream that makes progress may be cut any number of times.
            attempts = 0 if exchange.last_event != seen else attempts + 1
            if attempts >= MOST_RESUMPTIONS:
                break
        raise ConnectionLostError(
            "The stream of the answer ended before the answer.",
            sent=True,
            hint="The call may have run; check before repeating it.",
        )

    async def _take(self, message: object, exchange: _Exchange | None) -> Json | None:
        """Handle a message; return it if it answers the request of this exchange."""
        if isinstance(message, list):  # a batch, which the revision 2025-03-26 allowed
            answer: Json | None = None
            for part in cast("list[object]", message):
                answer = await self._take(part, exchange) or answer
            return answer
        if isinstance(message, DamagedMessage):
            if exchange is not None and (message.is_rpc or message.call_id is not None):
                raise InvalidAnswerError(
                    f"The server sent an answer that {message.reason}.",
                    hint="Report it to the author of the server.",
                )
            return None
        if not isinstance(message, dict):
            return None
        fields = cast("Json", message)
        method: object = fields.get("method")
        message_id: object = fields.get("id")
        if isinstance(method, str):
            if message_id is None:
                await self._take_notification(method, json_object(fields.get("params")), exchange)
            elif isinstance(message_id, str | int):
                self._take_question(message_id, fields, exchange)
            return None
        if exchange is None:
            return None
        is_ours = type(message_id) is int and message_id == exchange.call_id
        return fields if is_ours or (message_id is None and "error" in fields) else None

    async def _take_notification(
        self, method: str, params: Json, exchange: _Exchange | None
    ) -> None:
        if method == "notifications/progress":
            if exchange and exchange.sink and params.get("progressToken") == exchange.call_id:
                await exchange.sink.progress(params)
            return
        if method == "notifications/message" and exchange is not None:
            if exchange.sink is not None:
                await exchange.sink.log(params)
            return
        if method == "notifications/cancelled":
            question_id: object = params.get("requestId")
            if exchange and isinstance(question_id, str | int):
                if task := exchange.questions.get(question_id):
                    task.cancel()
                return
        assert self._events is not None
        try:
            await self._events.on_notification(method, params)
        except Exception:  # a stream must live on, whatever a handler does
            log.exception("notification failed", extra={"method": method})

    def _take_question(
        self, question_id: str | int, question: Json, exchange: _Exchange | None
    ) -> None:
        assert self._events is not None
        sink = exchange.sink if exchange is not None else None
        handler = self._events.on_request if sink is None else sink.ask
        version = exchange.headers.get(VERSION) if exchange is not None else self._version
        headers = {} if version is None else {VERSION: version}

        async def answer() -> None:
            await self._post_quietly(await answer_question(handler, question), headers, NOTIFY_S)

        task = self._spawn(answer())
        if exchange is not None:
            exchange.questions[question_id] = task
            task.add_done_callback(lambda _: exchange.questions.pop(question_id, None))

    def _tell_cancelled(self, exchange: _Exchange) -> None:
        """Cancel the call; in the handshake era a notification does that, not a closed stream."""
        if exchange.is_modern or exchange.method in NEVER_CANCELLED or self._end_reason:
            return
        version = exchange.headers.get(VERSION)
        headers = {} if version is None else {VERSION: version}
        self._spawn(self._post_quietly(cancellation(exchange.call_id), headers, CLOSE_S))

    async def _post_quietly(self, text: bytes, headers: Mapping[str, str], limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            try:
                response = await self._post(text, headers)
                if response.status >= 400:
                    log.debug("message refused", extra={"status": response.status})
                await finish_response(response)
            except ToolgateError as error:
                log.debug("message not sent", extra={"reason": str(error)})

    async def _listen(self) -> None:
        """Keep the stream of messages without a request open, as long as the session lives."""
        standing = _Exchange(call_id=0, method="", headers={}, sink=None)
        delay_s = FIRST_DELAY_S
        while self._end_reason is None:
            headers = {**self._with_session({}), "accept": "text/event-stream"}
            if standing.last_event is not None:
                headers[LAST_EVENT] = standing.last_event
            try:
                response = await self._endpoint.send("GET", _without_body(headers))
            except ToolgateError as error:
                log.debug("no stream of messages", extra={"reason": str(error)})
            else:
                try:
                    if response.status == 404:
                        self._end("The server no longer knows the session.", expired=True)
                    if 400 <= response.status < 500:
                        return  # 405: the server has nothing to say unasked
                    if media_type(response) == "text/event-stream" and await self._hear(
                        response, standing
                    ):
                        delay_s = max(standing.delay_s, SHORTEST_DELAY_S)
                finally:
                    response.close()
            await anyio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    async def _hear(self, response: aiohttp.ClientResponse, standing: _Exchange) -> bool:
        """Handle the messages of the stream; return whether there were any."""
        parser = EventParser(max_bytes=self._max_message_bytes)
        heard = False
        async for piece in pieces(response):
            for event in parser.feed(piece):
                standing.note(event)
                heard = True
                if event.name == "message" and event.data and not event.is_overlong:
                    await self._take(await read_big_message(event.data), None)
        return heard


def _means_no_session(status: int, error: ToolgateError) -> bool:
    """Whether a refusal says that the session is unknown.

    The specification requires 404 for that; servers modelled on the TypeScript SDK answer 400
    with a sentence about the session.
    """
    if isinstance(error, RpcError) and error.rpc_code == -32601:
        return False
    return status == 404 or (status == 400 and bool(_SESSION_IS_GONE.search(str(error))))


def _without_body(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if value and name != "content-type"}
