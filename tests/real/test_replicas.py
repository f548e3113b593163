"""Three gateways on one PostgreSQL behind a round robin, one of them killed under load."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import aiohttp
import anyio
import psutil
import pytest

from tests.limits import HANG_S
from tests.postgres import PostgresServer
from tests.real.processes import (
    PROBE_SERVER,
    RunningGateway,
    free_port,
    gateway,
    listening,
)
from tests.server.http_gateway import INITIALIZE, headers_for, modern
from toolgate.types import Json

pytestmark = pytest.mark.real

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
AT_ONCE = 4
"""Clients of each era."""
CALLS = 25
"""Calls of each client before the kill, and after it."""


@dataclass
class RoundRobin:
    """Sends each request to the next door, and to the one behind it where nobody listens."""

    doors: list[str]
    http: aiohttp.ClientSession
    answered: list[str] = field(default_factory=list[str])
    lost: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Client and door of the calls whose connection broke."""

    def __post_init__(self) -> None:
        self._turns = cycle([(*self.doors[at:], *self.doors[:at]) for at in range(len(self.doors))])

    async def post(
        self, message: Json, headers: dict[str, str], client: str = ""
    ) -> tuple[str, str]:
        """The text of the answer and the session that was opened; both empty for a lost call."""
        for door in next(self._turns):
            try:
                async with self.http.post(door, json=message, headers=headers) as response:
                    said = await response.text()
                assert response.status in {200, 202}, said
                return said, response.headers.get("Mcp-Session-Id", "")
            except aiohttp.ClientConnectorError:
                continue
            except (aiohttp.ClientError, ConnectionError):
                self.lost.append((client, door))
                return "", ""
        raise AssertionError("no door listens")

    async def echo(self, words: str, message: Json, headers: dict[str, str]) -> None:
        said, _ = await self.post(message, headers, message["id"].partition(" ")[0])
        if said:
            assert words in said, said
            self.answered.append(words)


def modern_client(robin: RoundRobin, name: str) -> Callable[[str], object]:
    async def call(words: str) -> None:
        params = {"name": "probe__echo", "arguments": {"text": words}}
        message = modern("tools/call", params, request_id=f"{name} {words}")
        await robin.echo(words, message, {**ACCEPT, **headers_for(message)})

    return call


async def legacy_client(robin: RoundRobin, name: str) -> Callable[[str], object]:
    """Opens a session at one door; its calls go to all of them."""
    _, session = await robin.post(INITIALIZE, ACCEPT)
    headers = {**ACCEPT, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    await robin.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)

    async def call(words: str) -> None:
        params = {"name": "probe__echo", "arguments": {"text": words}}
        message = {
            "jsonrpc": "2.0",
            "id": f"{name} {words}",
            "method": "tools/call",
            "params": params,
        }
        await robin.echo(words, message, headers)

    return call


async def test_only_calls_under_way_are_lost_when_one_of_three_replicas_is_killed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    port = free_port()
    probe = (*PROBE_SERVER, "--transport", "http", "--port", str(port))
    servers = {"probe": {"url": f"http://127.0.0.1:{port}/mcp"}}
    settings = {"mode": "all", "store": {"url": postgres.new_database()}}
    with contextlib.ExitStack() as stack:
        stack.enter_context(listening(probe, port, log=tmp_path / "probe.log"))
        running: list[RunningGateway] = []
        for number in range(3):
            folder = tmp_path / str(number)
            running.append(stack.enter_context(gateway(folder, servers, settings)))
        for each in running:
            each.wait_ready("probe")
        # A connection for each request, as from many clients: none is kept to one that is dead.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:
            await _load_and_kill(RoundRobin([each.url for each in running], http), running[1])


async def _load_and_kill(robin: RoundRobin, victim: RunningGateway) -> None:
    clients = [modern_client(robin, f"modern-{number}") for number in range(AT_ONCE)]
    clients += [await legacy_client(robin, f"legacy-{number}") for number in range(AT_ONCE)]

    async def work(number: int, client: Callable[[str], object]) -> None:
        for turn in range(2 * CALLS):
            await client(f"words {number} {turn}.")  # type: ignore[misc]
            if (number, turn) == (0, CALLS):
                # Until it has ended, its socket accepts further calls: nobody may send any.
                process = psutil.Process(victim.run.pid)
                process.kill()
                process.wait(HANG_S)

    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as group:
            for number, client in enumerate(clients):
                group.start_soon(work, number, client)

    # What was under way there, and no more: a client that lost a call lost no other.
    assert {door for _, door in robin.lost} <= {victim.url}
    assert len({client for client, _ in robin.lost}) == len(robin.lost)
    wanted = {
        f"words {client} {turn}." for client in range(2 * AT_ONCE) for turn in range(2 * CALLS)
    }
    assert len(robin.answered) == len(set(robin.answered)) == len(wanted) - len(robin.lost)
    assert set(robin.answered) <= wanted
