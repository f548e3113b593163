"""A whole gateway in memory, with fake servers, for tests."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from toolgate.app.app import App, open_app
from toolgate.settings import Settings, StoreSettings
from toolgate.testing.fake_upstream import FakeUpstream
from toolgate.types import Json, ServerSpec


@asynccontextmanager
async def memory_app(
    servers: Mapping[str, object],
    settings: Settings | None = None,
    *,
    store_url: str = "sqlite://",
    wait_s: float = 30.0,
    kind: str = "inprocess",
    **options: Any,
) -> AsyncGenerator[App]:
    """Run a gateway in memory.

    Args:
        servers: By name: a `FakeUpstream`, functions decorated with `@tool`, or a server object
            of FastMCP or the `mcp` library.
        settings: All other settings; its servers and store are ignored.
        store_url: The store; in memory by default.
        wait_s: Seconds to wait until all servers are listed or have failed.
        kind: Transport that a `FakeUpstream` pretends to be; over HTTP, a broken stream affects
            one call only.
        options: Further fields of each `ServerSpec`, such as `timeout_s`.
    """
    specs = tuple(
        ServerSpec(name=name, kind=kind, options={"target": target}, **options)
        for name, target in servers.items()
    )
    effective = replace(settings or Settings(), servers=specs, store=StoreSettings(url=store_url))
    wires = {
        name: upstream for name, upstream in servers.items() if isinstance(upstream, FakeUpstream)
    }
    async with open_app(effective, wait_s=wait_s, wires=wires) as app:
        yield app


class FakePeer:
    """A client that records messages and answers requests as scripted."""

    def __init__(
        self,
        *,
        era: str = "modern",
        capabilities: Json | None = None,
        answers: Mapping[str, Json] | None = None,
        wants_progress: bool = False,
        log_level: str | None = None,
    ) -> None:
        self.era: Any = era
        self.capabilities: Json = capabilities or {}
        self.answers = dict(answers or {})
        self.wants_progress = wants_progress
        self.log_level = log_level
        self.messages: list[tuple[str, Json]] = []
        """Received messages in order: `progress`, `log` or the method of a request, with
        parameters."""

    async def progress(self, params: Json) -> None:
        """Record it."""
        self.messages.append(("progress", params))

    async def log(self, params: Json) -> None:
        """Record it."""
        self.messages.append(("log", params))

    async def ask(self, method: str, params: Json) -> Json:
        """Answer as scripted."""
        self.messages.append((method, params))
        return self.answers[method]
