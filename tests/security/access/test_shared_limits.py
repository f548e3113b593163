"""Limits that hold over restarts and over replicas of one store."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tests.limits import HANG_S
from tests.store.stores import BOTH, run_sql, url_of
from toolgate.app.app import App
from toolgate.base.ids import utc_now
from toolgate.errors import LimitError
from toolgate.settings import LimitSettings, Settings, ToolLimitTable
from toolgate.store import DayUsage
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

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


AT_ONCE = {
    "caller": LimitSettings(concurrent_calls=2),
    "tool": LimitSettings(tools={"shop:*": ToolLimitTable(concurrent_calls=2)}),
}


class SlowShop:
    """A server whose calls run until the test lets them end."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.running = 0

    async def buy(self, _: Json) -> Json:
        self.running += 1
        await self.release.wait()
        return text_result("bought")

    @asynccontextmanager
    async def busy(self, apps: Sequence[App]) -> AsyncGenerator[None]:
        """A call runs in each gateway during the block."""
        async with anyio.create_task_group() as tasks:
            for app in apps:
                tasks.start_soon(app.gateway.calls.execute, ME, "shop:buy", {})
            with anyio.fail_after(HANG_S):
                while self.running < len(apps):
                    await anyio.sleep(0.01)
            yield
            self.release.set()

    async def gateway(self, stack: AsyncExitStack, url: str, limits: LimitSettings) -> App:
        settings = Settings(mode="all", limits=limits)
        servers = {"shop": FakeUpstream({"buy": self.buy})}
        return await stack.enter_async_context(memory_app(servers, settings, store_url=url))


@pytest.mark.real
@pytest.mark.parametrize("limits", AT_ONCE.values(), ids=AT_ONCE)
async def test_replicas_share_the_calls_that_run_at_the_same_time(
    limits: LimitSettings, request: pytest.FixtureRequest
) -> None:
    """What runs in one counts in the other, until its answer is there."""
    url, shop = url_of("postgres", request), SlowShop()
    async with AsyncExitStack() as stack:
        apps = [await shop.gateway(stack, url, limits) for _ in range(2)]
        async with shop.busy(apps):
            for app in apps:
                with pytest.raises(LimitError, match="2 calls running, and 2 may run") as caught:
                    await app.gateway.calls.execute(ME, "shop:buy", {})
                assert caught.value.retryable
            assert shop.running == 2
        # Each answer has freed its slot, so sequential calls go to any replica.
        assert await passed(apps, 6) == 6


@pytest.mark.real
async def test_a_call_that_is_refused_later_or_cancelled_frees_its_slot(
    request: pytest.FixtureRequest,
) -> None:
    limits = LimitSettings(concurrent_calls=1, calls_per_day=2)
    url, shop = url_of("postgres", request), SlowShop()
    async with AsyncExitStack() as stack:
        first, second = [await shop.gateway(stack, url, limits) for _ in range(2)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.gateway.calls.execute, ME, "shop:buy", {})
            with anyio.fail_after(HANG_S):
                while not shop.running:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        shop.release.set()
        assert await passed([second], 1) == 1
        with anyio.fail_after(HANG_S):
            while await passed([first], 1):  # until it has read what the other counted
                await anyio.sleep(0.02)
        for _ in range(2):  # the second try meets the same limit, not a slot that was left behind
            with pytest.raises(LimitError, match="today"):
                await first.gateway.calls.execute(ME, "shop:buy", {})


@pytest.mark.real
async def test_a_limit_on_calls_at_the_same_time_outlives_a_failing_store(
    request: pytest.FixtureRequest,
) -> None:
    url, shop = url_of("postgres", request), SlowShop()
    async with AsyncExitStack() as stack:
        app = await shop.gateway(stack, url, LimitSettings(concurrent_calls=1))
        run_sql(url, "ALTER TABLE limit_slots RENAME TO limit_slots_gone")
        async with shop.busy([app]):
            assert await passed([app], 1) == 0
        assert await passed([app], 1) == 1


@pytest.mark.real
async def test_calls_without_a_limit_at_the_same_time_ask_the_store_for_no_slot(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    url, shop = url_of("postgres", request), SlowShop()
    shop.release.set()
    async with AsyncExitStack() as stack:
        app = await shop.gateway(stack, url, LimitSettings(calls_per_minute=600))
        run_sql(url, "DROP TABLE limit_slots")
        assert await passed([app], 3) == 3
    assert "limits count by process" not in caplog.text


async def test_a_store_that_fails_leaves_the_count_to_the_process() -> None:
    async with AsyncExitStack() as stack:
        app = await gateway(stack, "sqlite://", LimitSettings(calls_per_day=2))
        await app.store.close()
        limits = app.permissions.limits
        allowed = 0
        for _ in range(3):
            call = limits.for_call(ME, "shop:buy")
            assert call is not None
            try:
                async with limits.hold(call):
                    allowed += 1
            except LimitError:
                continue
        assert allowed == 2
