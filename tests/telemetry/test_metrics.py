"""What operators read at `/metrics` is what happened, exactly."""

import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.errors import UnknownToolError
from toolgate.server.http import build_app
from toolgate.settings import LogSettings, MetricSettings, SearchSettings, Settings
from toolgate.store import SqlAccess, Store
from toolgate.telemetry import METRICS, Metrics
from toolgate.telemetry.prometheus_format import join_workers
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller

ME = Caller.local()


@asynccontextmanager
async def opened(
    settings: Settings | None = None, servers: Mapping[str, FakeUpstream] | None = None
) -> AsyncGenerator[tuple[App, httpx2.AsyncClient]]:
    tools: dict[str, Any] = {
        "good": lambda _: text_result("ten bytes!"),
        "bad": lambda _: text_result("no", isError=True),
    }
    wanted = replace(settings or Settings(), allow_other_users=True)
    servers = servers or {"a": FakeUpstream(tools), "b": FakeUpstream(tools)}
    async with memory_app(servers, wanted) as app:
        door = build_app(app)
        transport = httpx2.ASGITransport(app=door)  # pyright: ignore[reportArgumentType]
        async with (
            door.running(),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            yield app, client


async def scraped(client: httpx2.AsyncClient) -> dict[tuple[str, ...], float]:
    """Values by name and labels, once they are fresh: a slow machine gives the last known first."""
    with anyio.fail_after(HANG_S):
        while True:
            answer = await client.get("/metrics")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            values = {
                (sample.name, *sorted(sample.labels.values())): sample.value
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
            }
            if values["toolgate_store_up",]:
                return values


async def test_the_numbers_are_those_of_a_scripted_load() -> None:
    async with opened(Settings(optimization="bm25")) as (app, client):
        for _ in range(7):
            await app.gateway.calls.execute(ME, "a:good", {})
        for _ in range(3):
            await app.gateway.calls.execute(ME, "b:bad", {})
        for _ in range(2):
            with pytest.raises(UnknownToolError):
                await app.gateway.calls.execute(ME, "a:gone", {})
        for _ in range(4):
            await client.post("/api/v1/discover", json={"query": "good"})
        found = await scraped(client)

        assert found["toolgate_calls_total", "a", "ok"] == 7
        assert found["toolgate_calls_total", "b", "tool_error"] == 3
        assert found["toolgate_refusals_total", "unknown_tool"] == 2
        assert found["toolgate_requests_total", "call", "ok"] == 7
        assert found["toolgate_requests_total", "call", "tool_error"] == 3
        assert found["toolgate_requests_total", "discover", "ok"] == 4
        assert found["toolgate_request_duration_seconds_count", "call"] == 12
        assert found["toolgate_stage_duration_seconds_count", "server"] == 10
        assert found["toolgate_stage_duration_seconds_count", "search"] == 4
        assert found["toolgate_stage_duration_seconds_count", "decision"] == 4
        assert found["toolgate_stage_duration_seconds_count", "identity"] == 5
        assert found["toolgate_stage_duration_seconds_bucket", "+Inf", "server"] == 10
        assert found["toolgate_search_fallbacks_total",] == 0
        assert found["toolgate_discovery_tokens_total",] > 0
        assert found["toolgate_servers", "ready"] == 2
        assert found["toolgate_server_up", "a"] == 1
        assert found["toolgate_tools",] == 4
        assert found["toolgate_tool_definition_tokens",] == app.gateway.listing.total_tokens
        assert found["toolgate_info", "0.1.0"] == 1
        assert found["toolgate_spans_sent_total",] == 0
        assert found["toolgate_spans_dropped_total",] == 0
        again = await scraped(client)
        assert again["toolgate_calls_total", "a", "ok"] == 7


async def nobody_waits(store: Store) -> None:
    """Wait until background tasks, which also use the store, are done with it."""
    with anyio.fail_after(HANG_S):
        while any(store.waiting().values()):
            await anyio.sleep(0.01)


async def test_who_waits_for_the_store_is_counted() -> None:
    async with opened() as (app, client):
        assert isinstance(app.store, SqlAccess)
        with anyio.fail_after(HANG_S):  # background tasks use the store, too
            while (await scraped(client))["toolgate_store_waiting", "write"]:
                await anyio.sleep(0.01)
        held, release = anyio.Event(), threading.Event()

        def hold(_: object) -> None:
            anyio.from_thread.run_sync(held.set)
            release.wait(HANG_S)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app.store.maintaining, hold)
            with anyio.fail_after(HANG_S):
                await held.wait()
            for _ in range(3):
                tasks.start_soon(app.store.projects.add_references, ["web"])
            with anyio.fail_after(HANG_S):
                while app.store.waiting()["write"] < 3:
                    await anyio.lowlevel.checkpoint()
            release.set()
        await nobody_waits(app.store)


