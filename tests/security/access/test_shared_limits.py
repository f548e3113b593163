"""Limits that hold over restarts and over replicas of one store."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import anyio
import pytest

from tests.limits import HANG_S
from tests.store.stores import BOTH, url_of
from toolgate.app.app import App
from toolgate.base.ids import utc_now
from toolgate.errors import LimitError
from toolgate.settings import LimitSettings, Settings, ToolLimitTable
from toolgate.store import DayUsage
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller

pytestmark = pytest.mark.anyio

ME = Caller.local()


async def gateway(stack: AsyncExitStack, url: str, limits: LimitSettings) -> App:
    shop = FakeUpstream({"buy": lambda _: text_result("bought")})
    app = memory_app({"shop": shop}, Settings(mode="all", limits=limits), store_url=url)
    return await stack.enter_async_context(app)


async def passed(apps: Sequence[App], calls: int) -> int:
    """How many of these calls, made to the gateways in turn, were let through."""
    count = 0
    for number in range(calls):
        try:
            await apps[number % len(apps)].gateway.calls.execute(ME, "shop:buy", {})
        except LimitError:
            continue
        count += 1
    return count


async def until_saved(app: App, calls: int) -> None:
    """Wait until the store has as many calls of today."""
    with anyio.fail_after(HANG_S):
        while True:
            totals = await app.store.access.add_day_usage(
                utc_now()[:10], {ME.caller_id: DayUsage()}
            )
            if totals.get(ME.caller_id, DayUsage()).calls == calls:
                return
            await anyio.sleep(0.02)


@BOTH
async def test_a_day_goes_on_after_a_restart(kind: str, request: pytest.FixtureRequest) -> None:
    url, limits = url_of(kind, request), LimitSettings(calls_per_day=3)
    async with AsyncExitStack() as stack:
        assert await passed([await gateway(stack, url, limits)], 2) == 2
    async with AsyncExitStack() as stack:
        assert await passed([await gateway(stack, url, limits)], 3) == 1


@BOTH
async def test_a_day_is_saved_without_an_orderly_end(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """What runs on beside the first gateway sees its calls, as does one that starts later."""
    url, limits = url_of(kind, request), LimitSettings(calls_per_day=5, tokens_per_day=10_000)
    async with AsyncExitStack() as stack:
        first = await gateway(stack, url, limits)
        second = await gateway(stack, url, limits)
        assert await passed([first], 3) == 3
        await until_saved(first, 3)
        assert await passed([second], 4) == 2
        await until_saved(first, 5)
        assert await passed([await gateway(stack, url, limits)], 2) == 0


@pytest.mark.real
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(LimitSettings(calls_per_minute=6), id="caller"),
        pytest.param(
            LimitSettings(tools={"shop:*": ToolLimitTable(calls_per_minute=6)}), id="tool"
        ),
    ],
)
async def test_replicas_share_a_minute(
    limits: LimitSettings, request: pytest.FixtureRequest
) -> None:
    """Neither divided by the number of replicas nor multiplied by it."""
    url = url_of("postgres", request)
    async with AsyncExitStack() as stack:
        first = await gateway(stack, url, limits)
        second = await gateway(stack, url, limits)
        # One may use it all; a call every ten seconds flows in while the test runs.
        assert await passed([first], 5) == 5
        assert 1 <= await passed([second, first], 8) <= 2


async def test_a_store_that_fails_leaves_the_count_to_the_process() -> None:
    async with AsyncExitStack() as stack:
        app = await gateway(stack, "sqlite://", LimitSettings(calls_per_day=2))
        await app.store.close()
        limits = app.permissions.limits
        allowed = 0
        for _ in range(3):
            call = limits.for_call(ME, "shop:buy")
            assert call is not None
            await limits.refresh(call)
            try:
                running = limits.acquire(call)
            except LimitError:
                continue
            with running:
                allowed += 1
        assert allowed == 2
