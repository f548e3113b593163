"""What load balancers and scrapers see while servers start and while the store does not answer."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import anyio
import httpx2
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.app.app import App, open_app
from toolgate.audit import recorder
from toolgate.errors import RpcError
from toolgate.server.http import build_app
from toolgate.settings import AuditSettings, Settings, StoreSettings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller, Json, ServerSpec
from toolgate.upstream import CallSink

ME = Caller.local()
SETTINGS = Settings(allow_other_users=True, audit=AuditSettings(on_failure="closed"))


@asynccontextmanager
async def client_of(app: App) -> AsyncGenerator[httpx2.AsyncClient]:
    application = build_app(app)
    transport = httpx2.ASGITransport(app=application)  # pyright: ignore[reportArgumentType]
    async with (
        application.running(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield client


@contextmanager
def locked(url: str, *tables: str) -> Generator[None]:
    """Let every statement about these tables hang."""
    with psycopg.connect(url) as connection:
        for table in tables:
            connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield
        connection.rollback()


async def value_of(client: httpx2.AsyncClient, name: str) -> float:
    with anyio.fail_after(HANG_S):
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return next(family.samples[0].value for family in families if family.name == name)


async def wait_ready(client: httpx2.AsyncClient, status: int) -> httpx2.Response:
    with anyio.fail_after(HANG_S):
        while (answer := await client.get("/readyz")).status_code != status:
            await anyio.sleep(0.01)
    return answer


async def test_a_gateway_is_ready_when_the_tools_of_its_servers_are_known() -> None:
    upstream = FakeUpstream()
    spec = ServerSpec(name="a", kind="inprocess", options={"target": upstream})
    settings = replace(SETTINGS, servers=(spec,), store=StoreSettings(url="sqlite://"))
    async with (
        open_app(settings, hold=True, wires={"a": upstream}) as app,
        client_of(app) as client,
    ):
        early = await client.get("/readyz")
        app.connect()
        ready = await wait_ready(client, 200)

    assert early.status_code == 503
    assert early.json() == {
        "ready": False,
        "reason": "Tools of servers that are starting are not known yet.",
    }
    assert ready.json() == {"ready": True}


async def test_metrics_keep_their_last_values_while_the_store_hangs(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_schema()
    async with (
        memory_app({"a": FakeUpstream()}, SETTINGS, store_url=url) as app,
        client_of(app) as client,
    ):
        assert await value_of(client, "toolgate_store_up") == 1
        with locked(url, "approvals"):
            # One late answer may come from a busy machine; operators are not woken for it.
            assert await value_of(client, "toolgate_store_up") == 1
            assert await value_of(client, "toolgate_tools") > 0
            assert await value_of(client, "toolgate_store_up") == 0
        with anyio.fail_after(HANG_S):
            while await value_of(client, "toolgate_store_up") == 0:
                await anyio.sleep(0.05)


async def test_scrapes_at_the_same_time_are_all_answered() -> None:
    """Found by fuzzing: the second of them failed."""
    statuses: list[int] = []
    async with memory_app({"a": FakeUpstream()}, SETTINGS) as app, client_of(app) as client:

        async def scrape() -> None:
            statuses.append((await client.get("/metrics")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(scrape)

    assert statuses == [200] * 8


async def test_a_gateway_that_must_record_is_not_ready_while_it_cannot(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hangs fails nothing by itself, so the wait has a limit."""
    monkeypatch.setattr(recorder, "_MAX_WAIT_S", 0.2)
    url = postgres.new_schema()
    call = {"name": "a__echo", "arguments": {"text": "hi"}}
    async with (
        memory_app({"a": FakeUpstream()}, SETTINGS, store_url=url) as app,
        client_of(app) as client,
    ):
        with locked(url, "audit"):
            with anyio.fail_after(HANG_S):
                refused = await app.gateway.call(ME, call, None)
            unready = await wait_ready(client, 503)
        with anyio.fail_after(HANG_S):
            while (await app.gateway.call(ME, call, None)).get("isError"):
                await anyio.sleep(0.05)
        await wait_ready(client, 200)

    assert refused["isError"]
    assert "not written within 0.2 seconds" in refused["content"][0]["text"]
    assert "audit log cannot be written" in unready.json()["reason"]


class Unlisted(FakeUpstream):
    """A server whose tools cannot be listed until `listed` is set, or whose list is refused."""

    def __init__(self, refusal: RpcError | None = None) -> None:
        super().__init__()
        self.refusal = refusal
        self.listed = anyio.Event()

    async def answer(self, method: str, params: Json, sink: CallSink | None) -> Json:
        if method == "tools/list":
            if self.refusal is not None:
                raise self.refusal
            await self.listed.wait()
        return await super().answer(method, params, sink)


async def until_state(client: httpx2.AsyncClient, state: str) -> Json:
    with anyio.fail_after(HANG_S):
        while True:
            (server,) = (await client.get("/api/v1/servers")).json()["servers"]
            if server["state"] == state:
                return server
            await anyio.sleep(0.01)


async def test_a_server_is_ready_once_its_tools_can_be_searched() -> None:
    upstream = Unlisted()
    async with memory_app({"a": upstream}, SETTINGS, wait_s=0) as app, client_of(app) as client:
        with anyio.fail_after(HANG_S):
            while "tools/list" not in [method for method, _ in upstream.requests]:
                await anyio.sleep(0.01)
        early = (await client.get("/api/v1/servers")).json()["servers"]
        upstream.listed.set()
        server = await until_state(client, "ready")
        answer = await client.post("/api/v1/discover", json={"query": "echo"})

    assert [server["state"] for server in early] == ["connecting"]
    assert server["tools"] == 1
    assert [hit["toolKey"] for hit in answer.json()["results"]] == ["a:echo"]


async def test_a_server_whose_tools_cannot_be_listed_says_why_and_blocks_nobody() -> None:
    upstream = Unlisted(RpcError(-32603, "The catalog is locked"))
    async with memory_app({"a": upstream}, SETTINGS, wait_s=0) as app, client_of(app) as client:
        server = await until_state(client, "degraded")
        ready = await wait_ready(client, 200)
        upstream.refusal = None
        upstream.listed.set()
        await upstream.announce()
        mended = await until_state(client, "ready")

    assert "Its tools cannot be listed." in server["last_error"]
    assert "The catalog is locked" in server["last_error"]
    assert ready.json() == {"ready": True}
    assert (mended["tools"], mended["last_error"]) == (1, None)
