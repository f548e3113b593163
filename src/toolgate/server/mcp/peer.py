"""The connection back to a client during one request, as the rest of Toolgate sees it."""

from collections.abc import Mapping
from typing import Any, Protocol

from toolgate.errors import CannotAskError
from toolgate.server.mcp.methods import LOG_LEVELS
from toolgate.types import Era, Json, json_object

__all__ = ["Channel", "ClientPeer", "passes_log_level"]

_ASKS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The capability that a client must have declared, by what it is asked."""


class Channel(Protocol):
    """The stream of one request."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Ask the client.

        Raises:
            CannotAskError: It is not there.
            RpcError: It answered with an error.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Tell the client; returns when it is on its way, so that the result comes later."""
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
        """Era of the client."""
        return self._era

    @property
    def capabilities(self) -> Json:
        """What it declared, as it declared it."""
        return self._capabilities

    @property
    def wants_progress(self) -> bool:
        """Whether it sent a progress token."""
        return self._token is not None

    @property
    def log_level(self) -> str | None:
        """Lowest level of log messages it asked for."""
        return self._level

    async def progress(self, params: Json) -> None:
        """Pass progress on under the client's own token."""
        if self._token is not None:
            await self._channel.notify(
                "notifications/progress", {**params, "progressToken": self._token}
            )

    async def log(self, params: Json) -> None:
        """Pass a log message on, unless the client does not want its level."""
        if passes_log_level(params, self._level, self._era):
            await self._channel.notify("notifications/message", params)

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client on the stream of its request.

        Raises:
            CannotAskError: It did not declare that it can answer this, or is not there.
            RpcError: It answered with an error.
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

    A modern client that asked for none gets none; in the handshake era a server decides itself
    what to send to a client that set no level, so all of it passes.
    """
    if level is None:
        return era == "handshake"
    message_level = params.get("level")
    return message_level not in LOG_LEVELS or LOG_LEVELS.index(message_level) >= LOG_LEVELS.index(
        level
    )


def _missing_capability(method: str, params: Json, declared: Json) -> str:
    """Name of the capability that the client lacks for this request; empty when it has it."""
    name = _ASKS.get(method, method)
    if name not in declared or declared[name] is None:
        return name
    if name == "elicitation":
        modes = json_object(declared[name])
        mode = params.get("mode", "form")
        # An empty declaration means forms: https://modelcontextprotocol.io/specification/2025-11-25
        if mode not in modes and not (mode == "form" and "url" not in modes):
            return f"elicitation.{mode}"
    if name == "sampling" and params.get("tools") and "tools" not in json_object(declared[name]):
        return "sampling.tools"
    return ""
