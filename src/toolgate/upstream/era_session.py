"""One connection to a server in one protocol era: handshake, requests, subscriptions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Literal, Protocol

import anyio

from toolgate.errors import (
    CannotAskError,
    ConnectionLostError,
    RpcError,
    ToolgateError,
    UnreachableError,
    UpstreamError,
)
from toolgate.types import (
    HANDSHAKE_VERSIONS,
    LEGACY_VERSION,
    MODERN_VERSION,
    Era,
    Json,
    json_array,
    json_object,
)
from toolgate.upstream.base import Wire
from toolgate.upstream.calls.client_call import ASKABLE, ClientCall, severity
from toolgate.upstream.request_metadata import CLIENT_INFO, HeaderParams, envelope

log = logging.getLogger(__name__)

_SILENCE_S = 5.0
"""Seconds a server may ignore `server/discover` before `initialize` is sent as well."""
# Modern-era error code: the server does not support the version of the request.
_UNSUPPORTED_VERSION = -32022
# https://www.jsonrpc.org/specification#error_object
_METHOD_NOT_FOUND = -32601
# Seconds a server has to accept a log level (chosen: a call must not wait long for that).
_LOG_GUARD_S = 1.0
# Seconds a subscription has to last before its end counts as an accident (chosen).
_STEADY_S = 10.0
_CHANGES: dict[str, Literal["tools", "prompts", "resources"]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


class EraSessionObserver(Protocol):
    """Is notified of unsolicited messages of a server."""

    def list_changed(
        self, session: "EraSession", kind: Literal["tools", "prompts", "resources"]
    ) -> None:
        """Receive the announcement that a list has changed."""
        ...

    def resource_updated(self, session: "EraSession", uri: str) -> None:
        """Receive the announcement that a resource has new content."""
        ...


class EraSession:
    """An initialized connection. Create one with `EraSession.connect`."""

    def __init__(self, name: str, wire: Wire, observer: EraSessionObserver) -> None:
        self.name = name
        self.wire = wire
        self.era: Era = "handshake"
        self.version = LEGACY_VERSION
        self.capabilities: Json = {}
        self.instructions = ""
        self._observer = observer
        self._calls: dict[int, ClientCall] = {}
        self._next_call = 0
        self._discovered: Json | None = None
        self._log_level: str | None = None
        self._listening: asyncio.Task[None] | None = None
        self._subscribed: set[str] = set()

    @classmethod
    async def connect(
        cls,
        name: str,
        make_wire: Callable[[], Awaitable[Wire]],
        observer: EraSessionObserver,
        *,
        era: Literal["auto", "modern", "handshake"],
    ) -> "EraSession":
        """Open a connection and detect the protocol era of the server.

        Raises:
            UpstreamError: No connection, or the server answers neither `server/discover` nor
                `initialize`. If the connection ends on `server/discover`, it is retried once
                with the handshake only, because some old servers exit on an unknown method.
        """
        try:
            return await cls._connect(name, make_wire, observer, era)
        except ConnectionLostError as lost:
            # Nothing sent means nothing refused: the server is unreachable, whatever its era.
            if era != "auto" or not lost.sent:
                raise
            return await cls._connect(name, make_wire, observer, "handshake")

    @classmethod
    async def _connect(
        cls,
        name: str,
        make_wire: Callable[[], Awaitable[Wire]],
        observer: EraSessionObserver,
        era: Literal["auto", "modern", "handshake"],
    ) -> "EraSession":
        session = cls(name, await make_wire(), observer)
        try:
            await session.wire.open(session)
            await session._greet(era)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.wire.aclose()
            raise
        return session

    async def aclose(self) -> None:
        """Close the connection and everything that belongs to it."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError, UpstreamError):
                await self._listening
        await self.wire.aclose()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        call: ClientCall | None = None,
        mirrored: HeaderParams | None = None,
    ) -> Json:
        """Send a request in this session's form; callers handle deadlines and retries."""
        peer = call.peer if call is not None else None
        level = peer.log_level if peer is not None else None
        body, headers = envelope(
            method,
            params,
            era=self.era,
            version=self.version,
            capabilities=peer.capabilities if peer is not None else {},
            log_level=level,
            mirrored=mirrored,
        )
        if call is None:
            return await self.wire.request(method, body, headers=headers)
        headers = {**call.headers, **headers}
        if level is not None and self.era == "handshake":
            await self._want_logs(level)
        number = self._next_call = self._next_call + 1
        self._calls[number] = call
        try:
            return await self.wire.request(
                method,
                body,
                headers=headers,
                sink=call,
                progress=peer is not None and peer.wants_progress,
            )
        finally:
            del self._calls[number]

    def watch(self) -> None:
        """Receive announcements of changes from now on, as long as the connection lives."""
        if self.era == "modern" and self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name=f"listen:{self.name}")

    async def subscribe(self, uris: set[str]) -> None:
        """Receive announcements of updates of exactly these resources."""
        if self.era == "handshake":
            for uri in uris - self._subscribed:
                await self.request("resources/subscribe", {"uri": uri})
                self._subscribed.add(uri)
            for uri in self._subscribed - uris:
                self._subscribed.discard(uri)
                await self.request("resources/unsubscribe", {"uri": uri})
            return
        if uris == self._subscribed:
            return
        self._subscribed = set(uris)
        # Started before the old one is cancelled, to keep the gap between them short.
        old, self._listening = self._listening, None
        self.watch()
        if old is not None:
            old.cancel()

    # Messages from the wire

    async def on_request(self, method: str, params: Json) -> Json:
        """Answer a question without a known call; passed on if only one call can be meant."""
        if method == "ping":
            return {}
        able = [call for call in self._calls.values() if call.can_be_asked(method)]
        if len(able) == 1:
            return await able[0].ask(method, params)
        if method == "roots/list" and not self._calls:
            return {"roots": []}  # asked at its start by some servers: nobody's roots yet
        if method not in ASKABLE:
            raise RpcError(_METHOD_NOT_FOUND, "Method not found")
        if not able and self._calls:
            # No client of the running calls could answer: say which capability one lacks.
            return await next(iter(self._calls.values())).ask(method, params)
        raise CannotAskError(
            f"Server {self.name!r} asks the client ({method}), and it is not clear which one: "
            f"{len(able)} running calls could be meant.",
            hint="Run one such call at a time, or connect the server over streamable HTTP.",
        )

    async def on_notification(self, method: str, params: Json) -> None:
        """Handle a notification that belongs to no request known to the wire."""
        kind = _CHANGES.get(method)
        if kind is not None:
            self._observer.list_changed(self, kind)
        elif method == "notifications/resources/updated":
            uri = params.get("uri")
            if isinstance(uri, str):
                self._observer.resource_updated(self, uri)
        elif method == "notifications/message" and len(self._calls) == 1:
            # Old servers over stdio do not say which call a message belongs to. A client that does
            # not read must not delay the answers of all others, so the wait is bounded.
            with anyio.move_on_after(_LOG_GUARD_S):
                await next(iter(self._calls.values())).log(params)

    # Handshake

    async def _greet(self, era: Literal["auto", "modern", "handshake"]) -> None:
        if era == "handshake":
            await self._initialize()
            return
        discover = asyncio.create_task(self._discover(), name=f"discover:{self.name}")
        try:
            done, _ = await asyncio.wait({discover}, timeout=_SILENCE_S if era == "auto" else None)
            if done:
                if discover.result() or era == "modern":
                    self._settle_modern()
                    return
                await self._initialize()
                return
            await self._greet_both(discover)
        finally:
            discover.cancel()
            with suppress(asyncio.CancelledError, ToolgateError):
                await discover

    async def _greet_both(self, discover: "asyncio.Task[bool]") -> None:
        """Also try `initialize`: the server starts slowly, or ignores unknown methods."""
        initialize = asyncio.create_task(self._initialize(), name=f"initialize:{self.name}")
        try:
            await asyncio.wait({discover, initialize}, return_when=asyncio.FIRST_COMPLETED)
            if discover.done() and discover.result():
                self._settle_modern()
                return
            await initialize
        finally:
            initialize.cancel()
            with suppress(asyncio.CancelledError, ToolgateError):
                await initialize

    async def _discover(self) -> bool:
        """Whether the server is a modern one; its answer is stored."""
        body, headers = envelope(
            "server/discover", {}, era="modern", version=MODERN_VERSION, capabilities={}
        )
        try:
            answer = await self.wire.request("server/discover", body, headers=headers)
        except ConnectionLostError:
            raise
        except RpcError as error:
            # Only this code comes from a modern server; all others mean that it is not one.
            if error.rpc_code == _UNSUPPORTED_VERSION:
                log.info("server is modern but of another revision", extra={"server": self.name})
            return False
        except UpstreamError:
            return False
        if MODERN_VERSION not in json_array(answer.get("supportedVersions")):
            return False
        self._discovered = answer
        return True

    def _settle_modern(self) -> None:
        answer = self._discovered
        if answer is None:
            raise UnreachableError(
                f"Server {self.name!r} does not support protocol version {MODERN_VERSION}.",
                hint=f'Set era = "auto" under [server.{self.name}].',
            )
        self.era = "modern"
        self.version = MODERN_VERSION
        self.capabilities = json_object(answer.get("capabilities"))
        self.instructions = str(answer.get("instructions") or "")

    async def _initialize(self) -> None:
        claimed: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
        params: Json = {
            "protocolVersion": LEGACY_VERSION,
            "clientInfo": CLIENT_INFO,
            "capabilities": claimed,
        }
        headers: dict[str, str] = {}
        answer = await self.wire.request("initialize", params, headers=headers)
        version = answer.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise UnreachableError(
                f"Server {self.name!r} answered `initialize` with protocol version {version!r}.",
                allowed=f"Known: {', '.join((MODERN_VERSION, *HANDSHAKE_VERSIONS))}.",
                hint="Update the server, or Toolgate.",
            )
        self.era = "handshake"
        self.version = str(version)
        self.capabilities = json_object(answer.get("capabilities"))
        self.instructions = str(answer.get("instructions") or "")
        headers = {"mcp-protocol-version": self.version}
        # Required before other requests:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
        await self.wire.notify("notifications/initialized", {}, headers=headers)
        self.wire.begin_session(self.version)

    # Subscriptions

    async def _listen(self) -> None:
        """Keep `subscriptions/listen` open; announce changes after a gap, which may hide one."""
        failures = 0
        while True:
            notifications: Json = {
                f"{kind}ListChanged": True
                for kind in _CHANGES.values()
                if json_object(self.capabilities.get(kind)).get("listChanged")
            }
            if self._subscribed:
                notifications["resourceSubscriptions"] = sorted(self._subscribed)
            if not notifications:
                return
            began = monotonic()
            try:
                await self.request("subscriptions/listen", {"notifications": notifications})
                # A server that ends every subscription at once is not asked again without a pause.
                failures = 0 if monotonic() - began > _STEADY_S else failures + 1
            except RpcError as error:
                if error.rpc_code == _METHOD_NOT_FOUND:
                    return
                failures += 1
            except ConnectionLostError as lost:
                if not lost.sent:
                    return  # the connection is gone; whoever owns the session sees that too
                failures += 1
            except UpstreamError:
                failures += 1
            await anyio.sleep(min(0.2 * 2**failures, 30.0))
            for kind in _CHANGES.values():
                if f"{kind}ListChanged" in notifications:
                    self._observer.list_changed(self, kind)

    async def _want_logs(self, level: str) -> None:
        """Set an old server's log level, only if some client wants messages."""
        if "logging" not in self.capabilities:
            return
        if self._log_level is not None and severity(level) >= severity(self._log_level):
            return  # the more talkative level stays; every client's own is filtered on the way
        self._log_level = level
        with suppress(RpcError):
            await self.wire.request(
                "logging/setLevel",
                {"level": level},
                headers={"mcp-protocol-version": self.version},
            )
