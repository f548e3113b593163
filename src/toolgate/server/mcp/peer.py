"""The back channel to a client during one request, as the rest of Toolgate uses it."""

from collections.abc import Mapping
from typing import Any, Protocol

from toolgate.errors import CannotAskError
from toolgate.server.mcp.methods import LOG_LEVELS
from toolgate.types import Era, Json, json_object

_ASKS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The capability that a client must have declared, by the method of the request to it."""


class Channel(Protocol):
    """The stream of one request."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Send the client a request.

        Raises:
            CannotAskError: The client has disconnected.
            RpcError: The client responded with an error.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification; return once it is queued, so that the result comes later."""
        ...


class ClientPeer:
    """A client during one request."""

    def __init__(
        self,
        channel: Channel,
        *,
        era: Era,
        capabilities: Json,
        progress_token: str | int | None,
        log_level: str | None,
    ) -> None:
        self._channel = channel
        self._era: Era = era
        self._capabilities = capabilities
        self._token = progress_token
        self._level = log_level

    @property
    def era(self) -> Era:
        """Protocol era of the client."""
        return self._era

    @property
    def capabilities(self) -> Json:
        """Capabilities of the client, as declared."""
        return self._capabilities

    @property
    def wants_progress(self) -> bool:
        """Whether the client sent a progress token."""
        return self._token is not None

    @property
    def log_level(self) -> str | None:
        """Lowest level of log messages that the client asked for."""
        return self._level

    async def progress(self, params: Json) -> None:
        """Pass on progress with the client's own token."""
        if self._token is not None:
            await self._channel.notify(
                "notifications/progress", {**params, "progressToken": self._token}
            )

    async def log(self, params: Json) -> None:
        """Pass on a log message, unless its level is below the one the client wants."""
        if passes_log_level(params, self._level, self._era):
            await self._channel.notify("notifications/message", params)

    async def ask(self, method: str, params: Json) -> Json:
        """Send the client a request on the stream of its own request.

        Raises:
            CannotAskError: The client lacks the capability, or has disconnected.
            RpcError: The client responded with an error.
        """
        missing = _missing_capability(method, params, self._capabilities)
        if self._era == "modern" or missing:
            raise CannotAskError(
                f"The server asks the client for {method!r}, which this client cannot answer.",
                hint=f"Use a client that declares the capability {missing!r}." if missing else "",
            )
        return await self._channel.send_raw_request(method, params)


def passes_log_level(params: Json, level: str | None, era: Era) -> bool:
    """Whether a log message may go to a client that asked for `level`.

    A modern client that set no level gets no messages. In the handshake era a server decides
    what to send to a client that set no level, so every message passes.
    """
    if level is None:
        return era == "handshake"
    message_level = params.get("level")
    return message_level not in LOG_LEVELS or LOG_LEVELS.index(message_level) >= LOG_LEVELS.index(
        level
    )


def _missing_capability(method: str, params: Json, declared: Json) -> str:
    """Return the capability that the client lacks for this request; empty if none."""
    name = _ASKS.get(method, method)
    if name not in declared or declared[name] is None:
        return name
    if name == "elicitation":
        modes = json_object(declared[name])
        mode = params.get("mode", "form")
        # An empty declaration means form mode:
        # https://modelcontextprotocol.io/specification/2025-11-25
        if mode not in modes and not (mode == "form" and "url" not in modes):
            return f"elicitation.{mode}"
    if name == "sampling" and params.get("tools") and "tools" not in json_object(declared[name]):
        return "sampling.tools"
    return ""
