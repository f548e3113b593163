"""One connection of a server, from the attempt to make it to its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from toolgate.errors import ConnectionLostError, LoginNeededError, ToolgateError
from toolgate.types import ServerSpec
from toolgate.upstream.base import Wire
from toolgate.upstream.era_session import EraSession, EraSessionObserver
from toolgate.upstream.supervision.demand import Demand

__all__ = ["ConnectFailure", "connect", "wait_for_end"]

log = logging.getLogger(__name__)

# Seconds for a connection and its greeting. Chosen: `npx` and `uvx` may download the server first.
_CONNECT_S = 90.0


@dataclass(frozen=True, kw_only=True)
class ConnectFailure:
    """Why there is no connection."""

    reason: str
    """One sentence or two."""

    stderr: tuple[str, ...] = ()
    """What the server wrote to its standard error."""

    login: LoginNeededError | None = None
    """What has to be done, where nobody has logged in."""


async def connect(
    spec: ServerSpec, make_wire: Callable[[ServerSpec], Wire], observer: EraSessionObserver
) -> EraSession | ConnectFailure:
    """A connection to a server, or why there is none."""
    tried: list[Wire] = []

    def tried_wire() -> Wire:
        tried.append(make_wire(spec))
        return tried[-1]

    try:
        async with asyncio.timeout(_CONNECT_S):
            return await EraSession.connect(spec.name, tried_wire, observer, era=spec.era)
    except TimeoutError:
        reason, login = f"It did not answer within {_CONNECT_S:g} seconds after its start.", None
    except ToolgateError as error:
        # Remembered so that a call can offer the login instead of reporting an outage.
        login = error if isinstance(error, LoginNeededError) else None
        # A greeting that was lost has done no harm: no word of what may have run.
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
    """Why a connection ends; empty if it was declared broken, None if nobody needs it.

    Args:
        closed: Gives the reason when the connection has ended.
        broken: Set when the connection is to be given up.
        demand: Tells when nobody needs it.
        on_idle: Called in the moment in which nobody needs it, before a call can come.
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
