"""Clients that keep a gateway process busy, and what it must be able to prove afterwards."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
import anyio

from tests.limits import HANG_S
from tests.outages import ledger_server
from tests.postgres import PostgresServer
from tests.real.processes import RunningGateway, gateway
from tests.server.http_gateway import headers_for, modern
from toolgate.store import AuditFilter, make_store
from toolgate.types import AuditRecord

_CLIENTS: Final = 6

OnFailure = Literal["open", "closed"]


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a gateway keeps its files, and the ledger behind it; gateways come and go."""

    folder: Path
    on_failure: OnFailure
    store_url: str
    ledger: Path

    @contextmanager
    def gateway(
        self, env: Mapping[str, str] | None = None, prelude: str | None = ""
    ) -> Iterator[RunningGateway]:
        """A gateway process over the store of the site, ready for calls."""
        command = [ledger_server.__file__, str(self.ledger)]
        servers = {"ledger": {"command": sys.executable, "args": command}}
        settings = {
            "mode": "all",
            "store": {"url": self.store_url},
            "audit": {"on_failure": self.on_failure},
        }
        with gateway(self.folder, servers, settings, env, prelude=prelude) as running:
            running.wait_ready("ledger")
            yield running

    def entries(self) -> list[str]:
        """What the server was made to do."""
        return self.ledger.read_text("utf-8").splitlines() if self.ledger.exists() else []

    async def records(self, action: str | None = "call") -> list[AuditRecord]:
        """All audit records so far, by default those of calls."""
        store = make_store(self.store_url)
        await store.open()
        try:
            return list(await store.audit.select(AuditFilter(action=action, limit=100_000)))
        finally:
            await store.close()

    def verify(self, running: RunningGateway) -> str:
        """What `toolgate audit verify` says; it fails the test if the chain is broken."""
        done = subprocess.run(
            [sys.executable, "-m", "toolgate", "--config", str(running.config), "audit", "verify"],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
            env=dict(os.environ) | dict(running.env),  # noqa: TID251 - a child of this world
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def site(folder: Path, on_failure: OnFailure, server: PostgresServer | None = None) -> Site:
    """A new place for gateways: a database of its own in a server, or a file."""
    url = f"sqlite:///{folder / 'toolgate.db'}" if server is None else server.new_database()
    return Site(folder=folder, on_failure=on_failure, store_url=url, ledger=folder / "ledger.txt")


@dataclass(kw_only=True)
class Load:
    """Clients of one gateway, each with one call after the other."""

    address: str
    key: str
    answered: list[str] = field(default_factory=list[str])
    """Trace ids of calls whose result came back."""
    refused: list[str] = field(default_factory=list[str])
    """What was said about calls that were not made."""
    tokens: list[str] = field(default_factory=list[str])
    """Names of tokens whose creation was confirmed."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Keep calling until the block ends, or the gateway does."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HANG_S)) as http:
            clients = [asyncio.create_task(self._calls(http)) for _ in range(_CLIENTS)]
            clients.append(asyncio.create_task(self._administers(http)))
            try:
                yield self
            finally:
                for client in clients:
                    client.cancel()
                await asyncio.gather(*clients, return_exceptions=True)

    async def until_answered(self, count: int) -> None:
        """Wait until so many more calls were answered."""
        target = len(self.answered) + count
        with anyio.fail_after(HANG_S):
            while len(self.answered) < target:
                await anyio.sleep(0.01)

    async def until_refused(self, count: int) -> None:
        """Wait until so many more calls were refused."""
        target = len(self.refused) + count
        with anyio.fail_after(HANG_S):
            while len(self.refused) < target:
                await anyio.sleep(0.01)

    async def call(self, http: aiohttp.ClientSession) -> None:
        """One call: its entry in the ledger is its trace id."""
        trace = secrets.token_hex(16)
        params = {"name": "ledger__book", "arguments": {"entry": trace}}
        message = modern("tools/call", params)
        headers = headers_for(message) | {
            "traceparent": f"00-{trace}-{secrets.token_hex(8)}-01",
            "accept": "application/json, text/event-stream",
        }
        answer = await self._post(http, "/mcp", message, headers)
        if '"result"' in answer and '"isError"' not in answer and trace in answer:
            self.answered.append(trace)
        else:
            self.refused.append(answer)

    async def _calls(self, http: aiohttp.ClientSession) -> None:
        while True:
            await self.call(http)

    async def _administers(self, http: aiohttp.ClientSession) -> None:
        while True:
            name = f"t{len(self.tokens)}"
            answer = await self._post(http, "/api/v1/tokens", {"name": name}, {})
            if f'"{name}"' in answer and '"error"' not in answer:
                self.tokens.append(name)
            await anyio.sleep(0.02)

    async def _post(
        self, http: aiohttp.ClientSession, path: str, body: Any, headers: Mapping[str, str]
    ) -> str:
        own = {"X-Toolgate-Key": self.key}
        async with http.post(
            f"{self.address}{path}", json=body, headers=own | dict(headers)
        ) as got:
            return await got.text()


async def until_metric(running: RunningGateway, name: str, value: float) -> None:
    """Wait for a value of `/metrics`, which answers while the store does not."""
    with anyio.fail_after(HANG_S):
        while await anyio.to_thread.run_sync(running.metric, name) != value:
            await anyio.sleep(0.05)
