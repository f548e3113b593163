"""Handshake-era sessions with signed ids that every process on the same store understands.

The SDK keeps a session in one process. Its name outside is signed and says how it was opened, so
another replica, or the same gateway after a restart, opens it again by itself and goes on.
"""

import secrets
from collections.abc import Awaitable, Callable
from time import time
from typing import Any

import anyio

from toolgate.base.json_text import dumps
from toolgate.base.signing import Signer
from toolgate.errors import HandleError
from toolgate.server.asgi.parsing.messages import Message, Receive, Scope, Send
from toolgate.server.mcp.summarize_body import FULL_PARAMS
from toolgate.types import Json, json_object

__all__ = ["SessionNames"]

_PURPOSE = "session"
_HEADER = b"mcp-session-id"
_LONGEST = 1_500
"""Characters of a name; proxies take some thousands of bytes of headers."""
_GOOD_FOR_S = 30 * 86_400
_MOST = 100_000
_OPEN_S = 10.0
_CAPABILITIES = ("elicitation", "roots", "sampling")
"""What a client can be asked."""

Answer = Callable[[Scope, Receive, Send], Awaitable[None]]


class SessionNames:
    """Names of sessions, and which session of this process each stands for."""

    def __init__(self, signer: Signer) -> None:
        """Know none yet.

        Args:
            signer: Signs the same in every replica.
        """
        self._signer = signer
        self._inner: dict[str, str] = {}
        """Ids of the SDK, by name."""
        self._ended: dict[str, None] = {}
        self._opening = anyio.Lock()

    def owner(self, name: str) -> str | None:
        """Who opened a session; None where its name does not say."""
        opened = self._opened(name)
        return None if opened is None else str(opened.get("c"))

    def assign_name(self, send: Send, params: Json, caller_id: str) -> Send:
        """A `send` that gives a session that is opened a name."""

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start" and (inner := _session_of(message)):
                name = self._name(params, caller_id)
                if len(name) <= _LONGEST:
                    self._inner[name] = inner
                    _forget_oldest(self._inner)
                    message = _with_session(message, name)
            await send(message)

        return send_named

    async def enter(self, name: str, scope: Scope, send: Send, answer: Answer) -> Send:
        """Have a request go to the session that a name stands for; gives how its answer goes back.

        Args:
            name: As the request has it.
            scope: Of the request; its header is exchanged.
            send: Takes the answer.
            answer: The SDK.
        """
        opened = self._opened(name)
        if opened is None or name in self._ended:
            return send
        if name not in self._inner:
            async with self._opening:
                if name not in self._inner:
                    await self._open(name, opened, scope, answer)
        if (inner := self._inner.get(name)) is None:
            return send
        scope["headers"] = [
            (key, inner.encode() if key == _HEADER else value) for key, value in scope["headers"]
        ]
        is_end = scope["method"] == "DELETE"

        async def send_back(message: Message) -> None:
            if message["type"] == "http.response.start":
                if is_end or message["status"] == 404:
                    self._inner.pop(name, None)
                if is_end and message["status"] < 300:
                    self._ended[name] = None
                    _forget_oldest(self._ended)
                if _session_of(message) is not None:
                    message = _with_session(message, name)
            await send(message)

        return send_back

    def _name(self, params: Json, caller_id: str) -> str:
        client = json_object(params.get("clientInfo"))
        can = json_object(params.get("capabilities"))
        return self._signer.sign(
            _PURPOSE,
            {
                "n": secrets.token_urlsafe(12),
                "e": int(time()) + _GOOD_FOR_S,
                "c": caller_id,
                "p": {
                    "protocolVersion": params.get("protocolVersion"),
                    "capabilities": {key: can[key] for key in _CAPABILITIES if key in can},
                    "clientInfo": {
                        key: str(client.get(key, ""))[:100] for key in ("name", "version")
                    },
                },
            },
        )

    def _opened(self, name: str) -> Json | None:
        """How a session was opened; None where its name was not made so, or is too old."""
        try:
            opened = self._signer.check(_PURPOSE, name)
        except HandleError:
            return None
        return opened if opened.get("e", 0) > time() else None

    async def _open(self, name: str, opened: Json, scope: Scope, answer: Answer) -> None:
        """Open a session here as it was opened elsewhere."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opened["p"]}
        inner = await _sent(hello, (), scope, answer)
        if inner is None:
            return
        version = str(json_object(opened["p"]).get("protocolVersion"))
        headers = ((_HEADER, inner.encode()), (b"mcp-protocol-version", version.encode()))
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await _sent(ready, headers, scope, answer)
        self._inner[name] = inner
        _forget_oldest(self._inner)


async def _sent(
    message: Json, headers: tuple[tuple[bytes, bytes], ...], scope: Scope, answer: Answer
) -> str | None:
    """Send the SDK a message of our own; gives the session that it answers in."""
    session: str | None = None
    is_given = False

    async def receive() -> Message:
        nonlocal is_given
        if is_given:
            await anyio.sleep_forever()
        is_given = True
        return {"type": "http.request", "body": dumps(message), "more_body": False}

    async def send(part: Message) -> None:
        nonlocal session
        if part["type"] == "http.response.start" and part["status"] < 300:
            session = _session_of(part)

    json_headers = (
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
    )
    host_headers = tuple(pair for pair in scope["headers"] if pair[0] == b"host")
    inner: Scope = {**scope, "method": "POST", "headers": [*host_headers, *json_headers, *headers]}
    inner.pop(FULL_PARAMS, None)
    with anyio.move_on_after(_OPEN_S):
        await answer(inner, receive, send)
    return session


def _session_of(message: Message) -> str | None:
    values = [value for key, value in message.get("headers", ()) if key.lower() == _HEADER]
    return values[-1].decode("latin-1") if values else None


def _with_session(message: Message, name: str) -> Message:
    headers = [
        (key, name.encode() if key.lower() == _HEADER else value)
        for key, value in message["headers"]
    ]
    return {**message, "headers": headers}


def _forget_oldest(entries: dict[str, Any]) -> None:
    if len(entries) > _MOST:
        del entries[next(iter(entries))]
