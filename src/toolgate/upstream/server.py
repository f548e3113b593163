"""One upstream server: keeps its connections alive, sends its calls, reports its state."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Literal

import anyio

from toolgate.base.processes.error_line import failure_text
from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    LoginNeededError,
    RpcError,
    ServerDownError,
    TimedOutError,
    UnreachableError,
    UpstreamError,
)
from toolgate.types import Caller, Json, Peer, ServerSpec, ServerState, ServerStatus
from toolgate.upstream.base import Wire
from toolgate.upstream.calls import errors
from toolgate.upstream.calls.client_call import (
    ASKABLE_CAPABILITIES,
    ClientCall,
    Deadline,
    wait_for_any,
)
from toolgate.upstream.calls.health import CallHealth
from toolgate.upstream.era_bridge import EraBridge
from toolgate.upstream.era_session import EraSession
from toolgate.upstream.listing import Listing, join_listings, read_listing
from toolgate.upstream.login_request import request_with_login
from toolgate.upstream.python_tools.tool_context import acting_for
from toolgate.upstream.request_metadata import HeaderParams
from toolgate.upstream.side_session import SideSession
from toolgate.upstream.subject_connections import SubjectConnections
from toolgate.upstream.supervision.connection_lifetime import ConnectFailure, connect, wait_for_end
from toolgate.upstream.supervision.on_demand import Demand
from toolgate.upstream.supervision.reconnecting import ConnectionEnd, Reconnecting
from toolgate.upstream.supervision.server_observer import ServerObserver, SubjectObserver
from toolgate.upstream.supervision.stored_values import StoredValues

log = logging.getLogger(__name__)

# Seconds a call waits for a connection being opened (chosen).
_CONNECT_WAIT_S = 10.0
# Seconds for one page of a listing (chosen).
_LIST_S = 60.0
# Lines of standard error in a status (chosen).
_TAIL_LINES = 50


class UpstreamServer:
    """The state machine of one server.

    `run` keeps a connection up until it is cancelled. Requests have a deadline, never wait for a
    server that is down, and wait a bounded time while it connects.
    """

    def __init__(
        self,
        spec: ServerSpec,
        make_wire: Callable[[ServerSpec], Wire],
        observer: ServerObserver["UpstreamServer"],
        bridge: EraBridge,
        *,
        completed: Callable[[ServerSpec], Awaitable[ServerSpec]],
        subject_of: Callable[[ServerSpec, Caller], str] | None = None,
        is_offline: bool = False,
        is_listed: bool = False,
    ) -> None:
        """Create a server, without connecting it.

        Args:
            spec: The configuration of the server.
            make_wire: Builds a fresh wire.
            observer: Is notified of changes.
            bridge: Translates between protocol eras.
            completed: Adds what is stored for the server to its options.
            subject_of: Returns the subject whose credential a call uses, if each subject has its
                own connection and the main one only lists; None: all calls share one connection.
            is_offline: Whether it stays in its last known state, without a connection.
            is_listed: Whether its listing is known, so that it can start on demand.
        """
        self.spec, self.name = spec, spec.name
        self.demand = Demand(spec, is_listed=is_listed)
        """What keeps it awake."""
        self.state: ServerState = self.demand.first_state if spec.enabled else "disabled"
        self.last_error = spec.problem or None
        self.restarts = 0
        self.is_offline = is_offline
        self.main: EraSession | None = None
        self._make_wire, self._completed = make_wire, completed
        self._observer = observer
        self._bridge = bridge
        self._up = asyncio.Event()
        self._settled = asyncio.Event()
        if not spec.enabled:
            self._settled.set()
        self._reconnecting = Reconnecting(
            self.demand, self._hold_connection, set_state=self._set_state, settled=self._settled
        )
        self._broken: asyncio.Event = asyncio.Event()
        self._side = SideSession(
            spec, self._connect_side, is_connected=lambda: self.main is not None, spawn=self._spawn
        )
        self._mirrored: dict[str, HeaderParams] = {}
        self._health = CallHealth()
        self._started_at: str | None = None
        self._stored = StoredValues(spec, completed)
        self._stderr: tuple[str, ...] = ()
        """The last output of the previous child, and how that child ended."""
        self._subscriptions: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connections = 0
        self._ended = False
        self._login: LoginNeededError | None = None
        self._relogged = asyncio.Event()
        self._subject_of = subject_of
        self._by_subject: SubjectConnections[UpstreamServer] | None = (
            None if subject_of is None else SubjectConnections(self._member)
        )

    def _member(self, subject: str) -> "UpstreamServer":
        member = UpstreamServer(
            replace(self.spec, subject=subject),
            self._make_wire,
            SubjectObserver(self, self._observer, retry=self.retry_now),
            self._bridge,
            completed=self._completed,
        )
        member._mirrored = self._mirrored
        return member

    async def relogin(self, subject: str) -> None:
        """Use a subject's new credential, and close connections that use the old one."""
        self._relogged.set()
        self._relogged = asyncio.Event()
        if self._by_subject is not None:
            self._by_subject.drop(*([subject] if subject else self._by_subject.subjects))
        if self.main is None:
            self._reconnecting.retry_now()
        elif (self._by_subject is None or not subject) and not await self._is_replaced():
            self._observer.server_changed(self)  # the server may offer other tools

    async def _is_replaced(self) -> bool:
        """Reconnect if other secrets or variables are stored than the connection uses."""
        session = self.main
        if await self._stored.is_current(self.spec) or session is not self.main:
            return False
        self.last_error = "It was given other secrets or variables."
        self._up.clear()
        self._set_state("connecting")
        self._broken.set()
        return True

    @property
    def waits_for_login(self) -> bool:
        """Whether it is down only because nobody has logged in."""
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
        """The status of the server, including what the catalog knows about its listing."""
        session = self.main
        stderr = (*self._stderr, *(session.wire.stderr_tail if session else ()))[-_TAIL_LINES:]
        pause_s = self._reconnecting.pause_left_s
        return ServerStatus(
            name=self.name,
            kind=self.spec.kind,
            state=self.state,
            era=session.era if session else None,
            version=session.version if session else None,
            tools=tools,
            held=held,
            prompts=prompts,
            resources=resources,
            listed_at=listed_at,
            last_error=self._stored.secrets.mask(self.last_error or "") or None,
            login_hint=str(self._login) if self._login and self.state == "down" else "",
            stderr_tail=tuple(map(self._stored.secrets.mask, stderr)),
            started_at=self._started_at,
            restarts=self.restarts,
            latency_ms=self._health.latency_ms,
            pid=session.wire.pid if session else None,
            source=self.spec.source,
            retry_in_s=None if pause_s is None else round(pause_s, 1),
        )

    async def settled(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""
        await self._settled.wait()

    def retry_now(self) -> None:
        """Retry at once instead of waiting for the next attempt."""
        self._reconnecting.retry_now()

    async def run(self) -> None:
        """Connect, and reconnect with growing pauses, until cancelled."""
        if self.is_offline or not self.spec.enabled:
            return
        try:
            await self._reconnecting.run()
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

    async def _hold_connection(self) -> ConnectionEnd:
        """Connect, and return when the connection has ended."""
        if self.state == "asleep":
            self._set_state("connecting")
        end = await self._one_connection()
        self.last_error = end.reason or None
        return end

    async def _one_connection(self) -> ConnectionEnd:
        self._broken = asyncio.Event()
        session = await connect(self.spec, self._new_wire, self)
        if isinstance(session, ConnectFailure):
            self._login, self._stderr = session.login, session.stderr
            return ConnectionEnd(session.reason, 0.0)
        self.main = session
        self._login = None
        self.restarts += self._connections > 0 and not self.demand.has_slept
        self.demand.started()
        self._connections += 1
        began = monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._health.reset()
        self._side.allow()
        self.last_error = None
        session.watch()
        self._set_state("ready")
        self._up.set()
        self._settled.set()
        self._observer.server_connected(self)
        self._spawn(self._is_replaced())  # they may have changed while it connected
        if self._subscriptions:
            self._spawn(self._resubscribe())
        try:
            ended = await wait_for_end(
                session.wire.closed(), self._broken, self.demand, on_idle=self._fall_asleep
            )
            reason = self._stored.secrets.mask(ended or self.last_error or "It stopped answering.")
        finally:
            self._up.clear()
            if not self.demand.is_asleep:
                self._set_state("connecting")
            with anyio.CancelScope(shield=True):
                self._stderr = session.wire.stderr_tail
                await self._close_sessions()
        if ended is None:
            log.info("server put to sleep", extra={"server": self.name})
            return ConnectionEnd("", max(monotonic() - began, 0.001))
        if self.spec.kind == "stdio":
            self._stderr = (*self._stderr, f"[{reason}]")
        log.warning("server connection ended", extra={"server": self.name, "reason": reason})
        return ConnectionEnd(reason, max(monotonic() - began, 0.001))

    def _fall_asleep(self) -> None:
        self._up.clear()
        self.demand.sleep()

    async def _close_sessions(self) -> None:
        sessions = [session for session in (self.main, self._side.detach()) if session is not None]
        self.main = None
        for session in sessions:
            await session.aclose()

    def _set_state(self, state: ServerState) -> None:
        if state != self.state:
            previous, self.state = self.state, state
            if state == "down":
                error = self._stored.secrets.mask(failure_text(self.last_error or "", self._stderr))
                log.warning("server is down", extra={"server": self.name, "error": error})
            elif previous == "down":
                log.info("server is back", extra={"server": self.name})
            self._observer.server_state(self)

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def list_changed(
        self, session: EraSession, kind: Literal["tools", "prompts", "resources"]
    ) -> None:
        """Pass it on; the next listing then asks every open session."""
        del session, kind
        self._observer.server_changed(self)

    def resource_updated(self, session: EraSession, uri: str) -> None:
        """Pass it on."""
        del session
        self._observer.resource_updated(self, uri)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        caller: Caller | None = None,
        peer: Peer | None = None,
        repeatable: bool = True,
        recheck: Callable[[], object] = lambda: None,
    ) -> Json:
        """Send a client's request, whatever the eras of client and server.

        Args:
            method: JSON-RPC method.
            params: As the client sent them, with this server's own names.
            caller: The caller; parked questions are bound to it.
            peer: The connection to the client; None if nobody can be asked or notified.
            repeatable: Whether it may be retried; applies only to tools of trusted servers.
            recheck: Called if the server had to be started and was listed again; raises if the
                request is no longer valid.

        Raises:
            ServerDownError: It is down, disabled, or did not start in time; nothing was sent.
            TimedOutError: No answer before the deadline.
            ConnectionLostError: The connection ended and the request could not be retried.
            RpcError: The server answered with an error.
            InvalidAnswerError: The server's answer is not a result.
            CannotAskError: The server asked something that the client cannot answer.
            HandleError: The client sent a state that is not valid here.
        """
        target = str(params.get("name") or params.get("uri") or "")
        caller = caller or Caller.local()
        if self._by_subject is not None and self._subject_of is not None:
            return await self._as_caller(method, params, caller, peer, repeatable, recheck)
        if peer is not None and "requestState" in params and self._bridge.resumes(params):
            return await self._bridge.resume(
                params, peer, caller=caller, server=self.name, target=target
            )
        idle_s = self.spec.timeout_s
        if method == "tools/call":
            idle_s = self.spec.tool_timeouts_s.get(target, idle_s)
            repeatable = repeatable and self.spec.trust
        deadline = Deadline(idle_s=idle_s, total_s=self.spec.max_timeout_s)
        call = ClientCall(peer, deadline, headers=self.spec.forwarded(caller))

        async def send(current: Mapping[str, Any], via: ClientCall) -> Json:
            sent = self._send(
                method, current, via, repeatable=repeatable, target=target, chosen=chosen
            )
            with self.demand.use():  # a parked call goes on after its request has been answered
                if self.spec.kind != "inprocess":
                    return await sent
                with acting_for(caller, via.peer):  # tools in this process see for whom they run
                    return await sent

        with self.demand.use():
            if self.demand.is_on_demand and not self._up.is_set():
                await self._start_within(deadline)
                recheck()
            session = chosen = await self._session_for(peer, target)
            is_bridged = target not in self.spec.asking_tools
            if peer is not None and peer.era != session.era and is_bridged:
                if session.era == "modern":
                    return await self._bridge.drive(params, call, send)
                if not ASKABLE_CAPABILITIES.isdisjoint(peer.capabilities):
                    return await self._bridge.run_parkable(
                        params, call, send, caller=caller, server=self.name, target=target
                    )
            return await send(params, call)

    async def ensure_up(self) -> None:
        """Start it if it is asleep; raises as a request would if it cannot be sent."""
        if self._by_subject is not None:
            return  # the caller has a connection of its own
        if self.demand.is_on_demand and not self._up.is_set():
            await self._start_within(Deadline(idle_s=self.spec.timeout_s, total_s=0))
        else:
            await self._session_for(None, "")

    async def _start_within(self, deadline: Deadline) -> None:
        """Start a sleeping server within the deadline of a call."""
        limit_s, began = min(deadline.idle_s, deadline.total_s), monotonic()
        try:
            async with asyncio.timeout(limit_s):
                await self._started()
                await self._observer.wait_listed(self)
        except TimeoutError:
            raise errors.slow_start_error(self.name, limit_s) from None
        deadline.spent_s = monotonic() - began

    async def _started(self) -> None:
        """Wake it, and wait until it is up or could not be started."""
        if self.spec.enabled and not self.is_offline and not self._ended and self.state != "down":
            self.demand.wake()
            await wait_for_any(self._up, self.demand.failed)
        if not self._up.is_set() or self._ended:
            raise self._down()

    async def _as_caller(
        self,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        peer: Peer | None,
        repeatable: bool,  # noqa: FBT001 -- as it came
        recheck: Callable[[], object],
    ) -> Json:
        """Send a request over its caller's connection; ask the caller to log in if necessary."""
        assert self._by_subject is not None
        assert self._subject_of is not None
        if self.is_offline or not self.spec.enabled or self._ended:
            raise self._down()
        self.demand.wake()  # the main connection tells what it offers now
        subject, connections = self._subject_of(self.spec, caller), self._by_subject

        async def send(current: Mapping[str, Any]) -> Json:
            return await connections.acquire(subject).request(
                method, current, caller=caller, peer=peer, repeatable=repeatable, recheck=recheck
            )

        return await request_with_login(send, params, peer, relogged=lambda: self._relogged)

    async def _send(
        self,
        method: str,
        params: Mapping[str, Any],
        call: ClientCall,
        *,
        repeatable: bool,
        target: str,
        chosen: EraSession,
    ) -> Json:
        began = monotonic()
        mirrored = self._mirrored.get(target) if method == "tools/call" else None
        try:
            async with call.deadline:
                session = chosen
                if session is not self.main or not self._up.is_set():  # a new one since then
                    session = await self._session_for(call.peer, target)
                try:
                    result = await session.request(method, params, call=call, mirrored=mirrored)
                except ConnectionLostError as lost:
                    self._lost(session, lost)
                    if lost.sent and not lost.expired and not repeatable:
                        raise errors.may_have_run_error(self.name, target or method, lost) from lost
                    # Retry once over a new connection: the request did not run, or may run twice.
                    session = await self._session_for(call.peer, target)
                    result = await session.request(method, params, call=call, mirrored=mirrored)
                if method == "tools/call":
                    errors.check_content(result)
                if result.get("resultType") == "input_required":
                    self.demand.expect_answer()
        except TimeoutError:
            late = errors.timed_out_error(self.spec, target or method, call.deadline.idle_s)
            self._failed(late.failed.removeprefix(f"{self.name}: "))
            raise late from None
        except (RpcError, InvalidAnswerError) as error:
            self._answered(began)
            raise errors.without_address(
                self._stored.secrets.mask_error(error), self.spec
            ) from None
        except UnreachableError as error:
            if isinstance(error, ConnectionLostError):
                self._failed(error.failed)
            self._stored.secrets.mask_failure(error)
            raise errors.without_address(error, self.spec) from error.__cause__
        self._answered(began)
        return self._stored.secrets.mask_result(result)

    async def _session_for(self, peer: Peer | None, target: str) -> EraSession:
        """The connection to use; waits a bounded time for one being opened."""
        if not self._up.is_set() or self._ended:
            if self.demand.is_on_demand:
                await self._started()
            elif self.state == "connecting" and not self._ended:
                first_attempt = () if self._settled.is_set() else (self._settled,)
                with anyio.move_on_after(_CONNECT_WAIT_S):
                    await wait_for_any(self._up, *first_attempt)
            if not self._up.is_set() or self._ended:
                raise self._down()
        assert self.main is not None
        return await self._side.choose(self.main, peer, target)

    async def _connect_side(self) -> EraSession:
        async with asyncio.timeout(_CONNECT_WAIT_S):
            return await EraSession.connect(self.name, self._new_wire, self, era="handshake")

    async def _new_wire(self) -> Wire:
        """Build a wire with what is stored for the server, which is masked from then on."""
        return self._make_wire(await self._stored.fill(self.spec))

    def _down(self) -> ServerDownError | LoginNeededError:
        if self.state != "disabled" and not self._ended and self._login is not None:
            return self._login
        return errors.server_down_error(self.status(), has_ended=self._ended)

    def _answered(self, began: float) -> None:
        self._health.answered(began)
        if self.state == "degraded":
            self._set_state("ready")

    def _lost(self, session: EraSession, lost: ConnectionLostError) -> None:
        """Replace a connection that failed a request, even if its read side seems alive.

        Over HTTP a request has its own stream: a broken one says nothing about the others.
        """
        self.last_error = lost.failed
        if self.spec.kind == "http" and lost.sent and not lost.expired:
            return
        if session is self.main:
            self._up.clear()
            self._set_state("connecting")
            self._broken.set()
        elif session is self._side.session:
            self._side.session = None
            self._spawn(session.aclose())

    def _failed(self, reason: str) -> None:
        self.last_error = reason
        self._health.failed()
        if self._health.is_degraded and self.state == "ready":
            self._set_state("degraded")
        if self.main is not None and self._health.claim_ping():
            self._spawn(self._check(self.main))

    async def _check(self, session: EraSession) -> None:
        """Reconnect a server that does not even answer a ping (circuit breaker)."""
        if not await self._health.ping(session) and session is self.main:
            self.last_error = f"It answered neither {self._health.failures} calls nor a ping."
            self._up.clear()
            self._broken.set()

    async def subscribe(self, uris: set[str]) -> None:
        """Receive updates of exactly these resources, now and after reconnecting.

        Does nothing if each caller has its own connection: the main one acts for somebody else.
        """
        if self._by_subject is not None:
            return
        self._subscriptions = set(uris)
        self.demand.subscribe(is_subscribed=bool(uris))
        if uris and self.demand.is_on_demand and not self._up.is_set():
            self.demand.wake()  # it subscribes when it is up
        elif self.main is not None:
            async with asyncio.timeout(_LIST_S):
                await self.main.subscribe(self._subscriptions)

    async def _resubscribe(self) -> None:
        with suppress(UpstreamError, TimeoutError):
            await self.subscribe(self._subscriptions)

    async def listing(self) -> Listing:
        """Everything the server offers, all pages, from every open connection.

        Raises:
            UpstreamError: The server could not be listed.
        """
        session = self.main
        if session is None:
            raise self._down()
        try:
            with self.demand.use(is_listing=True):
                listing = await self._read_listing(session)
                only_side: frozenset[str] = frozenset()
                if (side := self._side.session) is not None:
                    listing, only_side = join_listings(listing, await self._read_listing(side))
            self._side.only_tools = only_side
        except TimeoutError:
            self._failed(f"It did not list its tools within {_LIST_S:g} seconds.")
            raise TimedOutError(
                f"Server {self.name!r} did not list its tools within {_LIST_S:g} seconds.",
                hint="See its standard error: toolgate servers logs " + self.name,
            ) from None
        except ConnectionLostError as lost:
            self._lost(session, lost)
            raise
        return listing

    async def _read_listing(self, session: EraSession) -> Listing:
        listing, mirrored = await read_listing(session, timeout_s=_LIST_S)
        if mirrored is not None:
            self._mirrored = mirrored
        return listing
