"""Checks of handshake sessions: who opened one, and that request ids in it are unique."""

import contextlib
from collections.abc import Generator

from toolgate.server.asgi.parsing.headers import header, header_in
from toolgate.server.asgi.parsing.messages import Message, Scope, Send
from toolgate.server.mcp.handshake.sessions import HandshakeSessions
from toolgate.types import Caller

__all__ = ["SessionGuard"]

_MAX_SESSIONS = 100_000
"""Sessions whose owner is remembered here; chosen: some 20 MB."""


class SessionGuard:
    """Knows the owners of sessions and the ids of their running requests."""

    def __init__(self, sessions: HandshakeSessions) -> None:
        self._sessions = sessions
        self._owners: dict[str, str] = {}
        """Caller ids by session, for sessions whose id does not say it."""
        self._running: set[tuple[str, str]] = set()
        """Session and id of each running request."""

    def owner_of(self, scope: Scope) -> str | None:
        """Who opened the session that a request names, here or in another process."""
        return self._owner(header(scope, b"mcp-session-id") or "")

    def may_use(self, scope: Scope, caller: Caller) -> bool:
        """Whether the session of a request, if it names one, was opened by the same caller."""
        has_session = header(scope, b"mcp-session-id") is not None
        return not has_session or self.owner_of(scope) == caller.caller_id

    def recording_owner(self, send: Send, caller: Caller) -> Send:
        """A `send` that records who opened the session that a response names."""

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                session = header_in(message.get("headers", ()), b"mcp-session-id")
                if session is not None and self._owner(session) is None:
                    self._owners[session] = caller.caller_id
                    if len(self._owners) > _MAX_SESSIONS:
                        del self._owners[next(iter(self._owners))]
            await send(message)

        return send_recorded

    def _owner(self, session: str) -> str | None:
        if (caller_id := self._owners.get(session)) is not None:
            return caller_id
        return self._sessions.owner(session)

    @contextlib.contextmanager
    def unique_request(self, scope: Scope, request_id: object) -> Generator[bool]:
        """Whether no running request of the session has the same id; reserves the id meanwhile.

        The SDK gives both answers to the later request, and the earlier one would wait for ever;
        for the SDK 1 and "1" are the same id (mcp 2.3.0).
        """
        session = header(scope, b"mcp-session-id")
        if session is None or request_id is None:
            yield True
            return
        key = (session, str(request_id))
        if key in self._running:
            yield False
            return
        self._running.add(key)
        try:
            yield True
        finally:
            self._running.discard(key)
