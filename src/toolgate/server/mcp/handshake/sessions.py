"""Handshake-era sessions with signed ids that every process on the same store understands.

The SDK keeps a session in one process, at some 45 kB. Clients get a signed id that says how the
session was opened, so another replica, or the same gateway after a restart, can reopen it. Idle
sessions are therefore parked: the SDK's session is ended, and the next request reopens it.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic, time
from typing import cast

import anyio

from toolgate.base.json_text import dumps
from toolgate.base.signing import Signer
from toolgate.errors import HandleError
from toolgate.server.asgi.parsing.headers import header_in
from toolgate.server.asgi.parsing.json_parser import INVALID_REQUEST, error_bytes
from toolgate.server.asgi.parsing.messages import Message, Receive, Scope, Send, send_json
from toolgate.server.mcp.summarize_body import FULL_PARAMS
from toolgate.types import Json, json_object

SESSION_NOT_FOUND = "Session not found"
"""Error text for a message to a session that does not exist, same as in the SDK."""

_PURPOSE = "session"
_HEADER = b"mcp-session-id"
_GOOD_FOR_S = 30 * 86_400
"""Seconds that a session id is valid: 30 days; chosen."""
_MAX_ENDED = 100_000
"""Largest number of ended sessions remembered; chosen: some 10 MB."""
_MAX_PARKED = 10_000
"""Largest number of parked sessions whose log level and subscriptions are stored; chosen."""
_MAX_VERIFIED = 10_000
"""Largest number of cached session ids, whose signature is not checked again; chosen: some 10
MB."""
_MAX_STATE_BYTES = 4_096
"""Largest size in bytes of the log level and subscriptions of a parked session; chosen."""
_OPEN_S = 10.0
"""Seconds for a session to accept a message or to end; chosen: only a stuck client takes longer."""
_MAX_TEXT = 100
"""Largest number of characters of a client's name and version, and of a protocol version, in a
session id."""
_CAPABILITIES: dict[str, tuple[str, ...]] = {
    "elicitation": ("form", "url"),
    "roots": ("listChanged",),
    "sampling": ("tools", "context"),
}
"""Capabilities for requests to clients, with their parts as defined by the protocol
(2025-11-25)."""
_STATEFUL = {
    "logging/setLevel": "level",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
"""Requests that must be repeated when a parked session is reopened, and the parameter each sets."""

Answer = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class ParkingLimits:
    """Limits that decide when idle sessions are parked."""

    after_s: float = 300.0
    """Seconds without a request; chosen: reopening costs a few milliseconds."""

    max_idle: int = 512
    """Largest number of idle sessions; the longest idle is parked first. Chosen: some 25 MB."""

    max_idle_per_caller: int = 64
    """Largest number of idle sessions of one caller; chosen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedSession:
    """Contents of a signed session id."""

    nonce: str
    """Random value that makes the session unique."""

    expires_at: float
    """Expiry of the id, in seconds since 1970."""

    client_info: Json
    """Name and version of the client."""

    capabilities: Json
    """Capabilities of the client."""


@dataclass
class _HandshakeSession:
    """A session that clients refer to by its signed id."""

    caller_id: str
    sdk_id: str | None = None
    """Id of the SDK's session; None: this process has none for it now."""
    running: int = 0
    """Number of open requests and streams."""
    idle_since: float = 0.0
    """Monotonic time in seconds since when it is idle."""
    is_ending: bool = False
    """Whether its client has asked to end it."""
    state: dict[str, Json] = field(default_factory=dict[str, Json])
    """Messages that restore log level and subscriptions."""
    opening: anyio.Lock = field(default_factory=anyio.Lock)


