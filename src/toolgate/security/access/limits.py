"""Usage limits: calls per minute, at the same time and per day.

Each process counts for itself. A minute is a bucket that refills all the time, so there is no
moment at which everybody may start again; a day begins at midnight, UTC.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from time import monotonic
from typing import TypeAlias

from toolgate.base.ids import utc_now
from toolgate.errors import LimitError
from toolgate.security.access.rules import glob
from toolgate.settings import LimitSettings, ToolLimitTable
from toolgate.types import Caller

__all__ = ["LIMITS", "UsageLimits"]

LIMITS = ("calls_per_minute", "concurrent_calls", "calls_per_day", "tokens_per_day")
"""What can be limited for a caller."""

Charge: TypeAlias = Callable[[int], None]
"""Takes estimated tokens."""

_MINUTE_S = 60.0
_A_DAY = timedelta(days=1)
# Callers, and tools, that are counted at a time; idle ones are forgotten first. Chosen.
_REMEMBERED = 50_000


@dataclass(kw_only=True)
class _UsageCount:
    """What somebody, or a tool, has used."""

    left: float = -1.0
    at: float = 0.0
    running: int = 0
    day: str = ""
    calls: int = 0
    tokens: int = 0

    def wait_s(self, per_minute: int, clock_s: float) -> float:
        """Seconds until a call is left in the bucket; 0: now, and it is taken."""
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
        """Count anew when a day has begun; a clock that is set back begins none.

        Around midnight it may be set back and go on: that is the same day. One that was wrong by
        more is right from now on.
        """
        if self.day < day:
            self.day, self.calls, self.tokens = day, 0, 0
        elif self.day > day and date.fromisoformat(self.day) - date.fromisoformat(day) > _A_DAY:
            self.day = day


class UsageLimits:
    """Counts calls of tools and refuses those that are too many."""

    def __init__(
        self,
        settings: Callable[[], LimitSettings],
        of_project: Callable[[str], Mapping[str, int]],
        *,
        clock: Callable[[], float] = monotonic,
        today: Callable[[], str] = lambda: utc_now()[:10],
    ) -> None:
        self._settings = settings
        self._of_project = of_project
        self._clock = clock
        self._today = today
        self._callers: dict[str, _UsageCount] = {}
        self._tools: dict[str, _UsageCount] = {}

    def acquire(self, caller: Caller, key: str) -> AbstractContextManager[Charge] | None:
        """Count a call of a tool. Returns a function for the estimated tokens of its result.

        None: nothing limits this call, and nothing is counted.

        Raises:
            LimitError: It is one too many.
        """
        settings = self._settings()
        limits, of_tool = self._of(caller, settings), _limits_of_tool(key, settings)
        if not limits and of_tool is None:
            return None
        who = self._count(self._callers, caller.caller_id)
        tool = self._count(self._tools, key)
        if of_tool is not None:
            per_tool = {
                "calls_per_minute": of_tool.calls_per_minute,
                "concurrent_calls": of_tool.concurrent_calls,
            }
            self._check(per_tool, tool, f"The tool {key!r} has", "of it")
        self._check(limits, who, "You have", "of yours")
        return _running(who, tool)

    def _of(self, caller: Caller, settings: LimitSettings) -> dict[str, int]:
        """The limits of a caller that are set: its own, else its project's, else those of all."""
        project = self._of_project(caller.project_id)
        token_limits = dict(caller.identity.limits)
        limits: dict[str, int] = {}
        for name in LIMITS:
            value = token_limits.get(name, project.get(name, getattr(settings, name)))
            if value:
                limits[name] = value
        return limits

    def _check(
        self, limits: Mapping[str, int], count: _UsageCount, whose: str, of_whom: str
    ) -> None:
        count.begin_day(self._today())
        limit = limits.get("concurrent_calls", 0)
        if limit and count.running >= limit:
            raise LimitError(
                f"{whose} {count.running} calls running, and {limit} may run at the same time.",
                wait_s=1.0,
                hint="Wait until one has ended.",
            )
        for name, used, unit in (
            ("calls_per_day", count.calls, "calls"),
            ("tokens_per_day", count.tokens, "tokens of results"),
        ):
            limit = limits.get(name, 0)
            if limit and used >= limit:
                raise LimitError(
                    f"{whose} used {used:,} {unit} today, and {limit:,} a day are allowed.",
                    hint="Try again after midnight UTC, or ask whoever runs the gateway for more.",
                )
        limit = limits.get("calls_per_minute", 0)
        wait_s = count.wait_s(limit, self._clock()) if limit else 0.0
        if wait_s:
            raise LimitError(
                f"{limit} calls {of_whom} are allowed within a minute, and this is one too many.",
                wait_s=wait_s,
                hint=f"Try again in {max(1, round(wait_s))} seconds.",
            )

    def _count(self, counts: dict[str, _UsageCount], name: str) -> _UsageCount:
        count = counts.get(name)
        if count is None:
            count = counts[name] = _UsageCount()
            if len(counts) > _REMEMBERED:
                idle = next((key for key, other in counts.items() if not other.running), name)
                if idle != name:
                    del counts[idle]
        return count


def _limits_of_tool(key: str, settings: LimitSettings) -> ToolLimitTable | None:
    tables = settings.tools.items()
    return next((table for name, table in tables if glob(name).fullmatch(key)), None)


@contextmanager
def _running(who: _UsageCount, tool: _UsageCount) -> Generator[Charge]:
    who.calls += 1
    who.running += 1
    tool.running += 1

    def charge(tokens: int) -> None:
        who.tokens += tokens

    try:
        yield charge
    finally:
        who.running -= 1
        tool.running -= 1
