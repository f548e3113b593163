"""Usage limits: calls per minute, concurrent calls, and usage per day.

A minute is a token bucket that refills continuously, so callers do not all start again at the
same moment; a day begins at midnight UTC. Daily usage is saved in the store. In a store shared
by several machines, the buckets are in the store too, and each process takes a few calls at a
time; concurrent calls are counted there as well.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from time import monotonic, time
from typing import TypeAlias

import anyio

from toolgate.base.ids import utc_now
from toolgate.errors import LimitError, StoreError
from toolgate.security.access.concurrency import SharedSlots
from toolgate.security.access.rules import glob
from toolgate.settings import LimitSettings, ToolLimitTable
from toolgate.store import AccessRepository, DayUsage, acquired, store_deadline
from toolgate.types import Caller

log = logging.getLogger(__name__)

LIMITS = ("calls_per_minute", "concurrent_calls", "calls_per_day", "tokens_per_day")
"""Names of the limits for a caller."""

Charge: TypeAlias = Callable[[int], None]
"""Receives estimated tokens."""

_MINUTE_S = 60.0
"""Seconds of a minute, since limits are set per minute."""
_A_DAY = timedelta(days=1)
# Callers, and tools, that are counted at a time; idle ones are removed first. Chosen.
_REMEMBERED = 50_000
# Seconds between two exchanges of a daily count with the store: the usage that a kill may lose, and
# how long usage in another process may go unnoticed. Chosen.
_EXCHANGE_S = 0.5
# A process takes the calls of about a second at a time from a shared minute.
_GRANTS_PER_MINUTE = 60
# Maximum seconds that a call waits for the store to count; then this process counts by itself.
_STORE_WAIT_S = 2.0
# Seconds until a failed store is retried.
_RETRY_S = 5.0
_DAY_LIMITS = frozenset({"calls_per_day", "tokens_per_day"})


@dataclass(kw_only=True)
class _UsageCount:
    """Usage of a caller or a tool."""

    left: float = -1.0
    at: float = 0.0
    running: int = 0
    day: str = ""
    calls: int = 0
    tokens: int = 0
    unsaved_calls: int = 0
    unsaved_tokens: int = 0
    is_stored: bool = False
    exchanged_at: float = -1.0
    is_shared: bool = False
    granted: int = 0
    empty_until: float = 0.0

    @property
    def is_saved(self) -> bool:
        """Whether the store has all the usage that it should."""
        return not (self.is_stored and (self.unsaved_calls or self.unsaved_tokens))

    @property
    def is_idle(self) -> bool:
        """Whether this count can be removed from memory."""
        return not self.running and self.is_saved

    def add(self, *, calls: int = 0, tokens: int = 0) -> None:
        """Add usage to today's count."""
        self.calls += calls
        self.tokens += tokens
        self.unsaved_calls += calls
        self.unsaved_tokens += tokens

    def take_unsaved(self) -> DayUsage:
        """Return the usage that is not in the store yet, and count it as saved."""
        used = DayUsage(calls=self.unsaved_calls, tokens=self.unsaved_tokens)
        self.unsaved_calls = self.unsaved_tokens = 0
        return used

    def wait_s(self, per_minute: int, clock_s: float) -> float:
        """Return the seconds until the bucket has a call; 0 takes one now."""
        if self.is_shared:
            if not self.granted:
                return max(self.empty_until - clock_s, 0.001)
            self.granted -= 1
            return 0.0
        if self.left < 0:
            self.left = float(per_minute)
        else:
            refilled = self.left + (clock_s - self.at) * per_minute / _MINUTE_S
            self.left = min(float(per_minute), refilled)
        self.at = clock_s
        if self.left >= 1.0:
            self.left -= 1.0
            return 0.0
        return (1.0 - self.left) * _MINUTE_S / per_minute

    def begin_day(self, day: str) -> None:
        """Reset the count when a day has begun; a clock that is set back does not begin one.

        If it is set back around midnight, that is still the same day. If it was wrong by more
        than a day, its new date counts.
        """
        if self.day < day:
            self.day, self.calls, self.tokens = day, 0, 0
            self.unsaved_calls = self.unsaved_tokens = 0
            self.exchanged_at = -1.0
        elif self.day > day and date.fromisoformat(self.day) - date.fromisoformat(day) > _A_DAY:
            self.day = day


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """The limits that apply to one tool call."""

    caller_id: str
    """Id of the caller."""

    tool: str
    """Key of the tool."""

    of_caller: Mapping[str, int]
    """Limits by name: those of the caller, else of its project, else of all callers."""

    of_tool: ToolLimitTable | None
    """Limits of the tool; None if it has none."""

    @property
    def slots(self) -> dict[str, int]:
        """Maximum concurrent calls, by the name of the limit in the store."""
        tool = 0 if self.of_tool is None else self.of_tool.concurrent_calls
        own = self.of_caller.get("concurrent_calls", 0)
        slots = {f"caller:{self.caller_id}": own, f"tool:{self.tool}": tool}
        return {name: calls for name, calls in slots.items() if calls}


