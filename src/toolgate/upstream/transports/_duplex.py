"""Common code of transports that carry messages both ways over one connection.

A subclass moves bytes; this class matches answers to requests. The subclass reads in one task
and awaits `_take` for each message, so a notification is handled before whatever was sent after
it: nothing about a call arrives after its result. For the same reason a notification handler
must not wait for an answer from its own wire.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import cast

from toolgate.base.tracing import note_sent
from toolgate.errors import ConnectionLostError, InvalidAnswerError, ToolgateError
from toolgate.types import Json, json_object
from toolgate.upstream.base import CallSink, ChildlessWire, WireEvents
from toolgate.upstream.json_text import write_json
from toolgate.upstream.transports._jsonrpc import (
    NEVER_CANCELLED,
    DamagedMessage,
    answer_question,
    cancellation,
    may_be_answer,
    notification_bytes,
    request_bytes,
    result_of,
    sniff_call_id,
    with_token,
)
from toolgate.upstream.transports._message_lines import OverlongMessage

log = logging.getLogger(__name__)

MOST_WAITING_NEWS = 1000
"""Progress reports of one call that may wait for a slow receiver; beyond that, old ones are
dropped."""

_UNREADABLE = (-32700, -32600)
"""Error codes for a message that could not be read (JSON-RPC 2.0, section 5.1)."""

_GRACE_S = 2.0
"""Seconds that a request waits for its answer after an error that may be about it (chosen)."""

MOST_QUESTIONS = 100
"""Questions of a server that are processed at a time; more are refused."""


class PendingRequest:
    """A request that waits for its answer."""

    def __init__(self, method: str, sink: CallSink | None) -> None:
        self.method = method
        self.sent = False
        """Whether the server may have received it."""
        self._sink = sink
        self._news: deque[Json] = deque(maxlen=MOST_WAITING_NEWS)
        self._answer: Json | None = None
        self._error: ToolgateError | None = None
        self._wake: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is an answer or an error."""
        return self._answer is not None or self._error is not None

    def report(self, progress: Json) -> None:
        """Queue progress that has arrived."""
        if self._sink is not None and not self.is_over:
            self._news.append(progress)
            self._stir()

    def succeed(self, answer: Json) -> None:
        """Set the answer: an object with `result` or `error`."""
        if not self.is_over:
            self._answer = answer
            self._stir()

    def fail(self, error: ToolgateError) -> None:
        """Set an error, since no answer can arrive any more."""
        if not self.is_over:
            self._error = error
            self._stir()

    async def outcome(self) -> Json:
        """Pass on what arrives, then return the result.

        Raises:
            ToolgateError: The call failed.
        """
        while True:
            # Progress first: a client would drop anything after the answer.
            while self._news:
                assert self._sink is not None
                await self._sink.progress(self._news.popleft())
            if self._error is not None:
                raise self._error
            if self._answer is not None:
                return result_of(self._answer)
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class DuplexWire(ChildlessWire, ABC):
    """Requests, answers and questions over a connection that carries messages both ways."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._events: WireEvents | None = None
        self._ids = count(1)
        self._calls: dict[int, PendingRequest] = {}
        self._questions: dict[str | int, asyncio.Task[None]] = {}
        self._end_reason: str | None = None
        self._expired = False
        self._ended = asyncio.Event()
        self._stray = 0

    @property
    def stray_messages(self) -> int:
        """Lines that are not messages, and unexpected answers, since the start."""
        return self._stray

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
            raise self._lost(sent=False)
        call_id = next(self._ids)
        note_sent(call_id)
        text = request_bytes(call_id, method, with_token(params, call_id) if progress else params)
        call = self._calls[call_id] = PendingRequest(method, sink)
        try:
            await self._send_call(text, call, headers)
            return await call.outcome()
        finally:
            del self._calls[call_id]
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
            if not call.is_over and call.sent and method not in NEVER_CANCELLED:
                self._send_soon(cancellation(call_id), headers)

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Send a notification; it is dropped if it cannot be sent."""
        if self._end_reason is None:
            try:
                await self._send(notification_bytes(method, params), headers)
            except ToolgateError as error:
                log.debug("notification not sent", extra={"method": method, "reason": str(error)})

    async def closed(self) -> str:
        """Wait until the connection has ended; return the reason as one sentence."""
        await self._ended.wait()
        assert self._end_reason is not None
        return self._end_reason

    @abstractmethod
    async def _send_call(
        self, text: bytes, call: PendingRequest, headers: Mapping[str, str]
    ) -> None:
        """Send a request, and set `call.sent` once the server may have received any of it.

        Raises:
            ToolgateError: It cannot be sent.
        """

    @abstractmethod
    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:
        """Send another message, waiting a bounded time at most.

        Raises:
            ToolgateError: It cannot be sent.
        """

    @abstractmethod
    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:
        """Send a small message without waiting; it is dropped if that is not possible."""

    def _lost(self, *, sent: bool) -> ConnectionLostError:
        reason = self._end_reason or "The connection ended."
        if not sent:
            return ConnectionLostError(reason, sent=False, expired=self._expired)
        return ConnectionLostError(
            reason,
            sent=True,
            hint="The call had been sent and may have run; check before repeating it.",
        )

    def _end(self, reason: str, *, expired: bool = False) -> None:
        """End the connection: everything that waits for it fails now."""
        if self._end_reason is not None:
            return
        self._end_reason = reason
        self._expired = expired
        for call in self._calls.values():
            call.fail(self._lost(sent=call.sent))
        # Their answers could no longer be delivered.
        for task in self._questions.values():
            task.cancel()
        self._ended.set()

    async def _take(self, message: object) -> None:
        """Handle one message that has arrived, or what could be recovered of it."""
        if isinstance(message, dict):
            await self._take_object(cast("Json", message))
        elif isinstance(message, list):  # a batch, which the revision 2025-03-26 allowed
            for part in cast("list[object]", message):
                await self._take(part)
        elif isinstance(message, DamagedMessage):
            self._take_damaged(message)
        else:
            self._stray += 1

    def _take_overlong(self, message: OverlongMessage) -> None:
        """Fail the request that an overlong message answers, as soon as it is known."""
        call_id = sniff_call_id(message.head, message.tail or b"")
        error = InvalidAnswerError(
            f"The server sent a message of more than {self._max_message_bytes:,} bytes.",
            hint="Ask for less, or raise max_message_bytes of this server.",
        )
        if call_id is not None:
            if call := self._calls.get(call_id):
                call.fail(error)
        elif message.tail is not None and may_be_answer(message.head):
            for call in self._calls.values():  # whose it is cannot be seen, and one would hang
                if call.sent:
                    call.fail(error)

    def _take_damaged(self, message: DamagedMessage) -> None:
        self._stray += 1
        call = self._calls.get(message.call_id) if message.call_id is not None else None
        if call is not None and call.sent:
            call.fail(
                InvalidAnswerError(
                    f"The server sent an answer that {message.reason}.",
                    hint="Report it to the author of the server.",
                )
            )

    async def _take_object(self, message: Json) -> None:
        method: object = message.get("method")
        message_id: object = message.get("id")
        if isinstance(method, str):
            if message_id is None:
                await self._take_notification(method, json_object(message.get("params")))
            elif isinstance(message_id, str | int):
                self._take_question(message_id, message)
            else:
                self._stray += 1
        elif type(message_id) is int and (call := self._calls.get(message_id)):
            call.succeed(message)
        elif message_id is None and "error" in message:
            self._take_nameless_error(message)
        else:
            self._stray += 1

    def _take_nameless_error(self, message: Json) -> None:
        # A server that could not read a request answers without an id (JSON-RPC 2.0, section 5).
        self._stray += 1
        waiting = [call for call in self._calls.values() if call.sent]
        is_about_reading = json_object(message.get("error")).get("code") in _UNREADABLE
        # With several pending requests nobody can tell which one it answers.
        if len(waiting) == 1 and is_about_reading:
            # Some servers also answer notifications with errors: the real answer may still arrive.
            asyncio.get_running_loop().call_later(_GRACE_S, waiting[0].succeed, message)

    async def _take_notification(self, method: str, params: Json) -> None:
        if method == "notifications/progress":
            token: object = params.get("progressToken")
            # `True` is an int for isinstance, and equals the token 1.
            if type(token) is int and (call := self._calls.get(token)):
                call.report(params)
            return
        if method == "notifications/cancelled":
            question_id: object = params.get("requestId")
            if isinstance(question_id, str | int) and (task := self._questions.get(question_id)):
                task.cancel()
            return
        assert self._events is not None
        try:
            await self._events.on_notification(method, params)
        except Exception:  # the reader of a wire must live on, whatever a handler does
            log.exception("notification failed", extra={"method": method})

    def _take_question(self, question_id: str | int, message: Json) -> None:
        # A repeated id would leave one of the two without an answer.
        if question_id in self._questions:
            self._stray += 1
            return
        # A server that asks endlessly would fill the memory with tasks.
        if len(self._questions) >= MOST_QUESTIONS:
            error = {"code": -32600, "message": "Too many requests at a time."}
            self._send_soon(write_json({"jsonrpc": "2.0", "id": question_id, "error": error}), {})
            return
        task = asyncio.create_task(self._answer(message), name="toolgate-wire-answer")
        self._questions[question_id] = task
        task.add_done_callback(lambda _: self._questions.pop(question_id, None))

    async def _answer(self, message: Json) -> None:
        assert self._events is not None
        text = await answer_question(self._events.on_request, message)
        try:
            await self._send(text, {})
        except ToolgateError as error:
            log.debug("answer not sent", extra={"reason": str(error)})

    async def _finish_questions(self) -> None:
        """Stop the tasks that answer the server, and wait for them."""
        tasks = list(self._questions.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
