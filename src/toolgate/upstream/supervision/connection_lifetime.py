"""One connection of a server, from the attempt to open it to its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from toolgate.base.lazy_loading import load
from toolgate.base.plugins import module_of
from toolgate.errors import ConnectionLostError, LoginNeededError, ToolgateError
from toolgate.types import ServerSpec
from toolgate.upstream.base import Wire
from toolgate.upstream.era_session import EraSession, EraSessionObserver
from toolgate.upstream.supervision.on_demand import Demand

log = logging.getLogger(__name__)

# Seconds to connect and initialize (chosen: `npx` and `uvx` may download the server first).
_CONNECT_S = 90.0


@dataclass(frozen=True, kw_only=True)
class ConnectFailure:
    """Why there is no connection."""

    reason: str
    """The reason, in one or two sentences."""

    stderr: tuple[str, ...] = ()
    """The server's output on standard error."""

    login: LoginNeededError | None = None
    """The login that is needed, if nobody has logged in."""


async def connect(
    spec: ServerSpec, make_wire: Callable[[], Awaitable[Wire]], observer: EraSessionObserver
) -> EraSession | ConnectFailure:
    """Connect to a server; return the connection, or why there is none."""
    tried: list[Wire] = []

    async def tried_wire() -> Wire:
        tried.append(await make_wire())
        return tried[-1]

    try:
        async with asyncio.timeout(_CONNECT_S):
            # The HTTP client takes 0.1 s to import, in which no call would be answered.
            if module := module_of("transport", spec.kind):
                await load(module)
            return await EraSession.connect(spec.name, tried_wire, observer, era=spec.era)
    except TimeoutError:
        reason, login = f"It did not answer within {_CONNECT_S:g} seconds after its start.", None
    except ToolgateError as error:
        # Stored so that a call can offer the login instead of reporting an outage.
        login = error if isinstance(error, LoginNeededError) else None
        # A lost handshake has done no harm, so do not say that something may have run.
        reason = error.failed if isinstance(error, ConnectionLostError) else str(error)
    except Exception as error:  # a server must not end its own supervision
        log.exception("connecting failed unexpectedly", extra={"server": spec.name})
        reason, login = f"Connecting failed: {error!r}.", None
    stderr = tried[-1].stderr_tail if tried else ()
    return ConnectFailure(reason=reason, stderr=stderr, login=login)


async def wait_for_end(
    closed: Awaitable[str],
    broken: asyncio.Event,
    demand: Demand,
    *,
    on_idle: Callable[[], None],
) -> str | None:
    """Wait for a connection's end: empty if it was declared broken, None if nobody needs it.

    Args:
        closed: Returns the reason when the connection has ended.
        broken: Set when the connection is to be given up.
        demand: Tells when nobody needs it.
        on_idle: Called at the moment when nobody needs it, before another call can arrive.
    """
    end = asyncio.ensure_future(closed)
    given_up = asyncio.ensure_future(broken.wait())
    idle = asyncio.ensure_future(demand.wait_idle())
    try:
        while True:
            await asyncio.wait({end, given_up, idle}, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                return end.result()
            if given_up.done():
                return ""
            if demand.may_sleep:
                on_idle()
                return None
            idle = asyncio.ensure_future(demand.wait_idle())
    finally:
        for waiting in (end, given_up, idle):
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