class UsageLimits:
    """Counts tool calls and refuses those that exceed a limit."""

    def __init__(
        self,
        settings: LimitSettings,
        of_project: Callable[[str], Mapping[str, int]],
        store: AccessRepository,
        *,
        clock: Callable[[], float] = monotonic,
        today: Callable[[], str] = lambda: utc_now()[:10],
    ) -> None:
        self._settings = settings
        self._of_project = of_project
        self._store = store
        self._exchanging = anyio.Lock()
        self._is_failing = False
        self._clock = clock
        self._today = today
        self._callers: dict[str, _UsageCount] = {}
        self._tools: dict[str, _UsageCount] = {}
        self._slots = SharedSlots(store, clock)

    def reload(self, settings: LimitSettings) -> None:
        """Apply new limits from the next call on; previous usage still counts."""
        self._settings = settings

    def for_call(self, caller: Caller, key: str) -> CallLimits | None:
        """Return the limits of a tool call; None if there are none, and nothing is counted."""
        of_caller, of_tool = self._of(caller), self._of_tool(key)
        if not of_caller and of_tool is None:
            return None
        return CallLimits(
            caller_id=caller.caller_id, tool=key, of_caller=of_caller, of_tool=of_tool
        )

    @asynccontextmanager
    async def hold(self, call: CallLimits) -> AsyncGenerator[Charge]:
        """Count a tool call, which runs in the block.

        Yields a function that receives the estimated tokens of its result. Without a limit on
        concurrent calls, or if no other machine uses the store, the block sends no request to
        the store.

        Raises:
            LimitError: The call exceeds a limit.
        """
        await self.refresh(call)
        self._check_running(call)  # before the store is asked: refusals should be cheap
        async with self._slots.held(call.slots) as full:
            if full is not None:
                is_own = full.name.startswith("caller:")
                whose = "You have" if is_own else f"The tool {call.tool!r} has"
                raise _too_many_at_once(whose, full.running, call.slots[full.name])
            with self.acquire(call) as charge:
                yield charge

    async def refresh(self, call: CallLimits) -> None:
        """Synchronize the counts for a call with the store, right before `acquire`.

        Sends no request to the store without a limit per day, and without one per minute in a
        store that several machines use. If the store fails, this process counts by itself.
        """
        who = self._count(self._callers, call.caller_id)
        if _DAY_LIMITS & call.of_caller.keys():
            who.is_stored = True
            who.begin_day(self._today())
            if self._is_outdated(who):
                await self._exchange({call.caller_id: who})
        if not self._store.shares_limits:
            return
        buckets: list[tuple[str, _UsageCount, int]] = []
        if per_minute := call.of_caller.get("calls_per_minute"):
            buckets.append((f"caller:{call.caller_id}", who, per_minute))
        if call.of_tool is not None and call.of_tool.calls_per_minute:
            tool = self._count(self._tools, call.tool)
            buckets.append((f"tool:{call.tool}", tool, call.of_tool.calls_per_minute))
        # Check again after each wait: another call may have taken the calls in the meantime.
        while empty := next((bucket for bucket in buckets if self._needs_calls(bucket[1])), None):
            if not await self._take_calls(*empty):
                return

    async def save(self) -> None:
        """Save usage in the store; a store that fails is retried later."""
        await self._exchange({})

    async def keep_saved(self) -> None:
        """Save regularly and renew the slots of running calls, until cancelled."""
        while True:
            await anyio.sleep(_EXCHANGE_S)
            await self.save()
            await self._slots.keep()

    def acquire(self, call: CallLimits) -> AbstractContextManager[Charge]:
        """Count a tool call in this process. Returns a function that receives its estimated tokens.

        Raises:
            LimitError: The call exceeds a limit.
        """
        self._check_running(call)
        who = self._count(self._callers, call.caller_id)
        tool = self._count(self._tools, call.tool)
        if call.of_tool is not None:
            per_tool = {"calls_per_minute": call.of_tool.calls_per_minute}
            self._check(per_tool, tool, f"The tool {call.tool!r} has", "of it")
        self._check(call.of_caller, who, "You have", "of yours")
        return _running(who, tool)

    def _of(self, caller: Caller) -> dict[str, int]:
        """Return the limits of a caller: its own, else its project's, else those of all callers."""
        project = self._of_project(caller.project_id)
        token_limits = dict(caller.identity.limits)
        limits: dict[str, int] = {}
        for name in LIMITS:
            value = token_limits.get(name, project.get(name, getattr(self._settings, name)))
            if value:
                limits[name] = value
        return limits

    def _of_tool(self, key: str) -> ToolLimitTable | None:
        tables = self._settings.tools.items()
        return next((table for name, table in tables if glob(name).fullmatch(key)), None)

    def _is_outdated(self, count: _UsageCount) -> bool:
        return count.exchanged_at < 0 or self._clock() - count.exchanged_at > _EXCHANGE_S

    async def _exchange(self, asked: Mapping[str, _UsageCount]) -> None:
        """Save unsaved usage, and read the totals for it and for the given counts."""
        # In a separate task: a cancelled call must not lose the usage of others.
        exchange = asyncio.ensure_future(self._exchange_whole(asked))
        try:
            await asyncio.shield(exchange)
        except asyncio.CancelledError:
            await asyncio.wait({exchange})
            raise

    async def _exchange_whole(self, asked: Mapping[str, _UsageCount]) -> None:
        with store_deadline(_STORE_WAIT_S):
            try:
                async with acquired(self._exchanging):
                    outdated = {
                        name: count for name, count in asked.items() if self._is_outdated(count)
                    }
                    if asked and not outdated:
                        return
                    unsaved = {k: count for k, count in self._callers.items() if not count.is_saved}
                    counts = outdated | unsaved
                    for day in sorted({count.day for count in counts.values()}):
                        of_day = {name: count for name, count in counts.items() if count.day == day}
                        await self._exchange_day(day, of_day)
            except StoreError as error:
                self._warn(error)
                for count in asked.values():
                    count.exchanged_at = self._clock() + _RETRY_S

    async def _exchange_day(self, day: str, counts: Mapping[str, _UsageCount]) -> None:
        used = {name: count.take_unsaved() for name, count in counts.items()}
        try:
            totals = await self._store.add_day_usage(day, used)
        except StoreError:
            for name, count in counts.items():
                if count.day == day:
                    count.unsaved_calls += used[name].calls
                    count.unsaved_tokens += used[name].tokens
            raise
        self._is_failing = False
        for name, count in counts.items():
            if count.day == day:
                total = totals.get(name, DayUsage())
                count.calls = total.calls + count.unsaved_calls
                count.tokens = total.tokens + count.unsaved_tokens
                count.exchanged_at = self._clock()

    def _needs_calls(self, count: _UsageCount) -> bool:
        return not count.granted and self._clock() >= count.empty_until

    async def _take_calls(self, name: str, count: _UsageCount, per_minute: int) -> bool:
        """Take calls for a second from a shared minute; return whether there were any."""
        try:
            with store_deadline(_STORE_WAIT_S):
                grant = await self._store.take_calls(
                    name,
                    per_minute=per_minute,
                    up_to=max(1, per_minute // _GRANTS_PER_MINUTE),
                    now_s=time(),
                )
        except StoreError as error:
            self._warn(error)
            count.is_shared, count.empty_until = False, self._clock() + _RETRY_S
            return False
        self._is_failing, count.is_shared = False, True
        count.granted += grant.calls
        if not grant.calls:
            count.empty_until = self._clock() + grant.wait_s
        return grant.calls > 0

    def _warn(self, error: StoreError) -> None:
        if not self._is_failing:
            log.warning("limits count by process", extra={"error": error.full_text})
        self._is_failing = True

    def _check_running(self, call: CallLimits) -> None:
        tool_limit = 0 if call.of_tool is None else call.of_tool.concurrent_calls
        own_limit = call.of_caller.get("concurrent_calls", 0)
        for limit, count, whose in (
            (tool_limit, self._count(self._tools, call.tool), f"The tool {call.tool!r} has"),
            (own_limit, self._count(self._callers, call.caller_id), "You have"),
        ):
            if limit and count.running >= limit:
                raise _too_many_at_once(whose, count.running, limit)

    def _check(
        self, limits: Mapping[str, int], count: _UsageCount, whose: str, of_whom: str
    ) -> None:
        count.begin_day(self._today())
        for name, used, unit in (
            ("calls_per_day", count.calls, "calls"),
            ("tokens_per_day", count.tokens, "tokens of results"),
        ):
            limit = limits.get(name, 0)
            if limit and used >= limit:
                raise LimitError(
                    f"{whose} used {used:,} {unit} today, and {limit:,} a day are allowed.",
                    hint="Try again after midnight UTC, or ask the administrator for a higher"
                    " limit.",
                )
        limit = limits.get("calls_per_minute", 0)
        wait_s = count.wait_s(limit, self._clock()) if limit else 0.0
        if wait_s:
            raise LimitError(
                f"{limit} calls {of_whom} are allowed within a minute, and this call exceeds"
                " the limit.",
                wait_s=wait_s,
                hint=f"Try again in {max(1, round(wait_s))} seconds.",
            )

    def _count(self, counts: dict[str, _UsageCount], name: str) -> _UsageCount:
        count = counts.get(name)
        if count is None:
            count = counts[name] = _UsageCount()
            if len(counts) > _REMEMBERED:
                idle = next((key for key, other in counts.items() if other.is_idle), name)
                if idle != name:
                    del counts[idle]
        return count


def _too_many_at_once(whose: str, running: int, limit: int) -> LimitError:
    return LimitError(
        f"{whose} {running} calls running, and {limit} may run at the same time.",
        wait_s=1.0,
        hint="Wait until one has finished.",
    )


@contextmanager
def _running(who: _UsageCount, tool: _UsageCount) -> Generator[Charge]:
    who.add(calls=1)
    who.running += 1
    tool.running += 1

    def charge(tokens: int) -> None:
        who.add(tokens=tokens)

    try:
        yield charge
    finally:
        who.running -= 1
        tool.running -= 1
