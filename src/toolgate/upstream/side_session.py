"""The second connection to a server that speaks both eras, for clients of the handshake era."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from toolgate.errors import ToolgateError
from toolgate.types import Peer, ServerSpec
from toolgate.upstream.era_session import EraSession

log = logging.getLogger(__name__)


class SideSession:
    """The handshake-era connection next to a modern one, opened when a client needs it."""

    def __init__(
        self,
        spec: ServerSpec,
        connect: Callable[[], Awaitable[EraSession]],
        *,
        is_connected: Callable[[], bool],
        spawn: Callable[[Awaitable[Any]], None],
    ) -> None:
        self.session: EraSession | None = None
        """The connection; None until it is needed, and after it has ended."""
        self.only_tools: frozenset[str] = frozenset()
        """Tools that the server offers only in the handshake era."""
        self._spec = spec
        self._connect = connect
        self._is_connected = is_connected
        self._spawn = spawn
        self._lock = asyncio.Lock()
        self._is_refused = False

    def allow(self) -> None:
        """Allow another attempt after the server refused the handshake era."""
        self._is_refused = False

    def detach(self) -> EraSession | None:
        """Stop using the connection and return it; the caller has to close it."""
        session, self.session = self.session, None
        self.only_tools = frozenset()
        return session

    async def choose(self, main: EraSession, peer: Peer | None, target: str) -> EraSession:
        """The connection for a request: the main one unless client or tool needs this one."""
        # After a refusal, the server is not asked again on every call.
        if main.era == "handshake" or self._is_refused:
            return main
        if target in self.only_tools and self.session is not None:
            return self.session
        if peer is None or peer.era == "modern" or not self._is_needed(peer):
            return main
        return await self._opened() or main

    def _is_needed(self, peer: Peer) -> bool:
        """Whether a handshake-era client needs its own era on a server that speaks both.

        Tools that ask in the middle of a call work only in the handshake era there. Over HTTP
        the second connection costs nothing; over stdio it is a second process with its own
        state, so it is created only for clients that can be asked something.
        """
        if self._spec.era == "modern":
            return False
        return self._spec.kind != "stdio" or bool(
            {"elicitation", "sampling"} & set(peer.capabilities)
        )

    async def _opened(self) -> EraSession | None:
        # Calls may be concurrent; a stdio server must not be started once for each.
        async with self._lock:
            if self.session is not None or self._is_refused or not self._is_connected():
                return self.session
            try:
                self.session = await self._connect()
            except (TimeoutError, ToolgateError) as error:
                log.info(
                    "server does not support sessions (2025-11-25 and older)",
                    extra={"server": self._spec.name, "error": str(error)},
                )
                self._is_refused = True
                return None
            self._spawn(self._watch(self.session))
            return self.session

    async def _watch(self, session: EraSession) -> None:
        await session.wire.closed()
        # `detach` may have taken it; its caller closes it.
        if self.session is session:
            self.session = None
            await session.aclose()
