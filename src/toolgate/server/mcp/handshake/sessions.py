"""Handshake-era sessions with signed ids that every process on the same store understands.

The SDK keeps a session in one process, at some 45 kB. Its id outside is signed and says how it was
opened, so another replica, or the same gateway after a restart, opens it again by itself. Idle
sessions are therefore parked: the SDK's session is ended, and the next request opens it again.
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

__all__ = ["SESSION_NOT_FOUND", "HandshakeSessions", "OpenedSession", "ParkingLimits"]

SESSION_NOT_FOUND = "Session not found"
"""The answer to a message for a session that there is not, in the words of the SDK."""

_PURPOSE = "session"
_HEADER = b"mcp-session-id"
_GOOD_FOR_S = 30 * 86_400
"""Seconds: 30 days; chosen."""
_MAX_ENDED = 100_000
"""Ended sessions that are remembered; chosen: some 10 MB."""
_MAX_PARKED = 10_000
"""Parked sessions whose log level and subscriptions are remembered; chosen."""
_MAX_VERIFIED = 10_000
"""Session ids whose signature is not checked again; chosen: some 10 MB."""
_MAX_STATE_BYTES = 4_096
"""Bytes of log level and subscriptions that a session keeps while it is parked; chosen."""
_OPEN_S = 10.0
"""Seconds for a session to take a message or to end; chosen: only a stuck client takes longer."""
_MAX_TEXT = 100
"""Characters of a client's name and version, and of a protocol version, in a session id."""
_CAPABILITIES: dict[str, tuple[str, ...]] = {
    "elicitation": ("form", "url"),
    "roots": ("listChanged",),
    "sampling": ("tools", "context"),
}
"""What a client can be asked, with the parts that the protocol defines (2025-11-25)."""
_STATEFUL = {
    "logging/setLevel": "level",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
"""Requests that a parked session has to repeat when it is opened again."""

Answer = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class ParkingLimits:
    """When idle sessions are parked."""

    after_s: float = 300.0
    """Seconds without a request; chosen: opening again costs a few milliseconds."""

    max_idle: int = 512
    """Idle sessions in total; the longest idle is parked first. Chosen: some 25 MB."""

    max_idle_per_caller: int = 64
    """Idle sessions of one caller; chosen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedSession:
    """What a signed id says of its session."""

    nonce: str
    """Tells it from all others."""

    expires_at: float
    """Seconds since 1970 from which on the id is worth nothing."""

    client_info: Json
    """Name and version of the client."""

    capabilities: Json
    """What the client can be asked."""


@dataclass
class _HandshakeSession:
    """A session that clients know by its signed id."""

    caller_id: str
    sdk_id: str | None = None
    """Id of the SDK's session; None: there is none in this process now."""
    running: int = 0
    """Requests and streams that are open."""
    idle_since: float = 0.0
    """Monotonic seconds."""
    is_ending: bool = False
    """Whether its client has asked for its end."""
    state: dict[str, Json] = field(default_factory=dict[str, Json])
    """Messages that restore log level and subscriptions."""
    opening: anyio.Lock = field(default_factory=anyio.Lock)


class HandshakeSessions:
    """The sessions of clients, and which session of the SDK each of them stands for."""

    def __init__(
        self, signer: Signer, answer: Answer, *, limits: ParkingLimits | None = None
    ) -> None:
        """Start without sessions.

        Args:
            signer: Signs the same in every replica.
            answer: The SDK.
            limits: When idle sessions are parked.
        """
        self._signer = signer
        self._answer = answer
        self._limits = limits or ParkingLimits()
        self._sessions: dict[str, _HandshakeSession] = {}
        """By the nonce in the id; parked ones only if they have a state to restore."""
        self._idle: OrderedDict[str, _HandshakeSession] = OrderedDict()
        """Those that the SDK keeps without an open request; the longest idle first."""
        self._idle_by_caller: Counter[str] = Counter()
        self._ended: dict[str, None] = {}
        self._verified: dict[str, OpenedSession] = {}
        """By the whole id, whose signature was checked."""
        self._parking: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_count(self) -> int:
        """Sessions without an open request that the SDK keeps now."""
        return len(self._idle)

    def opened(self, session_id: str) -> OpenedSession | None:
        """What the id of a session says; None where it is not good, or the session has ended."""
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

    def log_level(self, opened: OpenedSession) -> str | None:
        """The least severe log messages that the client of a session wants; None: it set none."""
        session = self._sessions.get(opened.nonce)
        if session is None or not session.state:
            return None
        message = session.state.get("logging/setLevel")
        return None if message is None else message["params"]["level"]

    def owner(self, session_id: str) -> str | None:
        """Caller id of who opened a session; None where its id does not say."""
        opened = self._opened(session_id)
        return None if opened is None else str(opened.get("c"))

    def assign_id(self, send: Send, params: Json, caller_id: str) -> Send:
        """A `send` that gives a session that is opened a signed id."""

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
        """Have a request go to the session that an id stands for; gives how its answer goes back.

        Args:
            session_id: As the request has it.
            scope: Of the request; its header is exchanged.
            send: Takes the answer.
            message: What the request says; None: it opens a stream or ends the session.
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
                # The SDK keeps `send` until garbage is collected: it must not hold the message.
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
                    self._sessions.pop(nonce, None)
                    self._ended[nonce] = None
                    _forget_oldest(self._ended)
                elif part["status"] < 300 and stateful is not None:
                    _remember_state(session, *stateful)
                if _session_of(part) is not None:
                    part = _with_session(part, session_id)
            await send(part)

        return send_back

    # Parking

    def _wake(self, nonce: str, session: _HandshakeSession) -> None:
        """A request has come for a session."""
        if self._idle.pop(nonce, None) is not None:
            self._idle_by_caller[session.caller_id] -= 1
            if not self._idle_by_caller[session.caller_id]:
                del self._idle_by_caller[session.caller_id]

    def _rest(self, nonce: str, session: _HandshakeSession) -> None:
        """The last open request of a session has ended."""
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
        task = asyncio.create_task(self._end(sdk_id), name="toolgate-park-session")
        self._parking.add(task)
        task.add_done_callback(self._parking.discard)

    def _forget_or_keep(self, nonce: str, session: _HandshakeSession) -> None:
        """Keep of a parked session only what cannot be read from its id."""
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
            """Nobody waits for the answer."""

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
        """How a session was opened; None where its id was not signed here, or is too old."""
        try:
            opened = self._signer.check(_PURPOSE, session_id)
        except HandleError:
            return None
        return opened if opened.get("e", 0) > time() else None

    async def _open(self, session: _HandshakeSession, opened: Json, scope: Scope) -> str | None:
        """Open a session as it was opened before; gives the SDK's id."""
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
        """Send the SDK a message of our own; gives the session that it answers in."""
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
    """A `send` that answers a message to a session that ends meanwhile as one that came later.

    When the end overtakes the message, the SDK fails with an internal error, or with a stream
    without an answer (mcp 2.3.0).
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
    """Method and value of a request that changes the state of its session."""
    method = "" if message is None else str(message.get("method"))
    if message is None or method not in _STATEFUL:
        return None
    return method, json_object(message.get("params")).get(_STATEFUL[method])


def _remember_state(session: _HandshakeSession, method: str, value: object) -> None:
    """Keep what a session has to be told again when it is opened again."""
    if method == "resources/unsubscribe":
        session.state.pop(f"resources/subscribe {value}", None)
        return
    key = method if method == "logging/setLevel" else f"{method} {value}"
    state = {**session.state, key: {"method": method, "params": {_STATEFUL[method]: value}}}
    if len(dumps(state)) <= _MAX_STATE_BYTES:
        session.state = state


def _essential(capabilities: Json) -> Json:
    """The capabilities that matter here, without anything that a client may add to them."""
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
