"""One upstream server: its connections kept alive, its calls bounded, its state told."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median
from time import monotonic
from typing import Any, Literal, Protocol, cast

import anyio

from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    LoginNeededError,
    RpcError,
    ServerDownError,
    TimedOutError,
    ToolgateError,
    UpstreamError,
)
from toolgate.types import (
    Caller,
    Json,
    Peer,
    ServerSpec,
    ServerState,
    ServerStatus,
    json_array,
    json_object,
)
from toolgate.upstream.base import Wire
from toolgate.upstream.call import ASKABLE, ClientCall, Deadline
from toolgate.upstream.envelope import HeaderParams, header_params
from toolgate.upstream.era_bridge import EraBridge
from toolgate.upstream.era_session import EraSession
from toolgate.upstream.login_request import login_request_result, strip_login_answer
from toolgate.upstream.python_tools.functions import acting_for
from toolgate.upstream.subject_connections import SubjectConnections
from toolgate.upstream.transports._jsonrpc import excerpt

__all__ = ["Listing", "ServerObserver", "UpstreamServer"]

log = logging.getLogger(__name__)

_CONNECT_S = 90.0
_CONNECT_WAIT_S = 10.0
_LIST_S = 60.0
_HEALTH_S = 5.0
_MAX_PAGES = 1000
_BACKOFF_FIRST_S = 0.25
_BACKOFF_MAX_S = 30.0
_RESTART_MAX_S = 2.0
_STABLE_S = 10.0
_LOGIN_WAIT_S = 120.0
"""How long a call waits whose caller has opened the page of a login."""
_DEGRADED_AFTER = 2
_BROKEN_AFTER = 4
_TAIL_LINES = 50


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a server offers, as it sent it."""

    tools: tuple[Json, ...] = ()
    """Tool definitions, in its order; entries without a usable name are left out."""

    prompts: tuple[Json, ...] = ()
    """Prompts."""

    resources: tuple[Json, ...] = ()
    """Resources."""

    templates: tuple[Json, ...] = ()
    """Resource templates."""

    capabilities: Json = field(default_factory=dict[str, Any])
    """What the server declared."""

    instructions: str = ""
    """What the server says about its use."""

    ttl_ms: int | None = None
    """How long the tools may be believed without asking; None: until a change is announced."""

    left_out: tuple[str, ...] = ()
    """Sentences about entries that could not be used."""


class ServerObserver(Protocol):
    """Who is told about a server."""

    def server_connected(self, server: "UpstreamServer") -> None:
        """A connection is up: what is listed may be different."""
        ...

    def server_changed(self, server: "UpstreamServer") -> None:
        """A list was announced as different."""
        ...

    def server_state(self, server: "UpstreamServer") -> None:
        """`state` is another one."""
        ...

    def resource_updated(self, server: "UpstreamServer", uri: str) -> None:
        """A resource has new content."""
        ...


