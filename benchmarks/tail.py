"""Measures waiting times next to slow, dead and flapping servers, and throughput under overload.

    python -m benchmarks tail [--quick] [--json]

A gateway has 200 servers over HTTP: 120 healthy ones, 50 that take a second per call, 20 whose port
is closed and 10 that flap. There are three phases: as many calls as it can answer for many clients
at once; half as many calls by 300 clients, while others call the slow, dead and flapping servers,
search and read the API's description; and twice as many calls as it can answer. In the second
phase, the same clients also call the servers themselves and a proxy that only sends calls on, in
turn with the gateway, so that what the machine does to all of them shows.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks._load import own_cpu_s, processor_wait_s
from benchmarks._report import Report, Target, main
from benchmarks._servers import gateway
from benchmarks.vendored.gateway_bench import Mcp, parse
from tests.real.processes import RunningGateway, free_port, listening

DEADLINE_S = 15.0
"""Seconds after which a call counts as hung; dead servers are given up earlier."""

_TURNS = 3
"""Turns of each endpoint in the second phase (chosen: other work on the machine meets all)."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The servers and clients, and the length of the phases."""

    healthy: int = 120
    slow: int = 50
    dead: int = 20
    flapping: int = 10
    clients: int = 300
    """Clients at once; a sixth of them call the slow, dead and flapping servers."""
    seconds: float = 15.0
    """Seconds of each phase."""


@dataclass(kw_only=True)
class Load:
    """The calls of one phase."""

    seconds: float = 0.0
    latencies_s: list[float] = field(default_factory=list[float])
    """Seconds of each successful call to a healthy server."""
    cpu_s: float = 0.0
    """CPU seconds that the process at the endpoint used."""
    waited_s: float = 0.0
    """Seconds that its event loop waited for a processor."""
    refused: int = 0
    """Calls refused because of overload, all with `Retry-After`."""
    failed: Counter[str] = field(default_factory=Counter[str])
    """Other failed calls to healthy servers, by message."""

    @property
    def rate(self) -> float:
        """Successful calls to healthy servers per second."""
        return len(self.latencies_s) / self.seconds

    @property
    def per_cpu_s(self) -> float:
        """Successful calls to healthy servers per CPU second of the gateway."""
        return len(self.latencies_s) / self.cpu_s

    def quantile_ms(self, share: float) -> float:
        """The time within which this share of them was answered."""
        ordered = sorted(self.latencies_s)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The result of a run."""

    peak: Load
    half: Load
    double: Load
    direct: Load
    """As many calls as in `half`, to the servers themselves."""
    proxy: Load
    """As many calls as in `half`, to a proxy that only sends them on."""
    stall: dict[str, Any] | None
    """The event loop's worst stall after the start, as the gateway reports it."""


