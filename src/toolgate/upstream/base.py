"""The interfaces of transports to upstream servers, and of what they report to.

A wire carries JSON-RPC messages of one connection and knows nothing of protocol eras, tools or
reconnecting: `_leg` makes the handshake over it, `_server` keeps it alive.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from toolgate.types import Json

__all__ = ["CallSink", "Credential", "Wire", "WireEvents"]


class Credential(Protocol):
    """What a connection shows of itself beside what stands in its options."""

    async def headers(self) -> Mapping[str, str]:
        """Headers for the next request, names in lower case; they win over those of the options.

        Raises:
            LoginNeededError: There is nothing to show, and something has to be.
        """
        ...

    async def environment(self) -> Mapping[str, str]:
        """Variables for a process that is about to be started; raises as `headers`."""
        ...

    async def refused(self, *, sent: Mapping[str, str], status: int, challenge: str) -> bool:
        """The server refused a request; whether it is worth sending once more.

        Args:
            sent: What `headers` gave for it.
            status: 401 or 403.
            challenge: Its `WWW-Authenticate`.

        Raises:
            LoginNeededError: Only a person can help.
        """
        ...


class CallSink(Protocol):
    """Where a wire hands what arrives for one request before its answer.

    The wire awaits each call in the order of arrival, all of them before `Wire.request` returns,
    so that nothing of a call comes after its result.
    """

    async def progress(self, params: Json) -> None:
        """A `notifications/progress` for this request: `progress`, `total`, `message`."""
        ...

    async def log(self, params: Json) -> None:
        """A `notifications/message` that arrived on this request's own stream."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """A request of the server on this request's own stream; gives the result to send back.

        Raises:
            ToolgateError: It cannot be answered; the wire sends a JSON-RPC error (an `RpcError`
                with its own code, message and data, -32601 for `CannotAskError`, else -32603).
        """
        ...


class WireEvents(Protocol):
    """Where a wire hands what belongs to no request that it can name."""

    async def on_request(self, method: str, params: Json) -> Json:
        """A request of the server; gives the result to send back, raises as `CallSink.ask`."""
        ...

    async def on_notification(self, method: str, params: Json) -> None:
        """A notification; awaited in the order of arrival. Must return quickly."""
        ...


@runtime_checkable
class Wire(Protocol):
    """One connection to one server.

    Duties of an implementation, all checked by `toolgate.testing.contracts.upstream`:

    * `request` gives the `result` object as it was sent: unknown fields, `_meta`, big numbers.
    * Requests run side by side; a slow one delays no other; a 10 MB answer does not block the loop
      for more than a moment.
    * What arrives for a request is handed to its sink in order and before its result.
    * A cancelled `request` tells the server (`notifications/cancelled`, or by ending the stream
      where the era works so) and leaves nothing behind.
    * When the connection ends, every waiting `request` raises `ConnectionLostError` at once, `sent`
      says whether its request had been written, and `closed` returns the reason.
    * Whatever the server sends (text that is no JSON, wrong UTF-8, results that are no objects,
      answers nobody waits for, messages over the limit) at most fails the request it belongs to.
    * `aclose` ends everything it started, waits for it, and may be called twice.
    """

    @property
    def pid(self) -> int | None:
        """Process id of a child; None where there is none."""
        ...

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last 50 lines of a child's standard error, each cut at 500 characters."""
        ...

    async def open(self, events: WireEvents) -> None:
        """Make the connection; messages may arrive from here on.

        Raises:
            UnreachableError: Command not found, connection refused, and the like.
        """
        ...

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Send a request and wait for its result; deadlines are the caller's, by cancelling.

        Args:
            method: JSON-RPC method.
            params: As they go out; the wire adds nothing but a progress token.
            headers: For wires over HTTP: protocol version, `Mcp-Method` and so on, lower case.
            sink: Receives progress, logs and questions of this request; None drops progress and
                logs, and questions go to `WireEvents.on_request`.
            progress: Whether to put a fresh `progressToken` into `params._meta`.

        Raises:
            RpcError: The server answered with an error.
            ConnectionLostError: The connection ended first.
            InvalidAnswerError: The answer is no result object, is not text, or is too large.
        """
        ...

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Send a notification; one that cannot be sent is dropped."""
        ...

    def begin_session(self, version: str) -> None:
        """Called once after a handshake: messages not asked for may be wanted from now on.

        HTTP wires open the GET stream of the handshake era here and send the session id with every
        request; others do nothing.
        """
        ...

    async def closed(self) -> str:
        """Wait until the connection has ended; gives the reason as one sentence."""
        ...

    async def aclose(self) -> None:
        """End the connection: session deleted, streams closed, process group gone."""
        ...