class UpstreamServer:
    """The state machine of one server.

    `run` keeps a connection up for as long as it is not cancelled. Requests never wait for a server
    that is down, wait a bounded time for one that is connecting, and have a deadline in any case.
    """

    def __init__(
        self,
        spec: ServerSpec,
        make_wire: Callable[[ServerSpec], Wire],
        observer: ServerObserver,
        bridge: EraBridge,
    ) -> None:
        self.spec = spec
        self.state: ServerState = "connecting" if spec.enabled else "disabled"
        self.last_error: str | None = spec.problem or None
        self.restarts = 0
        self.is_offline = False
        """Whether it stays as it was last known, without a connection; set before `run`."""
        self.main: EraSession | None = None
        self.side: EraSession | None = None
        """The handshake-era connection to a server that speaks both eras, made when needed."""
        self._make_wire = make_wire
        self._observer = observer
        self._bridge = bridge
        self._up = asyncio.Event()
        self._settled = asyncio.Event()
        if not spec.enabled:
            self._settled.set()
        self._retry_now = asyncio.Event()
        self._broken: asyncio.Event = asyncio.Event()
        self._side_lock = asyncio.Lock()
        self._side_refused = False
        self._mirrored: dict[str, HeaderParams] = {}
        self._only_side: frozenset[str] = frozenset()
        self._latencies_ms: deque[float] = deque(maxlen=50)
        self._failures = 0
        self._checking = False
        self._started_at: str | None = None
        self._retry_at: float | None = None
        self._stderr: tuple[str, ...] = ()
        """What the child before the present one wrote last, and how it ended."""
        self._subscriptions: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connections = 0
        self._ended = False
        self._login: LoginNeededError | None = None
        self._relogged = asyncio.Event()
        self._by_subject: SubjectConnections[UpstreamServer] | None = None
        self._subject_of: Callable[[ServerSpec, Caller], str] | None = None

    def split_by_subject(self, whose: Callable[[ServerSpec, Caller], str]) -> None:
        """Have a connection for each whose credential is shown; before `run`.

        The one that stands for the server tells what it offers, and runs no calls.

        Args:
            whose: Whose credential the calls of a caller show.
        """
        self._subject_of = whose
        self._by_subject = SubjectConnections(self._member)

    def _member(self, subject: str) -> "UpstreamServer":
        spec = replace(self.spec, subject=subject)
        member = UpstreamServer(
            spec, self._make_wire, _SubjectObserver(self, self._observer), self._bridge
        )
        member._mirrored = self._mirrored
        return member

    def relogin(self, subject: str) -> None:
        """Somebody has another credential now: connections that show the old one end."""
        self._relogged.set()
        self._relogged = asyncio.Event()
        if self._by_subject is not None:
            self._by_subject.drop(subject)
            if self.main is None or not subject:
                self._again()
        else:
            self._again()

    def _again(self) -> None:
        """Show the new credential: what the server offers may be different."""
        if self.main is None:
            self._retry_now.set()
        elif self.spec.kind == "stdio":
            self.last_error = "It was given other variables."
            self._broken.set()
        else:  # each request has its own headers
            self._observer.server_changed(self)

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def waits_for_login(self) -> bool:
        """Whether it is down only because nobody has logged in, where each caller does so."""
        return self._by_subject is not None and self._login is not None and self.state == "down"

    def status(
        self,
        *,
        tools: int = 0,
        held: int = 0,
        prompts: int = 0,
        resources: int = 0,
        listed_at: str | None = None,
    ) -> ServerStatus:
        """What is known of it, with what is listed of it as the catalog knows."""
        leg = self.main
        retry_in_s = None if self._retry_at is None else max(0.0, self._retry_at - monotonic())
        return ServerStatus(
            name=self.name,
            kind=self.spec.kind,
            state=self.state,
            era=leg.era if leg else None,
            version=leg.version if leg else None,
            tools=tools,
            held=held,
            prompts=prompts,
            resources=resources,
            listed_at=listed_at,
            last_error=self.last_error,
            stderr_tail=(*self._stderr, *(leg.wire.stderr_tail if leg else ()))[-_TAIL_LINES:],
            started_at=self._started_at,
            restarts=self.restarts,
            latency_ms=round(median(self._latencies_ms), 2) if self._latencies_ms else None,
            pid=leg.wire.pid if leg else None,
            source=self.spec.source,
            retry_in_s=round(retry_in_s, 1) if retry_in_s is not None else None,
        )

    async def settled(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""
        await self._settled.wait()

    def retry_now(self) -> None:
        """Do not wait for the next attempt."""
        self._retry_now.set()

    # Keeping the connection

    async def run(self) -> None:
        """Connect, reconnect with growing pauses, until cancelled."""
        if self.is_offline or not self.spec.enabled:
            return
        failed, short = 0, 0
        try:
            while True:
                reason, lasted_s = await self._one_connection()
                self.last_error = reason
                if lasted_s == 0:  # it could not be reached or greeted: an outage
                    failed += 1
                    self._set_state("down")
                    self._settled.set()
                    await self._pause(_BACKOFF_FIRST_S * 2 ** min(failed, 10))
                else:  # it was there: callers wait for it, however often it dies
                    failed, short = 0, 0 if lasted_s > _STABLE_S else short + 1
                    await self._pause(min(_BACKOFF_FIRST_S * 2 ** min(short, 10), _RESTART_MAX_S))
        finally:
            self._ended = True
            self._up.set()  # whoever waits for a connection hears that there will be none
            with anyio.CancelScope(shield=True):
                await self._close_sessions()
                if self._by_subject is not None:
                    await self._by_subject.aclose()
                for task in list(self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one_connection(self) -> tuple[str, float]:
        """Connect and stay until it ends; gives the reason and how long it lasted, seconds."""
        self._broken = asyncio.Event()
        tried: list[Wire] = []

        def tried_wire() -> Wire:
            tried.append(self._make_wire(self.spec))
            return tried[-1]

        try:
            async with asyncio.timeout(_CONNECT_S):
                leg = await EraSession.connect(self.name, tried_wire, self, era=self.spec.era)
        except TimeoutError:
            self._stderr = tried[-1].stderr_tail if tried else ()
            return f"It did not answer within {_CONNECT_S:g} seconds after its start.", 0.0
        except ToolgateError as error:
            self._login = error if isinstance(error, LoginNeededError) else None
            self._stderr = tried[-1].stderr_tail if tried else ()
            # A greeting that was lost has done no harm: no word of what may have run.
            is_lost = isinstance(error, ConnectionLostError)
            return error.failed if is_lost else str(error), 0.0
        except Exception as error:  # a server must not end its own supervision
            log.exception("connecting failed unexpectedly", extra={"server": self.name})
            return f"Connecting failed: {error!r}.", 0.0
        self.main = leg
        self._login = None
        self.restarts += self._connections > 0
        self._connections += 1
        began = monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._failures = 0
        self._side_refused = False
        self.last_error = None
        leg.watch()
        self._set_state("ready")
        self._up.set()
        self._settled.set()
        self._observer.server_connected(self)
        if self._subscriptions:
            self._spawn(self._resubscribe())
        try:
            reason = await self._until_it_ends(leg)
        finally:
            self._up.clear()
            self._set_state("connecting")
            with anyio.CancelScope(shield=True):
                self._stderr = leg.wire.stderr_tail
                await self._close_sessions()
        if self.spec.kind == "stdio":
            self._stderr = (*self._stderr, f"[{reason}]")
        log.warning("server connection ended", extra={"server": self.name, "reason": reason})
        return reason, max(monotonic() - began, 0.001)

    async def _until_it_ends(self, leg: EraSession) -> str:
        closed = asyncio.ensure_future(leg.wire.closed())
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({closed, broken}, return_when=asyncio.FIRST_COMPLETED)
            return closed.result() if closed.done() else self.last_error or "It stopped answering."
        finally:
            for waiting in (closed, broken):
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting

    async def _pause(self, wanted_s: float) -> None:
        spread = random.uniform(0.8, 1.2)  # noqa: S311 -- many clients must not retry in step
        pause_s = min(_BACKOFF_MAX_S, wanted_s) * spread
        self._retry_at = monotonic() + pause_s
        self._retry_now.clear()
        with anyio.move_on_after(pause_s):
            await self._retry_now.wait()
        self._retry_at = None

    async def _close_sessions(self) -> None:
        legs = [leg for leg in (self.main, self.side) if leg is not None]
        self.main = self.side = None
        self._only_side = frozenset()
        for leg in legs:
            await leg.aclose()

    def _set_state(self, state: ServerState) -> None:
        if state != self.state:
            self.state = state
            self._observer.server_state(self)

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the legs tell

    def list_changed(self, leg: EraSession, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Pass on; the listing then asks every leg that is open."""
        del leg, kind
        self._observer.server_changed(self)

    def resource_updated(self, leg: EraSession, uri: str) -> None:
        """Pass on."""
        del leg
        self._observer.resource_updated(self, uri)

    # Requests

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        caller: Caller | None = None,
        peer: Peer | None = None,
        repeatable: bool = True,
    ) -> Json:
        """Send a request of a client, whatever the eras of both are.

        Args:
            method: JSON-RPC method.
            params: As the client sent them, with this server's own names.
            caller: Who asks; parked questions are bound to it.
            peer: The way back to the client; None: nobody can be asked or told.
            repeatable: Whether it may be sent again although it may have run.

        Raises:
            ServerDownError: It is down, disabled, or did not come up in time; nothing was sent.
            TimedOutError: No answer before the deadline.
            ConnectionLostError: The connection ended and the request could not be repeated.
            RpcError: The server answered with an error.
            InvalidAnswerError: The server answered with something else than a result.
            CannotAskError: The server asked something that the client cannot answer.
            HandleError: The client came back with a state that is not good here.
        """
        target = str(params.get("name") or params.get("uri") or "")
        caller = caller or Caller()
        if self._by_subject is not None and self._subject_of is not None:
            return await self._as_caller(method, params, caller, peer, repeatable)
        if peer is not None and self._bridge.resumes(params):
            return await self._bridge.resume(
                params, peer, caller=caller, server=self.name, target=target
            )
        total_s = self.spec.max_timeout_s
        idle_s = self.spec.timeout_s
        if method == "tools/call":
            idle_s = self.spec.tool_timeouts_s.get(target, idle_s)
        deadline = Deadline(idle_s=idle_s, total_s=total_s)
        call = ClientCall(peer, deadline)

        async def send(current: Mapping[str, Any], via: ClientCall) -> Json:
            with acting_for(caller, via.peer):  # tools in this process see for whom they run
                return await self._send(method, current, via, repeatable=repeatable, target=target)

        leg = await self._session_for(peer, target)
        if leg.era == "modern" and peer is not None and peer.era == "handshake":
            return await self._bridge.drive(params, call, send)
        asks = any(key in call.capabilities for key in ASKABLE.values())
        if leg.era == "handshake" and peer is not None and peer.era == "modern" and asks:
            return await self._bridge.run_parkable(
                params, call, send, caller=caller, server=self.name, target=target
            )
        return await send(params, call)

    async def _as_caller(
        self,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        peer: Peer | None,
        repeatable: bool,  # noqa: FBT001 -- as it came
    ) -> Json:
        """Send a request by the connection of its caller, who is asked to log in if need be."""
        assert self._by_subject is not None
        assert self._subject_of is not None
        if self.is_offline or not self.spec.enabled or self._ended:
            raise self._down()
        subject = self._subject_of(self.spec, caller)
        params, is_back = strip_login_answer(params)
        # Who comes back has opened the page, and may still be at it.
        until = monotonic() + (_LOGIN_WAIT_S if is_back else 0.0)
        while True:
            changed = self._relogged
            member = self._by_subject.acquire(subject)
            try:
                return await member.request(
                    method, params, caller=caller, peer=peer, repeatable=repeatable
                )
            except LoginNeededError as needed:
                with anyio.move_on_after(max(0.0, until - monotonic())):
                    await changed.wait()
                    continue
                question = login_request_result(needed, peer)
                if question is None:
                    raise
                return question

    async def _send(
        self,
        method: str,
        params: Mapping[str, Any],
        call: ClientCall,
        *,
        repeatable: bool,
        target: str,
    ) -> Json:
        began = monotonic()
        mirrored = self._mirrored.get(target) if method == "tools/call" else None
        try:
            async with call.deadline:
                leg = await self._session_for(call.peer, target)
                try:
                    result = await leg.request(method, params, call=call, mirrored=mirrored)
                except ConnectionLostError as lost:
                    self._lost(leg, lost)
                    if lost.sent and not lost.expired and not repeatable:
                        raise _may_have_run(self.name, target or method, lost) from lost
                    # Once more over a new connection: it did not run, or may run twice.
                    leg = await self._session_for(call.peer, target)
                    result = await leg.request(method, params, call=call, mirrored=mirrored)
                if method == "tools/call":
                    _check_content(result)
        except TimeoutError:
            limit_s = call.deadline.idle_s
            self._failed(f"{target or method} did not answer within {limit_s:g} seconds.")
            raise TimedOutError(
                f"{self.name}: {target or method} did not answer within {limit_s:g} seconds.",
                allowed="Whether the call took effect is unknown.",
                hint=f"Raise timeout_s under [server.{self.name}] if it needs longer.",
            ) from None
        except ConnectionLostError as lost:
            self._failed(lost.failed)
            raise
        except (RpcError, InvalidAnswerError):
            self._answered(began)
            raise
        self._answered(began)
        return result

    async def _session_for(self, peer: Peer | None, target: str) -> EraSession:
        """The connection to use; waits a bounded time for one that is being made."""
        if not self._up.is_set() or self._ended:
            if self.state == "connecting" and not self._ended:
                with anyio.move_on_after(_CONNECT_WAIT_S):
                    await self._up_or_failed()
            if not self._up.is_set() or self._ended:
                raise self._down()
        leg = self.main
        assert leg is not None
        if leg.era == "handshake" or self._side_refused:
            return leg
        if target in self._only_side and self.side is not None:
            return self.side
        if peer is None or peer.era == "modern" or not self._needs_side(peer):
            return leg
        return await self._side_session() or leg

    async def _up_or_failed(self) -> None:
        """Wait for a connection, or for the end of the first attempt to make one."""
        if self._settled.is_set():
            await self._up.wait()
            return
        waits = [asyncio.ensure_future(event.wait()) for event in (self._up, self._settled)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()

    def _needs_side(self, peer: Peer) -> bool:
        """Whether a handshake-era client needs a server of both eras in its own era.

        Tools that ask in the middle of a call only work in the handshake era there. Over HTTP the
        second connection costs nothing; over stdio it is a second process with a state of its own,
        so it is made only for clients that can be asked something.
        """
        if self.spec.era == "modern":
            return False
        return self.spec.kind != "stdio" or bool(
            {"elicitation", "sampling"} & set(peer.capabilities)
        )

    async def _side_session(self) -> EraSession | None:
        async with self._side_lock:
            if self.side is not None or self._side_refused or self.main is None:
                return self.side
            try:
                async with asyncio.timeout(_CONNECT_WAIT_S):
                    self.side = await EraSession.connect(
                        self.name, lambda: self._make_wire(self.spec), self, era="handshake"
                    )
            except (TimeoutError, ToolgateError) as error:
                log.info(
                    "server has no handshake era", extra={"server": self.name, "error": str(error)}
                )
                self._side_refused = True
                return None
            self._spawn(self._watch_side(self.side))
            return self.side

    async def _watch_side(self, leg: EraSession) -> None:
        await leg.wire.closed()
        if self.side is leg:
            self.side = None
            await leg.aclose()

    def _down(self) -> ServerDownError | LoginNeededError:
        if self.state == "disabled":
            return ServerDownError(
                f"Server {self.name!r} is disabled.",
                hint=f"Run: toolgate servers enable {self.name}",
            )
        if self._login is not None and not self._ended:
            return self._login
        if self._ended:
            return ServerDownError(
                f"Server {self.name!r} was removed or restarted while the call ran.",
                hint="Call again, after checking whether it took effect.",
            )
        why = f" Last error: {self.last_error}" if self.last_error else ""
        status = self.status()
        soon = f" in {status.retry_in_s:g} s" if status.retry_in_s is not None else " now"
        return ServerDownError(
            f"Server {self.name!r} is {self.state}; nothing was sent.{why}",
            hint=f"It is being tried again{soon}. See: toolgate doctor",
        )

    # Health

    def _answered(self, began: float) -> None:
        self._latencies_ms.append((monotonic() - began) * 1000)
        self._failures = 0
        if self.state == "degraded":
            self._set_state("ready")

    def _lost(self, leg: EraSession, lost: ConnectionLostError) -> None:
        """A connection that failed a request is replaced, even if its read side seems alive.

        Over HTTP a request has a stream of its own: a broken one says nothing about the others.
        """
        self.last_error = lost.failed
        if self.spec.kind == "http" and lost.sent and not lost.expired:
            return
        if leg is self.main:
            self._up.clear()
            self._set_state("connecting")
            self._broken.set()
        elif leg is self.side:
            self.side = None
            self._spawn(leg.aclose())

    def _failed(self, reason: str) -> None:
        self.last_error = reason
        self._failures += 1
        if self._failures >= _DEGRADED_AFTER and self.state == "ready":
            self._set_state("degraded")
        if self._failures >= _BROKEN_AFTER and not self._checking and self.main is not None:
            self._checking = True
            self._spawn(self._check(self.main))

    async def _check(self, leg: EraSession) -> None:
        """The circuit breaker: a server that does not even answer a ping is connected anew."""
        try:
            async with asyncio.timeout(_HEALTH_S):
                with suppress(RpcError, InvalidAnswerError):
                    await leg.request("server/discover" if leg.era == "modern" else "ping", {})
            self._failures = 0
        except (TimeoutError, UpstreamError):
            if leg is self.main:
                self.last_error = f"It answered neither {self._failures} calls nor a ping."
                self._up.clear()
                self._broken.set()
        finally:
            self._checking = False

    # Subscriptions

    async def subscribe(self, uris: set[str]) -> None:
        """Have updates of exactly these resources announced, now and after reconnecting.

        Not where each caller has a connection of their own: the main one shows somebody else.
        """
        if self._by_subject is not None:
            return
        self._subscriptions = set(uris)
        if self.main is not None:
            async with asyncio.timeout(_LIST_S):
                await self.main.subscribe(self._subscriptions)

    async def _resubscribe(self) -> None:
        with suppress(UpstreamError, TimeoutError):
            await self.subscribe(self._subscriptions)

    # Listing

    async def listing(self) -> Listing:
        """Everything the server offers, all pages, from every connection that is open.

        Raises:
            UpstreamError: It could not be listed.
        """
        leg = self.main
        if leg is None:
            raise self._down()
        try:
            listing = await self._listing_of(leg)
            side = self.side
            if side is not None:
                listing = self._joined(listing, await self._listing_of(side))
            else:
                self._only_side = frozenset()
        except TimeoutError:
            self._failed(f"It did not list its tools within {_LIST_S:g} seconds.")
            raise TimedOutError(
                f"Server {self.name!r} did not list its tools within {_LIST_S:g} seconds.",
                hint="See its standard error: toolgate servers logs " + self.name,
            ) from None
        except ConnectionLostError as lost:
            self._lost(leg, lost)
            raise
        return listing

    async def _listing_of(self, leg: EraSession) -> Listing:
        left_out: list[str] = []
        tools: list[Json] = []
        ttl_ms: int | None = None
        if "tools" in leg.capabilities or leg.era == "handshake":
            pages, ttl_ms = await self._pages(leg, "tools/list", "tools")
            tools = self._usable_tools(pages, left_out)
        prompts: list[Json] = []
        if "prompts" in leg.capabilities:
            prompts, _ = await self._pages(leg, "prompts/list", "prompts")
        resources: list[Json] = []
        templates: list[Json] = []
        if "resources" in leg.capabilities:
            resources, _ = await self._pages(leg, "resources/list", "resources")
            with suppress(RpcError):  # optional: many servers with resources have no templates
                templates, _ = await self._pages(
                    leg, "resources/templates/list", "resourceTemplates"
                )
        return Listing(
            tools=tuple(tools),
            prompts=tuple(_named(prompts, "name")),
            resources=tuple(_named(resources, "uri")),
            templates=tuple(_named(templates, "uriTemplate")),
            capabilities=leg.capabilities,
            instructions=leg.instructions,
            ttl_ms=ttl_ms,
            left_out=tuple(left_out),
        )

    async def _pages(
        self, leg: EraSession, method: str, member: str
    ) -> tuple[list[Json], int | None]:
        out: list[Json] = []
        cursors: set[str] = set()
        params: Json = {}
        ttl_ms: int | None = None
        for _ in range(_MAX_PAGES):
            async with asyncio.timeout(_LIST_S):
                try:
                    page = await leg.request(method, params)
                except RpcError as error:
                    if error.rpc_code == -32601:  # declared or assumed, but not there
                        return out, None
                    raise
            out.extend(json_object(entry) for entry in json_array(page.get(member)))
            if isinstance(page.get("ttlMs"), int):
                ttl_ms = page["ttlMs"]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return out, ttl_ms

    def _usable_tools(self, definitions: list[Json], left_out: list[str]) -> list[Json]:
        tools: dict[str, Json] = {}
        mirrored: dict[str, HeaderParams] = {}
        for sent in definitions:
            name = sent.get("name")
            if not isinstance(name, str) or not name or len(name) > 1000:
                left_out.append(f"A tool was left out: its name is {name!r:.80}.")
                continue
            if name in tools:
                left_out.append(f"Tool {name!r} is listed twice; the first counts.")
                continue
            tool = sent
            if not isinstance(sent.get("inputSchema"), dict):
                tool = {**sent, "inputSchema": {"type": "object"}}
            headers = header_params(tool["inputSchema"])
            if headers is None:
                left_out.append(f"Tool {name!r} was left out: its x-mcp-header is not valid.")
                continue
            tools[name] = tool
            if headers:
                mirrored[name] = headers
        self._mirrored = mirrored
        return list(tools.values())

    def _joined(self, main: Listing, side: Listing) -> Listing:
        """Both eras of one server: the main one counts, the other adds what only it shows."""
        names = {tool["name"] for tool in main.tools}
        extra = [tool for tool in side.tools if tool["name"] not in names]
        self._only_side = frozenset(str(tool["name"]) for tool in extra)
        return Listing(
            tools=(*main.tools, *extra),
            prompts=main.prompts,
            resources=main.resources,
            templates=main.templates,
            capabilities=main.capabilities,
            instructions=main.instructions,
            ttl_ms=main.ttl_ms,
            left_out=main.left_out,
        )


class _SubjectObserver:
    """What the connection of one caller tells the server that it belongs to."""

    def __init__(self, server: UpstreamServer, observer: ServerObserver) -> None:
        self._server = server
        self._observer = observer

    def server_connected(self, server: UpstreamServer) -> None:
        """Who has shown something may be the first with whom the server says what it offers."""
        del server
        self._server.retry_now()

    def server_changed(self, server: UpstreamServer) -> None:
        """A list is different."""
        del server
        self._observer.server_changed(self._server)

    def server_state(self, server: UpstreamServer) -> None:
        """Its state is its own."""

    def resource_updated(self, server: UpstreamServer, uri: str) -> None:
        """Nobody subscribes by it."""


def _named(entries: list[Json], member: str) -> list[Json]:
    """Entries with a usable identity, each once."""
    out: dict[str, Json] = {}
    for entry in entries:
        identity = entry.get(member)
        if isinstance(identity, str) and identity:
            out.setdefault(identity, entry)
    return list(out.values())


def _check_content(result: Json) -> None:
    """Refuse a result of a tool that no client could read.

    Raises:
        InvalidAnswerError: Its content is something else than a list of objects.
    """
    content: object = result.get("content", [])
    is_list = isinstance(content, list)
    if not is_list or not all(isinstance(block, dict) for block in cast("list[object]", content)):
        raise InvalidAnswerError(
            f"The server answered with content that is no list of objects: {excerpt(content)}.",
            hint="Report it to the maker of the server.",
        )


def _may_have_run(server: str, target: str, lost: ConnectionLostError) -> ConnectionLostError:
    return ConnectionLostError(
        f"The connection to server {server!r} ended while {target} was running: {lost.failed}",
        sent=True,
        allowed="The call may have run; it was not repeated, because the tool is not marked "
        "read-only or idempotent.",
        hint="Check whether it took effect before you call it again.",
    )