class _Crowd:
    """Clients that call healthy servers at a shared rate."""

    def __init__(self, url: str, pid: int, scene: Scene) -> None:
        self._url = url
        self._pid = pid
        self._scene = scene
        self.load = Load()
        """All calls so far."""

    async def call(self, clients: int, seconds: float, rate: float | None) -> Load:
        """Call for some seconds.

        Args:
            clients: Number of clients, each with its own connection, of both eras.
            seconds: Duration.
            rate: Calls per second that all clients start; None: each calls without a pause.
        """
        load = self.load
        opened = [Mcp(self._url, "legacy" if n % 2 else "modern") for n in range(clients)]
        await asyncio.gather(*(client.start() for client in opened))
        began, cpu_s, waited_s = monotonic(), own_cpu_s(self._pid), processor_wait_s(self._pid)
        pause_s = 0.0 if rate is None else clients / rate
        await asyncio.gather(
            *(self._keep_calling(load, one, began + seconds, pause_s) for one in opened)
        )
        load.seconds += monotonic() - began
        load.cpu_s += own_cpu_s(self._pid) - cpu_s
        load.waited_s += processor_wait_s(self._pid) - waited_s
        for client in opened:
            client.c.close()
        return load

    async def _keep_calling(self, load: Load, client: Mcp, end: float, pause_s: float) -> None:
        dice = random.Random(id(client))
        due = monotonic() + dice.random() * pause_s
        while (now := monotonic()) < end:
            if now < due:  # an open loop: a late response delays no later call beyond its own
                await asyncio.sleep(due - now)
            due = max(due + pause_s, monotonic() - pause_s)
            name = f"healthy{dice.randrange(self._scene.healthy)}__echo"
            began = monotonic()
            wait_s = await _call(load, client, name)
            if wait_s is None:
                load.latencies_s.append(monotonic() - began)
            elif wait_s:
                await asyncio.sleep(min(wait_s, max(0.0, end - monotonic())))

    async def call_disturbed(self, seconds: float, rate: float) -> None:
        """Call with five sixths of the clients while the others disturb."""
        end, disturbing = monotonic() + seconds, self._scene.clients // 6
        async with asyncio.TaskGroup() as tasks:
            for number in range(disturbing):
                tasks.create_task(self._disturb(number, end))
            await self.call(self._scene.clients - disturbing, seconds, rate)

    async def _disturb(self, number: int, end: float) -> None:
        """Call slow, dead and flapping servers, and search, until a deadline."""
        dice, client = random.Random(number), Mcp(self._url, "modern")
        kinds = [("slow", self._scene.slow), ("dead", self._scene.dead)]
        kinds.append(("flapping", self._scene.flapping))
        while monotonic() < end:
            await asyncio.sleep(dice.random())  # first, so that not all begin at once
            kind, count = dice.choice(kinds)
            arguments: dict[str, Any] = {"text": "x"}
            name = f"{kind}{dice.randrange(count)}__echo"
            if dice.random() < 0.1:
                name, arguments = "tool_discovery", {"query": "echo a text"}
            with suppress(RuntimeError, OSError, EOFError):
                await client.call("tools/call", {"name": name, "arguments": arguments})
        client.c.close()


async def _call(load: Load, client: Mcp, name: str) -> float | None:
    """None if it succeeded, or the seconds that the gateway asks to wait."""
    params: dict[str, Any] = {"name": name, "arguments": {"text": "x"}}
    body, headers = _request(client, params)
    try:
        async with asyncio.timeout(DEADLINE_S):
            status, received, text = await _post(client, body, headers)
    except (OSError, EOFError, TimeoutError) as error:
        load.failed[type(error).__name__] += 1
        client.c.close()
        return 0.0
    if status == 503 and "retry-after" in received:
        load.refused += 1
        return float(received["retry-after"])
    message = parse(received, text) or {}
    if message.get("result", {}).get("content") == [{"type": "text", "text": "x"}]:
        return None
    load.failed[text.decode(errors="replace")[:200]] += 1
    return 0.0


