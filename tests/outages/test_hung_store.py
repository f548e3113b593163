"""Requests that need the store end although a transaction of somebody else does not."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import headers_for, modern, post
from tests.serving import serving
from toolgate.app.app import App
from toolgate.server.asgi import request_context
from toolgate.settings import GuardTable, Settings
from toolgate.store import SqlAccess
from toolgate.testing import FakeUpstream, memory_app

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
