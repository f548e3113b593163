"""The fast path of handshake-era sessions: tool calls, tool listings and pings, without the SDK.

A signed session id has all that a call needs to know of its client, so no session of the SDK has
to be open for it. The response is plain JSON, unless something is streamed before it: progress,
log messages, requests to the client, or keep-alives after a period of silence.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from toolgate.base.json_text import dumps
from toolgate.errors import CannotAskError, RpcError
from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.json_parser import (
    INTERNAL_ERROR,
    BadMessageError,
    Envelope,
    error_bytes,
)
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send
from toolgate.server.mcp.handshake.sessions import HandshakeSessions, OpenedSession
from toolgate.server.mcp.methods import check_call, check_list, check_meta, client_program
from toolgate.server.mcp.peer import ClientPeer
from toolgate.server.mcp.response_stream import ResponseStream, result_parts
from toolgate.server.mcp.result_shape import LOG_LEVEL, PROTOCOL_VERSION, rpc_error, shape
from toolgate.types import HANDSHAKE_VERSIONS, Caller, Json, json_object

_METHODS = frozenset({"ping", "tools/call", "tools/list"})
_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)

_CANCELLED = -32800
"""Error code for a request that its client has cancelled; same as in the SDK (mcp 2.3.0)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SessionRequest:
    """A request that the fast path handles."""

    request_id: str | int
    """Its JSON-RPC id."""

    method: str
    """A method that the fast path handles."""

    params: Json
    """Its parameters."""

    caller: Caller
    """The caller."""

    session_id: str
    """The signed id of its session."""

    session: OpenedSession
    """Details that its client sent when it opened the session."""