async def test_a_service_of_a_search_that_is_left_alone_is_told() -> None:
    options = {"cloud": {"url": "http://127.0.0.1:1", "failures": 2, "cooldown_s": 600}}
    cloud = Settings(optimization="cloud", search=SearchSettings(options=options))
    async with opened(cloud) as (_, client):
        for query, alone in (("good", 0), ("bad", 1)):
            await client.post("/api/v1/discover", json={"query": query})
            found = await scraped(client)
            assert found["toolgate_search_circuit_open", "cloud"] == alone
        assert found["toolgate_search_fallbacks_total",] == 2


async def test_numbers_that_are_sent_are_looked_up_without_a_scrape() -> None:
    async with opened() as (app, _):
        metrics, stop = Metrics(app), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(metrics.keep_fresh, 0.01, stop)
            with anyio.fail_after(HANG_S):
                while not metrics.index or not metrics.queued:
                    await anyio.lowlevel.checkpoint()
            stop.set()
        [search] = metrics.index["searches"]
        assert search["search"] == "hybrid"


async def test_every_metric_is_described_and_every_described_one_is_there() -> None:
    async with opened() as (app, client):
        await app.gateway.calls.execute(ME, "a:good", {})
        await client.post("/api/v1/discover", json={"query": "good"})
        with pytest.raises(UnknownToolError):
            await app.gateway.calls.execute(ME, "a:gone", {})
        families = {
            family.name
            for family in text_string_to_metric_families((await client.get("/metrics")).text)
            if family.name.startswith("toolgate_")
        }
        assert families == set(METRICS)


async def test_names_of_others_cannot_fill_the_memory() -> None:
    """Bounded label cardinality."""
    async with opened() as (app, client):
        for number in range(250):
            with pytest.raises(UnknownToolError):
                await app.gateway.calls.execute(ME, f"x{number}:y", {})
        found = await scraped(client)
        assert len([key for key in found if key[0] == "toolgate_refusals_total"]) == 1
        assert not any("x7" in part for key in found for part in key)


async def test_numbers_need_the_right_to_manage_unless_they_are_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="toolgate.server")
    wanted = Settings(auth="required", log=LogSettings(requests="on"))
    async with opened(wanted) as (app, client):
        assert (await client.get("/metrics")).status_code == 401
        member = await app.gateway.admin.create_token(ME, "ben", roles=["member"])
        admin = await app.gateway.admin.create_token(ME, "anna", roles=["admin"])
        for made, status in ((member, 403), (admin, 200)):
            shown = {"authorization": f"Bearer {made.secret}"}
            answer = await client.get("/metrics", headers=shown)
            assert answer.status_code == status
            told = caplog.records[-1].__dict__
            assert told["caller"] == f"token:{made.row.token_id}", "the log says who scraped"
    async with opened(Settings(auth="required", metrics=MetricSettings(open=True))) as (_, client):
        assert (await client.get("/metrics")).status_code == 200
    async with opened(Settings(metrics=MetricSettings(enabled=False))) as (_, client):
        assert (await client.get("/metrics")).status_code == 404


def test_metrics_of_several_workers_are_one_text_with_a_label_for_each() -> None:
    text = (
        "# HELP calls_total Calls.\n# TYPE calls_total counter\n"
        'calls_total{{server="a\\"}}{{"}} {calls}\n# HELP up Up.\n# TYPE up gauge\nup 1.0\n'
    )
    joined = join_workers({2: text.format(calls=5.0), 1: text.format(calls=3.0)})
    families = {family.name: family for family in text_string_to_metric_families(joined)}
    samples = {
        (sample.name, *sample.labels.items()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples == {
        ("calls_total", ("server", 'a"}{'), ("worker", "1")): 3.0,
        ("calls_total", ("server", 'a"}{'), ("worker", "2")): 5.0,
        ("up", ("worker", "1")): 1.0,
        ("up", ("worker", "2")): 1.0,
    }
    assert joined.count("# TYPE calls_total") == 1


async def test_operators_see_how_late_the_event_loop_is_and_where_it_was() -> None:
    async with opened() as (app, client):
        with anyio.fail_after(HANG_S):
            while app.loop_monitor.worst is None:
                time.sleep(0.03)
                await anyio.sleep(0.3)
        values = await scraped(client)
        answer = await client.get("/api/v1/diagnostics")
    assert values["toolgate_event_loop_stalls_total",] >= 1
    assert values["toolgate_event_loop_worst_stall_seconds",] >= 0.02
    assert values["toolgate_overload_refusals_total",] == 0
    worst = answer.json()["event_loop"]["worst_stall"]
    assert worst["seconds"] >= 0.02
    assert set(worst) == {"seconds", "cpu_s", "at", "stack"}
