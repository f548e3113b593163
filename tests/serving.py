"""A gateway that listens, for tests of what its clients see."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.server.http import serve


@asynccontextmanager
async def serving(app: App, *, key: str = "") -> AsyncGenerator[str]:
    """Serve an app on a free port, and give the address.

    Args:
        app: The app.
        key: The key of its run file; empty: none.
    """
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_ready(url: str) -> str:
        ready.set_result(url)
        return key

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: serve(app, port=0, on_ready=on_ready))
        with anyio.fail_after(HANG_S):
            url = await ready
        try:
            yield url
        finally:
            tasks.cancel_scope.cancel()