class HandshakeSessions:
    """Client sessions, mapped to sessions of the SDK."""

    def __init__(
        self, signer: Signer, answer: Answer, *, limits: ParkingLimits | None = None
    ) -> None:
        """Start without sessions.

        Args:
            signer: Signer with the same key in every replica.
            answer: ASGI application of the SDK.
            limits: Limits that decide when idle sessions are parked.
        """
        self._signer = signer
        self._answer = answer
        self._limits = limits or ParkingLimits()
        self._sessions: dict[str, _HandshakeSession] = {}
        """Sessions by the nonce in the id; parked ones only if they have state to restore."""
        self._idle: OrderedDict[str, _HandshakeSession] = OrderedDict()
        """Sessions in the SDK without an open request; the longest idle first."""
        self._idle_by_caller: Counter[str] = Counter()
        self._ended: dict[str, None] = {}
        self._verified: dict[str, OpenedSession] = {}
        """Verified sessions by their full id."""
        self._parking: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_count(self) -> int:
        """Number of sessions in the SDK without an open request."""
        return len(self._idle)

    def opened(self, session_id: str) -> OpenedSession | None:
        """Return the contents of a session id; None if it is invalid or the session has ended."""
        opened = self._verified.get(session_id)
        if opened is None:
            payload = self._opened(session_id)
            if payload is None:
                return None
            params = json_object(payload["p"])
            opened = OpenedSession(
                nonce=str(payload["n"]),
                expires_at=payload["e"],
                client_info=json_object(params.get("clientInfo")),
                capabilities=json_object(params.get("capabilities")),
            )
            if len(self._verified) >= _MAX_VERIFIED:
                del self._verified[next(iter(self._verified))]
            self._verified[session_id] = opened
        session = self._sessions.get(opened.nonce)
        has_ended = opened.nonce in self._ended or (session is not None and session.is_ending)
        return None if has_ended or opened.expires_at <= time() else opened

    def open(self, params: Json, caller_id: str) -> str:
        """Open a session that has none in the SDK; return its id.

        Args:
            params: Parameters of its `initialize`, already checked.
            caller_id: The caller that it belongs to.
        """
        return self._sign(secrets.token_urlsafe(12), params, caller_id)

    def is_parked(self, session_id: str) -> bool:
        """Whether a session is open and has none in the SDK now."""
        opened = self.opened(session_id)
        if opened is None:
            return False
        session = self._sessions.get(opened.nonce)
        return session is None or (session.sdk_id is None and not session.running)

    def end_parked(self, session_id: str) -> bool:
        """End a session that has none in the SDK; False if it has one, or is not open."""
        if not self.is_parked(session_id):
            return False
        self._remember_end(self._verified[session_id].nonce)
        return True

    def has_ended(self, session_id: str) -> bool:
        """Whether the client of a session has ended it."""
        opened = self._opened(session_id)
        return opened is not None and str(opened["n"]) in self._ended

    def end_elsewhere(self, session_id: str) -> None:
        """End a session that its client has ended in another process."""
        opened = self._opened(session_id)
        nonce = "" if opened is None else str(opened["n"])
        if opened is None or nonce in self._ended:
            return
        session = self._sessions.get(nonce)
        if session is not None and session.sdk_id is not None:
            self._wake(nonce, session)
            session.is_ending = True
            self._spawn_end(session.sdk_id)
        self._remember_end(nonce)

    def log_level(self, opened: OpenedSession) -> str | None:
        """Return the lowest log level the client of a session wants; None if it set none."""
        session = self._sessions.get(opened.nonce)
        if session is None or not session.state:
            return None
        message = session.state.get("logging/setLevel")
        return None if message is None else message["params"]["level"]

    def owner(self, session_id: str) -> str | None:
        """Return the caller id of a session's owner; None if its id does not contain one."""
        opened = self._opened(session_id)
        return None if opened is None else str(opened.get("c"))

    def assign_id(self, send: Send, params: Json, caller_id: str) -> Send:
        """Return a `send` that replaces the id of a new session by a signed one."""

        async def send_signed(message: Message) -> None:
            if message["type"] == "http.response.start" and (sdk_id := _session_of(message)):
                nonce = secrets.token_urlsafe(12)
                session = _HandshakeSession(caller_id=caller_id, sdk_id=sdk_id)
                self._sessions[nonce] = session
                self._rest(nonce, session)
                message = _with_session(message, self._sign(nonce, params, caller_id))
            await send(message)

        return send_signed

    @asynccontextmanager
    async def entered(
        self, session_id: str, scope: Scope, send: Send, message: Json | None
    ) -> AsyncGenerator[Send]:
        """Route a request to the SDK's session for an id; yields the `send` for its response.

        Args:
            session_id: Session id in the request.
            scope: Scope of the request; its session header is replaced.
            send: Receives the response.
            message: Message of the request; None: it opens a stream or ends the session.
        """
        opened = self._opened(session_id)
        nonce = "" if opened is None else str(opened["n"])
        if opened is None or nonce in self._ended:
            yield send
            return
        session = self._sessions.get(nonce)
        if session is None:
            session = self._sessions[nonce] = _HandshakeSession(caller_id=str(opened.get("c")))
        self._wake(nonce, session)
        session.running += 1
        try:
            async with session.opening:
                if session.sdk_id is None:
                    session.sdk_id = await self._open(session, opened, scope)
            if session.sdk_id is None:
                yield send
            else:
                _set_header(scope, session.sdk_id)
                session.is_ending = session.is_ending or scope["method"] == "DELETE"
                # The SDK holds `send` until garbage collection, so it must not refer to the
                # message.
                yield self._returning(
                    _refusing_when_ended(send, session, json_object(message).get("id")),
                    session_id,
                    nonce,
                    session,
                    scope["method"],
                    _stateful_part(message),
                )
        finally:
            session.running -= 1
            if not session.running and self._sessions.get(nonce) is session:
                self._rest(nonce, session)

    def close(self) -> None:
        """Stop parking."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._parking:
            task.cancel()

    def _returning(
        self,
        send: Send,
        session_id: str,
        nonce: str,
        session: _HandshakeSession,
        method: str,
        stateful: tuple[str, object] | None,
    ) -> Send:
        is_end = method == "DELETE"

        async def send_back(part: Message) -> None:
            if part["type"] == "http.response.start":
                if part["status"] == 404:
                    session.sdk_id = None
                elif part["status"] < 300 and is_end:
                    self._remember_end(nonce)
                elif part["status"] < 300 and stateful is not None:
                    _remember_state(session, *stateful)
                if _session_of(part) is not None:
                    part = _with_session(part, session_id)
            await send(part)

        return send_back

    def _remember_end(self, nonce: str) -> None:
        self._sessions.pop(nonce, None)
        self._ended[nonce] = None
        _forget_oldest(self._ended)

    # Parking

    def _wake(self, nonce: str, session: _HandshakeSession) -> None:
        """Mark a session as active when a request arrives."""
        if self._idle.pop(nonce, None) is not None:
            self._idle_by_caller[session.caller_id] -= 1
            if not self._idle_by_caller[session.caller_id]:
                del self._idle_by_caller[session.caller_id]

    def _rest(self, nonce: str, session: _HandshakeSession) -> None:
        """Mark a session as idle when its last open request has ended."""
        if session.sdk_id is None:
            self._forget_or_keep(nonce, session)
            return
        session.idle_since = monotonic()
        self._idle[nonce] = session
        self._idle_by_caller[session.caller_id] += 1
        if self._idle_by_caller[session.caller_id] > self._limits.max_idle_per_caller:
            oldest = (n for n, s in self._idle.items() if s.caller_id == session.caller_id)
            self._park(next(oldest))
        elif len(self._idle) > self._limits.max_idle:
            self._park(next(iter(self._idle)))
        if self._timer is None:
            self._schedule()

    def _schedule(self) -> None:
        for session in self._idle.values():  # the first is the longest idle
            delay_s = max(0.0, session.idle_since + self._limits.after_s - monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._park_idle)
            return

    def _park_idle(self) -> None:
        self._timer = None
        before = monotonic() - self._limits.after_s
        for nonce, session in list(self._idle.items()):
            if session.idle_since > before:
                break
            self._park(nonce)
        self._schedule()

    def _park(self, nonce: str) -> None:
        session = self._idle[nonce]
        self._wake(nonce, session)
        sdk_id, session.sdk_id = session.sdk_id, None
        assert sdk_id is not None
        self._forget_or_keep(nonce, session)
        self._spawn_end(sdk_id)

    def _spawn_end(self, sdk_id: str) -> None:
        task = asyncio.create_task(self._end(sdk_id), name="toolgate-end-session")
        self._parking.add(task)
        task.add_done_callback(self._parking.discard)

    def _forget_or_keep(self, nonce: str, session: _HandshakeSession) -> None:
        """Keep only the state of a parked session that is not in its id."""
        if not session.state:
            del self._sessions[nonce]
        elif len(self._sessions) > _MAX_PARKED:
            parked = (n for n, s in self._sessions.items() if s.sdk_id is None and not s.running)
            del self._sessions[next(parked)]

    async def _end(self, sdk_id: str) -> None:
        """End a session of the SDK, as its client would."""
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "DELETE",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [(_HEADER, sdk_id.encode())],
            "client": None,
            "server": None,
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            """Discard the response."""

        with anyio.move_on_after(_OPEN_S):
            await self._answer(scope, receive, send)

    # Signed ids

    def _sign(self, nonce: str, params: Json, caller_id: str) -> str:
        client = json_object(params.get("clientInfo"))
        return self._signer.sign(
            _PURPOSE,
            {
                "n": nonce,
                "e": int(time()) + _GOOD_FOR_S,
                "c": caller_id,
                "p": {
                    "protocolVersion": str(params.get("protocolVersion"))[:_MAX_TEXT],
                    "capabilities": _essential(json_object(params.get("capabilities"))),
                    "clientInfo": {
                        key: str(client.get(key, ""))[:_MAX_TEXT] for key in ("name", "version")
                    },
                },
            },
        )

    def _opened(self, session_id: str) -> Json | None:
        """Return how a session was opened; None if its id is not signed here or has expired."""
        try:
            opened = self._signer.check(_PURPOSE, session_id)
        except HandleError:
            return None
        return opened if opened.get("e", 0) > time() else None

    async def _open(self, session: _HandshakeSession, opened: Json, scope: Scope) -> str | None:
        """Reopen a session as it was opened before; return the SDK's id."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opened["p"]}
        sdk_id = await self._send_own(hello, (), scope)
        if sdk_id is None:
            return None
        version = str(json_object(opened["p"]).get("protocolVersion"))
        headers = ((_HEADER, sdk_id.encode()), (b"mcp-protocol-version", version.encode()))
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._send_own(ready, headers, scope)
        for number, message in enumerate(session.state.values(), 1):
            await self._send_own({**message, "jsonrpc": "2.0", "id": number}, headers, scope)
        return sdk_id

    async def _send_own(
        self, message: Json, headers: tuple[tuple[bytes, bytes], ...], scope: Scope
    ) -> str | None:
        """Send the SDK a message of our own; return the session of the response."""
        session_id: str | None = None
        is_given = False

        async def receive() -> Message:
            nonlocal is_given
            if is_given:
                await anyio.sleep_forever()
            is_given = True
            return {"type": "http.request", "body": dumps(message), "more_body": False}

        async def send(part: Message) -> None:
            nonlocal session_id
            if part["type"] == "http.response.start" and part["status"] < 300:
                session_id = _session_of(part)

        json_headers = (
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
        )
        host_headers = tuple(pair for pair in scope["headers"] if pair[0] == b"host")
        inner: Scope = {
            **scope,
            "method": "POST",
            "headers": [*host_headers, *json_headers, *headers],
        }
        inner.pop(FULL_PARAMS, None)
        with anyio.move_on_after(_OPEN_S):
            await self._answer(inner, receive, send)
        return session_id


