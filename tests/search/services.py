"""A real Toolgate that searches for others, on a free port."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal

from tests.serving import serving
from toolgate.settings import CatalogSearchSettings, Settings
from toolgate.testing import memory_app

TOKEN = "token-of-team-a-0123456789"
OTHER = "token-of-team-b-0123456789"


def service_settings(strategy: str = "bm25", **table: Any) -> Settings:
    """Settings of a gateway that searches for the projects `a` and `b`."""
    tokens = table.pop("tokens", {"a": (TOKEN,), "b": (OTHER,)})
    return Settings(
        optimization="off",
        catalog_search=CatalogSearchSettings(tokens=tokens, strategy=strategy, **table),
    )


@asynccontextmanager
async def search_service(settings: Settings | None = None) -> AsyncGenerator[str]:
    """Its address."""
    async with memory_app({}, settings or service_settings()) as app, serving(app) as url:
        yield url


@contextmanager
def search_service_in_thread(settings: Settings | None = None) -> Generator[str]:
    """The same beside the loop of the test."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(search_service(settings)) as url,
    ):
        yield url
