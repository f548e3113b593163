"""Guards what a server sends to the client while its tool runs."""

from collections.abc import Awaitable, Callable

from toolgate.errors import CannotAskError, GuardError
from toolgate.security.guards.call_guard import CallGuard
from toolgate.types import Era, Json, Peer

__all__ = ["GuardedPeer"]

Look = Callable[[Callable[[str, Json], tuple[Json, Json]], str, Json], Awaitable[tuple[Json, Json]]]


class GuardedPeer:
    """A peer that is told no secret of a server, and tells the server none where it may not."""

    def __init__(self, peer: Peer, guard: CallGuard, key: str, inspect: Look) -> None:
        """Wrap a peer.

        Args:
            peer: Whoever made the call.
            guard: What holds for the call.
            key: Its tool, for errors.
            inspect: Has something large looked at elsewhere.
        """
        self._peer = peer
        self._guard = guard
        self._key = key
        self._inspect = inspect

    @property
    def era(self) -> Era:
        """That of the client."""
        return self._peer.era

    @property
    def capabilities(self) -> Json:
        """Those of the client."""
        return self._peer.capabilities

    @property
    def wants_progress(self) -> bool:
        """Whether the client does."""
        return self._peer.wants_progress

    @property
    def log_level(self) -> str | None:
        """That of the client."""
        return self._peer.log_level

    async def progress(self, params: Json) -> None:
        """Pass progress on, without secrets."""
        await self._peer.progress(await self._without_secrets(params))

    async def log(self, params: Json) -> None:
        """Pass a message on, without secrets."""
        await self._peer.log(await self._without_secrets(params))

    async def ask(self, method: str, params: Json) -> Json:
        """Ask without secrets; the answer is looked at like arguments.

        Raises:
            CannotAskError: The client cannot be asked this, or its answer may not go on.
        """
        answer = await self._peer.ask(method, await self._without_secrets(params))
        try:
            passed, _ = await self._inspect(self._guard.answers, self._key, answer)
        except GuardError as error:
            raise CannotAskError(error.failed, allowed=error.allowed, hint=error.hint) from error
        return passed

    async def _without_secrets(self, params: Json) -> Json:
        masked, _ = await self._inspect(self._guard.notice, self._key, params)
        return masked