def _refusing_when_ended(send: Send, session: _HandshakeSession, request_id: object) -> Send:
    """Return a `send` that reports a missing session if the session ends during a request.

    When the end overtakes the message, the SDK fails with an internal error, or with a stream
    without a response (mcp 2.3.0).
    """
    is_refused = is_stream = has_answer = False

    async def send_refusing(part: Message) -> None:
        nonlocal is_refused, is_stream, has_answer
        is_start = part["type"] == "http.response.start"
        if is_refused:
            return
        if is_start and part["status"] >= 500 and session.is_ending:
            is_refused = True
            await send_json(send, 404, error_bytes(request_id, INVALID_REQUEST, SESSION_NOT_FOUND))
            return
        if is_start:
            kind = header_in(part.get("headers", ()), b"content-type") or ""
            is_stream = request_id is not None and kind.startswith("text/event-stream")
        elif is_stream:
            has_answer = has_answer or bool(part.get("body"))
            is_last = not part.get("more_body", False)
            if is_last and session.is_ending and not has_answer:
                text = error_bytes(request_id, INVALID_REQUEST, SESSION_NOT_FOUND)
                part = {**part, "body": b"event: message\r\ndata: " + text + b"\r\n\r\n"}
        await send(part)

    return send_refusing


def _stateful_part(message: Json | None) -> tuple[str, object] | None:
    """Return method and value of a request that changes the state of its session."""
    method = "" if message is None else str(message.get("method"))
    if message is None or method not in _STATEFUL:
        return None
    return method, json_object(message.get("params")).get(_STATEFUL[method])


