"""Checks of handshake sessions: their owner, and unique request ids."""

import contextlib
from collections.abc import Generator

from toolgate.server.asgi.parsing.headers import header, header_in
from toolgate.server.asgi.parsing.messages import Message, Scope, Send
from toolgate.server.mcp.handshake.sessions import HandshakeSessions
from toolgate.types import Caller

_MAX_SESSIONS = 100_000
"""Largest number of sessions whose owner is stored here; chosen: some 20 MB."""


class SessionGuard:
    """Tracks owners of sessions and ids of their running requests."""

    def __init__(self, sessions: HandshakeSessions) -> None:
        self._sessions = sessions
        self._owners: dict[str, str] = {}
        """Caller ids by session, for session ids that do not contain one."""
        self._running: set[tuple[str, str]] = set()
        """Session and id of each running request."""

    def owner_of(self, scope: Scope) -> str | None:
        """Return the caller that opened the request's session, even in another process."""
        return self._owner(header(scope, b"mcp-session-id") or "")

    def may_use(self, scope: Scope, caller: Caller) -> bool:
        """Whether the request names no session, or one that the same caller opened."""
        has_session = header(scope, b"mcp-session-id") is not None
        return not has_session or self.owner_of(scope) == caller.caller_id

    def recording_owner(self, send: Send, caller: Caller) -> Send:
        """Return a `send` that records the caller as owner of the session in the response."""

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
        """Whether the id is unique among running requests of the session; reserves it.

        With a repeated id the SDK sends both responses to the later request, and the earlier one
        would wait forever; for the SDK 1 and "1" are the same id (mcp 2.3.0).
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
