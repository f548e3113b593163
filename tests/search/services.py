"""A real Toolgate that searches for others, on a free port."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

from tests.limits import HANG_S
from toolgate.server.http import serve
from toolgate.settings import CatalogSearchSettings, Settings
from toolgate.testing import memory_app

TOKEN = "token-of-team-a-0123456789"
OTHER = "token-of-team-b-0123456789"


def serving(strategy: str = "bm25", **table: Any) -> Settings:
    """Settings of a gateway that searches for the projects `a` and `b`."""
    tokens = table.pop("tokens", {"a": (TOKEN,), "b": (OTHER,)})
    return Settings(
        optimization="off",
        catalog_search=CatalogSearchSettings(tokens=tokens, strategy=strategy, **table),
    )


@asynccontextmanager
async def search_service(settings: Settings | None = None) -> AsyncGenerator[str]:
    """Its address."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with memory_app({}, settings or serving()) as app, anyio.create_task_group() as tasks:

        async def work() -> None:
            await serve(app, port=0, on_ready=ready.set_result)

        tasks.start_soon(work)
        with anyio.fail_after(HANG_S):
            url = await ready
        try:
            yield url
        finally:
            tasks.cancel_scope.cancel()


@contextmanager
def search_service_in_thread(settings: Settings | None = None) -> Generator[str]:
    """The same beside the loop of the test."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(search_service(settings)) as url,
    ):
        yield url