async def _post(
    client: Mcp, body: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    """Send; retry once on a new connection if a kept one was closed, as HTTP clients do."""
    is_kept = client.c.r is not None
    try:
        return await client.c.post(body, headers)
    except (ConnectionError, asyncio.IncompleteReadError):
        client.c.close()
        if not is_kept:
            raise
    return await client.c.post(body, headers)


def _request(client: Mcp, params: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a call, as the generator of the other benchmarks sends it."""
    if client.era == "modern":
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {
            f"{prefix}protocolVersion": "2026-07-28",
            f"{prefix}clientCapabilities": {},
            f"{prefix}clientInfo": {"name": "tail", "version": "1"},
        }
    message = {"jsonrpc": "2.0", "id": next(client.ids), "method": "tools/call", "params": params}
    return json.dumps(message).encode(), client.headers("tools/call", params["name"])


def run_tail(folder: Path, scene: Scene) -> Tail:
    """Run the three phases."""
    port, closed = free_port(), free_port()
    servers: dict[str, Any] = {}
    for kind in ("healthy", "slow", "flapping"):
        for number in range(getattr(scene, kind)):
            servers[f"{kind}{number}"] = {"url": f"http://127.0.0.1:{port}/{kind}/{number}"}
    for number in range(scene.dead):
        servers[f"dead{number}"] = {"url": f"http://127.0.0.1:{closed}/dead/{number}"}
    farm, plain = f"http://127.0.0.1:{port}", free_port()
    with (
        listening(_module("server_farm", port), port, log=folder / "farm.log") as servers_process,
        listening(
            _module("plain_proxy", plain, farm, f"http://127.0.0.1:{closed}"),
            plain,
            log=folder / "proxy.log",
        ) as proxy,
        gateway(folder / "gateway", servers, {"mode": "all"}) as running,
    ):
        running.wait_ready(*(name for name in servers if name.startswith(("healthy", "slow"))))
        return asyncio.run(
            _times(
                running,
                scene,
                direct=_Crowd(f"{farm}/direct", servers_process.pid, scene),
                proxy=_Crowd(f"http://127.0.0.1:{plain}/mcp", proxy.pid, scene),
            )
        )


def _module(name: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments))


async def _times(running: RunningGateway, scene: Scene, *, direct: _Crowd, proxy: _Crowd) -> Tail:
    def crowd() -> _Crowd:
        return _Crowd(running.url, running.run.pid, scene)

    peak = await crowd().call(64, scene.seconds, None)
    half = crowd()
    reading = asyncio.create_task(asyncio.to_thread(running.page, "/api/v1/openapi.json"))
    for _ in range(_TURNS):
        for endpoint in (half, direct, proxy):
            await endpoint.call_disturbed(scene.seconds / _TURNS, peak.rate / 2)
    await reading
    double = await crowd().call(scene.clients, scene.seconds, 2 * peak.rate)
    told = await asyncio.to_thread(running.get, "/api/v1/diagnostics")
    return Tail(
        peak=peak,
        half=half.load,
        double=double,
        direct=direct.load,
        proxy=proxy.load,
        stall=told["event_loop"]["worst_stall"],
    )


def measure(quick: bool) -> Report:
    """Run, and compare with the targets."""
    scene = Scene(seconds=3.0) if quick else Scene()
    with tempfile.TemporaryDirectory() as folder:
        tail = run_tail(Path(folder), scene)
    rows = [
        {
            "calls": name,
            "calls/s": load.rate,
            "p50 ms": load.quantile_ms(0.5),
            "p99 ms": load.quantile_ms(0.99),
            "p99/p50": load.quantile_ms(0.99) / load.quantile_ms(0.5),
            "waited for a processor %": 100 * load.waited_s / load.seconds,
            "refused": load.refused,
            "failed": load.failed.total(),
        }
        for name, load in (
            ("as many as it answers", tail.peak),
            ("half as many, with disturbance", tail.half),
            ("  the same without a gateway", tail.direct),
            ("  the same through a plain proxy", tail.proxy),
            ("twice as many", tail.double),
        )
    ]
    stall = tail.stall or {"seconds": 0.0, "cpu_s": 0.0, "stack": ""}
    return Report(
        name="tail",
        title=(
            f"Calls of {scene.healthy} healthy servers beside {scene.slow} slow, {scene.dead} dead"
            f" and {scene.flapping} flapping ones, {scene.clients} clients"
        ),
        rows=rows,
        targets=(
            Target(
                what="p99 as a multiple of p50 at half the capacity",
                measured=tail.half.quantile_ms(0.99) / tail.half.quantile_ms(0.5),
                limit=3,
            ),
            Target(
                what="calls/s at twice the capacity, as a share of the most",
                measured=tail.double.rate / tail.peak.rate,
                limit=0.9,
                at_least=True,
            ),
            Target(
                what="worst stall of the event loop, ms of CPU time",
                measured=stall["cpu_s"] * 1000,
                limit=20,
            ),
        ),
        notes=(
            f"Worst stall: {stall['seconds'] * 1000:.0f} ms. It ran: {stall['stack'][-600:]}",
            *(
                f"{count} failed: {text}"
                for load in (tail.peak, tail.half, tail.double)
                for text, count in load.failed.most_common(3)
            ),
        ),
    )


if __name__ == "__main__":
    main("tail", measure)
