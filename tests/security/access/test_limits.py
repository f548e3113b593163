"""How much a caller and a tool may do."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.limits import HANG_S
from tests.security.access.fake_catalog import caller
from toolgate.errors import LimitError
from toolgate.security.access import UsageLimits
from toolgate.settings import LimitSettings, ToolLimitTable
from toolgate.store import DayUsage, make_store
from toolgate.types import Caller


class Clock:
    """A clock to turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self.day = "2026-07-28"


def limits(
    clock: Clock,
    settings: LimitSettings,
    project: dict[str, int] | None = None,
) -> UsageLimits:
    return UsageLimits(
        settings,
        lambda name: project or {} if name == "web" else {},
        make_store("sqlite://").access,
        clock=lambda: clock.now,
        today=lambda: clock.day,
    )


def acquire(counted: UsageLimits, who: Caller, key: str) -> AbstractContextManager[Any] | None:
    """What counts a call that may run; None: nothing limits it."""
    call = counted.for_call(who, key)
    return None if call is None else counted.acquire(call)


def use(counted: UsageLimits, who: Caller, key: str = "a:x", *, tokens: int = 0) -> bool:
    """Whether a call was let through."""
    try:
        held = acquire(counted, who, key)
    except LimitError:
        return False
    if held is not None:
        with held as charge:
            charge(tokens)
    return True


ANNA, BEN = caller(token="anna"), caller(token="ben")


def test_without_limits_nothing_is_counted() -> None:
    counted = limits(Clock(), LimitSettings())

    assert acquire(counted, ANNA, "a:x") is None


def test_a_minute_has_as_many_calls_as_are_allowed_and_refills() -> None:
    clock = Clock()
    counted = limits(clock, LimitSettings(calls_per_minute=6))

    assert [use(counted, ANNA) for _ in range(8)] == [True] * 6 + [False] * 2
    assert use(counted, BEN)
    clock.now += 10.0
    assert [use(counted, ANNA) for _ in range(2)] == [True, False]
    clock.now += 3600.0
    assert [use(counted, ANNA) for _ in range(7)] == [True] * 6 + [False]


def test_a_refusal_says_when_to_come_back() -> None:
    counted = limits(Clock(), LimitSettings(calls_per_minute=2))
    use(counted, ANNA)
    use(counted, ANNA)

    with pytest.raises(LimitError) as caught:
        acquire(counted, ANNA, "a:x")
    assert caught.value.wait_s == pytest.approx(30.0)
    assert caught.value.retryable
    assert "Try again in 30 seconds." in str(caught.value)


def test_only_so_many_calls_run_at_the_same_time() -> None:
    counted = limits(Clock(), LimitSettings(concurrent_calls=2))
    first, second = acquire(counted, ANNA, "a:x"), acquire(counted, ANNA, "a:x")
    assert first is not None
    assert second is not None
    with first:
        with second:
            assert not use(counted, ANNA)
            assert use(counted, BEN)
        assert use(counted, ANNA)


def test_a_call_that_fails_gives_its_place_back() -> None:
    counted = limits(Clock(), LimitSettings(concurrent_calls=1))
    held = acquire(counted, ANNA, "a:x")
    assert held is not None
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError

    assert use(counted, ANNA)


def test_a_day_has_a_budget_of_calls_and_of_tokens() -> None:
    clock = Clock()
    counted = limits(clock, LimitSettings(calls_per_day=3, tokens_per_day=100))

    assert [use(counted, ANNA) for _ in range(4)] == [True, True, True, False]
    assert [use(counted, BEN, tokens=60) for _ in range(3)] == [True, True, False]
    clock.day = "2026-07-29"
    assert use(counted, ANNA)
    assert use(counted, BEN)


def test_a_clock_that_is_set_back_and_forth_gives_no_second_budget() -> None:
    """And once it is right again, the next day is a new one."""
    clock = Clock()
    counted = limits(clock, LimitSettings(calls_per_day=2))
    assert [use(counted, ANNA) for _ in range(3)] == [True, True, False]
    for clock.day in ("2026-07-27", "2026-07-28"):
        assert not use(counted, ANNA)
    for clock.day in ("2027-07-28", "2026-07-29"):  # a year ahead, and right again
        use(counted, ANNA)
    clock.day = "2026-07-30"
    assert [use(counted, ANNA) for _ in range(3)] == [True, True, False]


def test_the_limit_of_the_token_goes_before_that_of_the_project_and_of_all() -> None:
    counted = limits(Clock(), LimitSettings(calls_per_day=1), {"calls_per_day": 2})
    own = replace(ANNA.identity, limits=(("calls_per_day", 3),))
    in_web = replace(ANNA, project_id="web", caller_id="token:w")
    of_token = replace(in_web, identity=own, caller_id="token:t")
    free = replace(in_web, identity=replace(own, limits=(("calls_per_day", 0),)))

    assert [use(counted, ANNA) for _ in range(2)] == [True, False]
    assert [use(counted, in_web) for _ in range(3)] == [True, True, False]
    assert [use(counted, of_token) for _ in range(4)] == [True, True, True, False]
    assert acquire(counted, replace(free, caller_id="token:f"), "a:x") is None


def test_a_tool_is_limited_for_all_callers_together() -> None:
    table = {"a:x*": ToolLimitTable(calls_per_minute=2)}
    counted = limits(Clock(), LimitSettings(tools=table))

    assert [use(counted, ANNA), use(counted, BEN), use(counted, BEN)] == [True, True, False]
    assert use(counted, ANNA, "a:xy")  # each tool by itself
    assert acquire(counted, ANNA, "b:x") is None


class SlowUsage:
    """The counts of a store that writes when a test lets it."""

    shares_limits = False

    def __init__(self) -> None:
        self.started, self.release = asyncio.Event(), asyncio.Event()
        self.calls: Counter[str] = Counter()

    async def add_day_usage(self, day: str, used: Mapping[str, DayUsage]) -> Mapping[str, DayUsage]:
        self.started.set()
        await self.release.wait()
        self.calls.update({name: usage.calls for name, usage in used.items()})
        return {name: DayUsage(calls=self.calls[name]) for name in used}


async def test_a_task_that_is_cancelled_while_it_saves_loses_no_call() -> None:
    usage: Any = SlowUsage()
    counted = UsageLimits(LimitSettings(calls_per_day=5), lambda _: {}, usage)
    call = counted.for_call(ANNA, "a:x")
    assert call is not None
    with anyio.fail_after(HANG_S):
        usage.release.set()
        await counted.refresh(call)
        with counted.acquire(call):
            pass
        usage.started.clear()
        usage.release.clear()
        saving = asyncio.ensure_future(counted.save())
        await usage.started.wait()
        saving.cancel()
        await anyio.lowlevel.checkpoint()
        usage.release.set()
        await asyncio.wait({saving})
    assert usage.calls[ANNA.caller_id] == 1