def accepts_both_types(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a client accepts JSON and event streams, as the protocol requires."""
    accept = headers.get(b"accept", b"")
    return b"application/json" in accept and b"text/event-stream" in accept


def speaks_handshake(envelope: Envelope, headers: Mapping[bytes, bytes]) -> bool:
    """Whether header and `_meta` of a message name no version without a handshake."""
    version = headers.get(b"mcp-protocol-version", b"2025-03-26")
    return version in _VERSIONS and PROTOCOL_VERSION not in envelope.meta


class SessionFastPath:
    """Recognizes and handles requests of the fast path."""

    def __init__(self, gateway: Gateway, sessions: HandshakeSessions) -> None:
        self._gateway = gateway
        self._sessions = sessions
        self._running: dict[tuple[str, str], _RunningRequest] = {}
        """Running requests, by session and request id."""
        self._questions: dict[tuple[str, str], asyncio.Future[Json]] = {}
        """Requests to clients, by session and id."""

    def accepted(self, envelope: Envelope, scope: Scope, caller: Caller) -> SessionRequest | None:
        """Return the request in a message; None if the SDK has to handle it."""
        headers: dict[bytes, bytes] = scope[HEADERS]
        session_id = headers.get(b"mcp-session-id", b"").decode("latin-1")
        if (
            envelope.method not in _METHODS
            or envelope.request_id is None
            or not session_id
            or not accepts_both_types(headers)
            or not speaks_handshake(envelope, headers)
        ):
            return None
        session = self._sessions.opened(session_id)
        if session is None:
            return None
        client, version = client_program(session.client_info)
        return SessionRequest(
            request_id=envelope.request_id,
            method=envelope.method,
            params=envelope.params,
            caller=replace(caller, client=client, client_version=version),
            session_id=session_id,
            session=session,
        )

    async def serve(self, request: SessionRequest, receive: Receive, send: Send) -> None:
        """Respond to a request, which goes on if the client disconnects (as specified by MCP)."""
        task = asyncio.current_task()
        assert task is not None
        running = _RunningRequest(task=task)
        key = request.session_id, str(request.request_id)
        stream = ResponseStream(receive, send, on_leave=running.drop_questions)
        self._running[key] = running
        stream.begin()
        try:
            parts = await self._answer(request, stream, running)
        except asyncio.CancelledError:
            if not running.is_cancelled or task.uncancel():
                raise
            parts = (error_bytes(request.request_id, _CANCELLED, "Request cancelled"),)
        finally:
            stream.end()
            del self._running[key]
        await stream.finish(200, parts)

    def cancel(self, session_id: str, request_id: object) -> bool:
        """Cancel a request of a session; False if the fast path runs none with that id."""
        running = self._running.get((session_id, str(request_id)))
        if running is None:
            return False
        running.cancel()
        return True

    def end_session(self, session_id: str) -> None:
        """Cancel running requests of a session that its client has ended."""
        for (session, _), running in list(self._running.items()):
            if session == session_id:
                running.cancel()

    def take_answer(self, session_id: str, message: Json) -> bool:
        """Accept a client's response to a request; False if the fast path did not send it."""
        question = self._questions.get((session_id, str(message.get("id"))))
        if question is None or question.done():
            return False
        if "error" in message:
            error = json_object(message["error"])
            code, text = error.get("code", INTERNAL_ERROR), str(error.get("message"))
            question.set_exception(RpcError(code, text, error.get("data")))
        else:
            question.set_result(json_object(message.get("result")))
        return True

    async def _answer(
        self, request: SessionRequest, stream: ResponseStream, running: "_RunningRequest"
    ) -> tuple[bytes, ...]:
        """Return the body of the response, in parts."""
        try:
            check_meta(request.params)
            if request.method == "ping":
                return result_parts(dumps(request.request_id), b"{}")
            if request.method == "tools/list":
                check_list(request.params)
                listing = await self._gateway.listing.list_tools(request.caller)
                return result_parts(dumps(request.request_id), b'{"tools":', listing, b"}")
            params, meta = request.params, json_object(request.params.get("_meta"))
            level = self._sessions.log_level(request.session)
            if level is not None:
                # Modern servers take the log level from each request, so the level of the session
                # goes there.
                params = {**params, "_meta": {**meta, LOG_LEVEL: level}}
            peer = ClientPeer(
                _Channel(stream, self._questions, request.session_id, running),
                era="handshake",
                capabilities=request.session.capabilities,
                progress_token=meta.get("progressToken"),
                log_level=level,
            )
            check_call(params)
            name = str(params["name"])
            authorized = self._gateway.visible.authorize_name(request.caller, name)
            result = await self._gateway.call(request.caller, params, peer, authorized=authorized)
            shaped = dumps(shape(result, request.method, "handshake"))
            return result_parts(dumps(request.request_id), shaped)
        except BadMessageError as error:
            code, message, data = error.rpc_code, error.message, None
        except Exception as error:  # noqa: BLE001 - logged and answered there
            code, message, data = rpc_error(error, "handshake")
        return (error_bytes(request.request_id, code, message, data),)


@dataclass(kw_only=True, eq=False)
class _RunningRequest:
    """A running request."""

    task: asyncio.Task[Any]
    is_cancelled: bool = False
    """Whether its client has cancelled it."""
    has_left: bool = False
    """Whether its client has disconnected."""
    questions: set[asyncio.Future[Json]] = field(default_factory=set[asyncio.Future[Json]])

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()

    def drop_questions(self) -> None:
        """Fail the requests to the client, which has disconnected."""
        self.has_left = True
        for question in self.questions:
            if not question.done():
                question.set_exception(_no_stream())


class _Channel:
    """The stream of one request, which carries notifications and requests to its client."""

    def __init__(
        self,
        stream: ResponseStream,
        questions: dict[tuple[str, str], asyncio.Future[Json]],
        session_id: str,
        running: _RunningRequest,
    ) -> None:
        self._stream = stream
        self._questions = questions
        self._session_id = session_id
        self._running = running

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self._stream.notify(message if params is None else {**message, "params": params})

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None) -> Json:
        if self._running.has_left:
            raise _no_stream()
        # Such ids differ from those of the SDK's own requests, and only the client that gets the
        # request can respond to it.
        question_id = f"toolgate-{next(_numbers)}-{token_hex(8)}"
        question = asyncio.get_running_loop().create_future()
        self._questions[self._session_id, question_id] = question
        self._running.questions.add(question)
        message: Json = {"jsonrpc": "2.0", "id": question_id, "method": method}
        try:
            await self._stream.notify(message if params is None else {**message, "params": params})
            return await question
        finally:
            self._running.questions.discard(question)
            del self._questions[self._session_id, question_id]


_numbers = itertools.count(1)


def _no_stream() -> CannotAskError:
    return CannotAskError("The client that should answer a question has left.")
