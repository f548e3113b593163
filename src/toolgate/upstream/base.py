"""Interfaces of transports to upstream servers, and of the receivers of their messages.

A wire carries the JSON-RPC messages of one connection and knows nothing about protocol eras,
tools or reconnecting: `era_session` performs the handshake over it, `server` keeps it alive.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from toolgate.types import Json


class Credential(Protocol):
    """Credentials that a connection sends in addition to those in its options."""

    async def headers(self) -> Mapping[str, str]:
        """Headers for the next request, with lower-case names; they override those of the options.

        Raises:
            LoginNeededError: A credential is required, and there is none.
        """
        ...

    async def environment(self) -> Mapping[str, str]:
        """Variables for a process that is about to be started; raises the errors of `headers`."""
        ...

    async def refused(self, *, sent: Mapping[str, str], status: int, challenge: str) -> bool:
        """Handle a refused request, and return whether to send it once more.

        Args:
            sent: The result of `headers` for it.
            status: 401 or 403.
            challenge: The response's `WWW-Authenticate`.

        Raises:
            LoginNeededError: Only a person can help.
        """
        ...


class CallSink(Protocol):
    """Receives what arrives for one request before its answer.

    The wire awaits each call in the order of arrival, all of them before `Wire.request` returns,
    so nothing about a request arrives after its result.
    """

    async def progress(self, params: Json) -> None:
        """Receive a `notifications/progress` for this request: `progress`, `total`, `message`."""
        ...

    async def log(self, params: Json) -> None:
        """Receive a `notifications/message` that arrived on this request's own stream."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Answer a server's request on this request's own stream; return the result to send back.

        Raises:
            ToolgateError: It cannot be answered; the wire sends a JSON-RPC error (an `RpcError`
                with its own code, message and data, -32601 for `CannotAskError`, else -32603).
        """
        ...


class WireEvents(Protocol):
    """Receives messages that a wire cannot assign to a request."""

    async def on_request(self, method: str, params: Json) -> Json:
        """Answer a server's request; return the result to send back, or raise as `CallSink.ask`."""
        ...

    async def on_notification(self, method: str, params: Json) -> None:
        """Receive a notification; awaited in the order of arrival. Must return quickly."""
        ...


@runtime_checkable
class Wire(Protocol):
    """One connection to one server.

    Duties of an implementation, all checked by `toolgate.testing.contracts.upstream`:

    * `request` returns the `result` object as it was sent: unknown fields, `_meta`, big numbers.
    * Requests run concurrently; a slow one delays no other; a 10 MB answer does not block the
        loop for more than a moment.
    * What arrives for a request is passed to its sink in order and before its result.
    * A cancelled `request` notifies the server (`notifications/cancelled`, or by closing the
        stream if the era works that way) and leaves nothing behind.
    * When the connection ends, every waiting `request` raises `ConnectionLostError` at once,
        `sent` says whether its request had been written, and `closed` returns the reason.
    * Whatever the server sends (text that is not JSON, invalid UTF-8, results that are not
        objects, unexpected answers, messages over the limit) fails at most the request it
        belongs to.
    * `aclose` stops everything it started, waits for it, and may be called twice.
    """

    @property
    def pid(self) -> int | None:
        """Process id of a child; None if there is no child."""
        ...

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last 50 lines of a child's standard error, each cut to 500 characters."""
        ...

    async def open(self, events: WireEvents) -> None:
        """Open the connection; messages may arrive from now on.

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
        """Send a request and wait for its result; callers enforce deadlines by cancelling.

        Args:
            method: JSON-RPC method.
            params: Parameters as they are sent; the wire adds only a progress token.
            headers: For wires over HTTP: protocol version, `Mcp-Method` and so on, lower case.
            sink: Receives progress, logs and questions of this request; None: progress and logs
                are dropped, and questions go to `WireEvents.on_request`.
            progress: Whether to put a fresh `progressToken` into `params._meta`.

        Raises:
            RpcError: The server answered with an error.
            ConnectionLostError: The connection ended first.
            InvalidAnswerError: The answer is not a result object, is not text, or is too large.
        """
        ...

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Send a notification; it is dropped if it cannot be sent."""
        ...

    def begin_session(self, version: str) -> None:
        """Start to receive unsolicited messages, if any; called once after a handshake.

        HTTP wires open the handshake era's GET stream here and send the session id with every
        request; others do nothing.
        """
        ...

    async def closed(self) -> str:
        """Wait until the connection has ended; return the reason as one sentence."""
        ...

    async def aclose(self) -> None:
        """Close the connection: delete the session, close the streams, stop the process group."""
        ...


class ChildlessWire:
    """Base of wires that start no child process; a subclass may override each of these."""

    @property
    def pid(self) -> int | None:
        """None, since there is no child."""
        return None

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """Empty, since there is no child."""
        return ()

    def begin_session(self, version: str) -> None:
        """Do nothing: unsolicited messages, if any, arrive on the one connection."""
