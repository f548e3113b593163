"""Clients as guarded calls see them: what servers send is checked, approvals can be collected."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

from toolgate.errors import CannotAskError, GuardError
from toolgate.security.guards.call_guard import CallGuard
from toolgate.types import Era, Json, Peer

Look = Callable[[Callable[[str, Json], tuple[Json, Json]], str, Json], Awaitable[tuple[Json, Json]]]


class _WrappedPeer:
    """A peer that passes everything on."""

    def __init__(self, peer: Peer) -> None:
        """Wrap a peer."""
        self._peer = peer

    @property
    def era(self) -> Era:
        """The protocol era of the client."""
        return self._peer.era

    @property
    def capabilities(self) -> Json:
        """The capabilities of the client."""
        return self._peer.capabilities

    @property
    def wants_progress(self) -> bool:
        """Whether the client wants progress messages."""
        return self._peer.wants_progress

    @property
    def log_level(self) -> str | None:
        """The log level that the client wants."""
        return self._peer.log_level

    async def progress(self, params: Json) -> None:
        """Forward progress."""
        await self._peer.progress(params)

    async def log(self, params: Json) -> None:
        """Forward a log message."""
        await self._peer.log(params)

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client.

        Raises:
            CannotAskError: The client cannot be asked this.
            RpcError: The client answered with an error.
        """
        return await self._peer.ask(method, params)


class CollectingPeer(_WrappedPeer):
    """A client of the handshake era that is asked about several approvals at once, by the caller.

    Its calls give questions about approvals as results instead of asking them one by one.
    """

    def __init__(
        self, peer: Peer, *, asking: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Wrap a peer.

        Args:
            peer: The client.
            asking: Entered while the person at the client is asked.
        """
        super().__init__(peer)
        self._asking = asking

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client; see `Peer.ask`."""
        with self._asking():
            return await super().ask(method, params)


class GuardedPeer(_WrappedPeer):
    """A peer that hides secrets from the client, and from the server where configured."""

    def __init__(self, peer: Peer, guard: CallGuard, key: str, inspect: Look) -> None:
        """Wrap a peer.

        Args:
            peer: The client that made the call.
            guard: The guard of the call.
            key: Its tool, for errors.
            inspect: Runs a check, in a thread if the value is large.
        """
        super().__init__(peer)
        self._guard = guard
        self._key = key
        self._inspect = inspect

    async def progress(self, params: Json) -> None:
        """Forward progress, without secrets."""
        await self._peer.progress(await self._without_secrets(params))

    async def log(self, params: Json) -> None:
        """Forward a log message, without secrets."""
        await self._peer.log(await self._without_secrets(params))

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client, without secrets; its answer is checked like arguments.

        Raises:
            CannotAskError: The client cannot be asked this, or its answer is not allowed.
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
