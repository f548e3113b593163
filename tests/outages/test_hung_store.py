"""Requests that need the store end although a transaction of somebody else does not."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.from_thread
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import headers_for, modern, post, until
from tests.serving import serving
from toolgate.app.app import App
from toolgate.server.asgi import request_context
from toolgate.settings import GuardTable, Settings
from toolgate.store import (
    ApprovalFilter,
    BatchWriter,
    SqlAccess,
    StoredProject,
    current_deadline,
    store_deadline,
)
from toolgate.store.engine.database import SqlDatabase
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

ASK = Settings(mode="all", guard=(GuardTable(approver="user"),))


@asynccontextmanager
async def hung(app: App) -> AsyncIterator[None]:
    """The store accepts no transaction that writes."""
    begun, go_on = anyio.Event(), threading.Event()
    assert isinstance(app.store, SqlAccess)

    def hold(_: Any) -> None:
        anyio.from_thread.run_sync(begun.set)
        go_on.wait(HANG_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.store.writing, hold)
        with anyio.fail_after(HANG_S):
            await begun.wait()
        try:
            yield
        finally:
            go_on.set()


async def test_a_call_that_awaits_approval_is_answered_although_the_store_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "STORE_WAIT_S", 0.5)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    message = modern("tools/call", {"name": "desk__echo", "arguments": {}})
    async with (
        memory_app({"desk": FakeUpstream()}, ASK, store_url=url) as app,
        serving(app) as address,
        aiohttp.ClientSession() as http,
    ):
        async with hung(app):
            with anyio.fail_after(HANG_S / 2):
                over_mcp = await post(address, message, headers_for(message))
                body = {"toolKey": "desk:echo", "arguments": {}}
                async with http.post(f"{address}/api/v1/execute", json=body) as answer:
                    over_rest = await answer.json()
        monkeypatch.setattr(request_context, "STORE_WAIT_S", HANG_S)
        afterwards = await post(address, message, headers_for(message))

    assert "did not answer within 0.5 s" in str(over_mcp.only)
    assert over_rest["error"]["code"] == "store"
    assert over_rest["error"]["retryable"]
    assert "A person has to approve" in str(afterwards.only)


async def test_what_is_being_saved_stays_although_its_client_disconnects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    message = modern("tools/call", {"name": "desk__echo", "arguments": {}})
    begun, left, go_on = asyncio.Event(), asyncio.Event(), threading.Event()
    async with memory_app({"desk": FakeUpstream()}, ASK, store_url=url) as app:
        assert isinstance(app.store, SqlDatabase)
        write = app.store.write

        async def slow_write(work: Callable[[Any], Any]) -> Any:
            if current_deadline() is None:  # not of the request
                return await write(work)

            def slow_work(connection: Any) -> Any:
                result = work(connection)
                anyio.from_thread.run_sync(begun.set)
                go_on.wait(HANG_S)
                return result

            try:
                return await write(slow_work)
            finally:
                left.set()

        async with serving(app) as address, aiohttp.ClientSession() as http:
            monkeypatch.setattr(app.store, "write", slow_write)
            request = http.post(f"{address}/mcp", json=message, headers=headers_for(message))
            sent = asyncio.ensure_future(request.__aenter__())
            try:
                with anyio.fail_after(HANG_S):
                    await begun.wait()
                    sent.cancel()
                    await left.wait()
            finally:
                go_on.set()
            saved: list[Any] = []
            with anyio.fail_after(HANG_S):
                while not saved:
                    saved = await app.store.approvals.select(ApprovalFilter(), now="2026-01-01")
                    await anyio.sleep(0.01)
        assert len(saved) == 1


async def test_work_for_everybody_does_not_have_the_deadline_of_the_request_that_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound: dict[str, bool] = {}
    write = SqlDatabase.write

    async def noting(self: SqlDatabase, work: Callable[[Any], Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        name = getattr(task.get_coro(), "__qualname__", "")
        bound[name] = bound.get(name, False) or current_deadline() is not None
        return await write(self, work)

    monkeypatch.setattr(SqlDatabase, "write", noting)

    async def append(rows: Sequence[str]) -> None:
        del rows
        bound["BatchWriter"] = current_deadline() is not None

    expected = {"StoredListings._save", "Recorder._write_all", "BatchWriter"}
    with store_deadline(HANG_S, each=True):
        BatchWriter(append, name="some").put("row")
        async with memory_app({"desk": FakeUpstream()}) as app:
            await app.gateway.calls.execute(Caller.local(), "desk:echo", {"text": "hello"})
            await until(lambda: expected <= bound.keys(), within_s=HANG_S)
    assert not any(bound[name] for name in expected)


async def test_deleting_a_project_with_all_it_has_may_take_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    async with (
        memory_app({}, store_url=url) as app,
        serving(app) as address,
        aiohttp.ClientSession() as http,
    ):
        await app.store.projects.save(StoredProject(project_id="shop"))
        assert isinstance(app.store, SqlDatabase)
        write = app.store.write

        async def allowed_write(work: Callable[[Any], Any]) -> Any:
            deadline = current_deadline()
            assert deadline is None or deadline.wait_s > 60, "it would be cut"
            return await write(work)

        monkeypatch.setattr(app.store, "write", allowed_write)
        async with http.delete(f"{address}/api/v1/projects/shop") as answer:
            assert answer.status == 200, await answer.text()