def _remember_state(session: _HandshakeSession, method: str, value: object) -> None:
    """Store a message that must be repeated when the session is reopened."""
    if method == "resources/unsubscribe":
        session.state.pop(f"resources/subscribe {value}", None)
        return
    key = method if method == "logging/setLevel" else f"{method} {value}"
    state = {**session.state, key: {"method": method, "params": {_STATEFUL[method]: value}}}
    if len(dumps(state)) <= _MAX_STATE_BYTES:
        session.state = state


def _essential(capabilities: Json) -> Json:
    """Return the capabilities that the protocol defines, without additions of the client."""
    essential: Json = {}
    for name, parts in _CAPABILITIES.items():
        if name not in capabilities:
            continue
        declared = json_object(capabilities[name])
        essential[name] = {
            part: declared[part] if isinstance(declared[part], bool) else {}
            for part in parts
            if part in declared
        }
    return essential


def _session_of(message: Message) -> str | None:
    values = [value for key, value in message.get("headers", ()) if key.lower() == _HEADER]
    return values[-1].decode("latin-1") if values else None


def _with_session(message: Message, session_id: str) -> Message:
    headers = [
        (key, session_id.encode() if key.lower() == _HEADER else value)
        for key, value in message["headers"]
    ]
    return {**message, "headers": headers}


def _set_header(scope: Scope, sdk_id: str) -> None:
    scope["headers"] = [
        (key, sdk_id.encode() if key == _HEADER else value)
        for key, value in cast("list[tuple[bytes, bytes]]", scope["headers"])
    ]


def _forget_oldest(entries: dict[str, None]) -> None:
    if len(entries) > _MAX_ENDED:
        del entries[next(iter(entries))]
