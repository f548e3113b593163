"""Measures how the gateway's memory grows over many mixed calls, and where it goes.

    python -m benchmarks.memory [--calls 10000] [--rounds 3] [--trace] [--quick] [--json]

After a warm-up, the same mix runs in rounds: calls of both protocol eras and of several sizes,
searches, listings, paged results, REST, refused logins, clients that come and go. After each round
the gateway reports where its memory is: Python objects, the C allocator, memory that both keep for
later, mapped files. `--trace` traces allocations, which takes memory itself, and names the lines of
code that hold more than before.
"""

import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from benchmarks import menu_server
from benchmarks._memory_probe import CAUSES, MemoryProbe
from benchmarks._report import Report, Target, parser_of, print_all, run
from benchmarks._servers import gateway
from benchmarks.vendored.gateway_bench import Mcp
from tests.real.processes import RunningGateway

ECHO_SERVERS = ("one", "two")
LISTED_SERVERS = 6
"""Menu servers whose tools are searched (chosen)."""
CLIENTS = 8
"""Clients at the same time (chosen)."""
CALLS_A_SESSION = (5, 40)
"""Fewest and most requests before a client leaves without ending its session and comes back
(chosen): the warm-up opens more sessions than one caller may leave idle."""
WARM_UP = 2
"""Rounds before the first that counts; afterwards, caches and pools are full."""
MOST_GROWTH_MB = 2.0
"""Megabytes per 10,000 calls: the goal of the project."""
_QUIET_WITHIN_S = 60.0
"""Seconds to wait until the gateway has nothing to do (chosen)."""
_QUIET_S = 0.2
"""Seconds between checks whether the clients' connections are closed (chosen)."""


class MemoryMix:
    """Clients that use everything a gateway offers, with new texts each time."""

    def __init__(self, running: RunningGateway) -> None:
        self._running = running
        self._numbers = count()

    async def send(self, calls: int) -> None:
        """Send so many requests from several clients at once."""
        left = iter(range(calls))
        headers = {"X-Toolgate-Key": self._running.run.key}
        # A connection for each request: an idle one may be closed just as it is used again.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as rest:
            await asyncio.gather(*(self._client(number, left, rest) for number in range(CLIENTS)))

    async def _client(self, number: int, left: Any, rest: aiohttp.ClientSession) -> None:
        dice = random.Random(next(self._numbers))
        while True:
            client = Mcp(self._running.url, "modern" if number % 2 else "legacy")
            await client.start()
            try:
                for _ in range(dice.randint(*CALLS_A_SESSION)):
                    if next(left, None) is None:
                        return
                    kind = dice.choices(list(_KINDS), [share for share, _ in _KINDS.values()])[0]
                    await _KINDS[kind][1](Turn(client, rest, self._running, dice))
            finally:
                client.c.close()


@dataclass(frozen=True)
class Turn:
    """What a request can use."""

    client: Mcp
    rest: aiohttp.ClientSession
    running: RunningGateway
    dice: random.Random

    def words(self, least: int, most: int) -> str:
        """A text that was very likely never sent before."""
        return " ".join(self.dice.choices(_WORDS, k=self.dice.randint(least, most)))


_WORDS = re.findall(
    r"\w+",
    "read write list remove file folder branch commit issue search page time zone memory note graph"
    " convert weather price table row column message send mail calendar event user group report",
)


async def _call(turn: Turn) -> None:
    text = turn.words(1, 6) + "x" * turn.dice.choice((0, 200, 2_000, 20_000))
    name = f"{turn.dice.choice(ECHO_SERVERS)}__echo"
    await turn.client.call("tools/call", {"name": name, "arguments": {"text": text}})


async def _execute(turn: Turn) -> None:
    arguments = {
        "toolKey": f"{turn.dice.choice(ECHO_SERVERS)}:echo",
        "arguments": {"text": turn.words(1, 9)},
    }
    await turn.client.call("tools/call", {"name": "tool_execute", "arguments": arguments})


async def _discover(turn: Turn) -> None:
    arguments = {"query": turn.words(2, 6)}
    await turn.client.call("tools/call", {"name": "tool_discovery", "arguments": arguments})


async def _list(turn: Turn) -> None:
    await turn.client.call("tools/list", {})


async def _page(turn: Turn) -> None:
    text = turn.words(9, 20) + "y" * 60_000
    arguments = {"toolKey": "one:echo", "arguments": {"text": text}}
    await turn.client.call("tools/call", {"name": "tool_execute", "arguments": arguments})


async def _refuse(turn: Turn) -> None:
    with suppress(RuntimeError):
        await turn.client.call("tools/call", {"name": turn.words(1, 2), "arguments": {}})


async def _rest(turn: Turn) -> None:
    path = turn.dice.choice(("/api/v1/tools", "/api/v1/servers", "/metrics", "/api/v1/audit"))
    async with turn.rest.get(turn.running.run.address + path) as answer:
        await answer.read()


async def _no_login(turn: Turn) -> None:
    headers = {"Authorization": f"Bearer tg_{turn.dice.getrandbits(64):x}", "X-Toolgate-Key": ""}
    async with turn.rest.get(turn.running.run.address + "/api/v1/me", headers=headers) as answer:
        await answer.read()


_KINDS: Mapping[str, tuple[int, Callable[[Turn], Awaitable[None]]]] = {
    "call": (48, _call),
    "execute": (16, _execute),
    "discover": (10, _discover),
    "list": (8, _list),
    "page": (2, _page),
    "refuse": (6, _refuse),
    "rest": (6, _rest),
    "no login": (4, _no_login),
}
"""Requests of the mix, with their share in per cent."""


def _menu() -> dict[str, Any]:
    lines = menu_server.DATA.read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(json.loads(line)["server"] for line in lines))[:LISTED_SERVERS]
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": [menu_server.__file__, name]} for name in names
    }
    for name in ECHO_SERVERS:
        servers[name] = {"command": sys.executable, "args": [menu_server.__file__, "echo", name]}
    return servers


def _rounds(folder: Path, *, calls: int, rounds: int, trace: bool) -> list[dict[str, Any]]:
    """Where the memory is, after the warm-up and after each round."""
    probe, servers = MemoryProbe(folder, trace=trace), _menu()
    with gateway(folder / "gateway", servers, {}, probe.env) as running:
        running.wait_ready(*servers)
        mix, reports = MemoryMix(running), []
        for number in range(WARM_UP + rounds):
            asyncio.run(mix.send(calls))
            _wait_until_quiet(running.run.pid)
            if number >= WARM_UP - 1:
                reports.append(probe.take(running.run.pid))
        return reports


def _wait_until_quiet(pid: int) -> None:
    """Wait until the clients' connections are closed and background work is done."""
    process, until = psutil.Process(pid), time.monotonic() + _QUIET_WITHIN_S
    used_s = -1.0
    while time.monotonic() < until:
        now_s = sum(process.cpu_times()[:2])
        if now_s - used_s < _QUIET_S / 10:
            return
        used_s = now_s
        time.sleep(_QUIET_S)


def _largest(before: Mapping[str, int], after: Mapping[str, int], most: int) -> list[str]:
    growth = Counter(after)
    growth.subtract(before)
    return [f"{count:+,} {name}" for name, count in growth.most_common(most) if count > 0]


def measure(quick: bool, calls: int = 10_000, rounds: int = 3, *, trace: bool = False) -> Report:
    """Run the rounds and report what grew.

    Args:
        quick: Run one round of few calls.
        calls: Calls per round.
        rounds: Rounds after the warm-up.
        trace: Whether allocations are traced.
    """
    if quick:
        calls, rounds = 50, 1
    with tempfile.TemporaryDirectory() as name:
        reports = _rounds(Path(name), calls=calls, rounds=rounds, trace=trace)
    first, last = reports[0], reports[-1]
    per_calls = 10_000 / (calls * rounds)

    def growth_mb(key: str) -> float:
        return (last[key] - first[key]) / 2**20 * per_calls

    notes = [
        *(f"objects: {line}" for line in _largest(first["objects"], last["objects"], 12)),
        *(f"bytes: {line}" for line in _largest(first["lines"], last["lines"], 25)),
    ]
    rows = [
        {"cause": cause, "MB": first[key] / 2**20, "MB per 10,000 calls": growth_mb(key)}
        for cause, key in {"resident": "VmRSS", **CAUSES}.items()
    ]
    grown = growth_mb("VmRSS")
    goal = Target(what="MB per 10,000 calls", measured=round(grown, 2), limit=MOST_GROWTH_MB)
    return Report(
        name="memory",
        title=f"Memory after {WARM_UP * calls:,} calls, and growth over {rounds * calls:,} more",
        rows=rows,
        targets=() if quick or trace else (goal,),
        notes=notes,
    )


if __name__ == "__main__":
    parser = parser_of("memory")
    parser.add_argument("--calls", type=int, default=10_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=3, help="after the warm-up")
    parser.add_argument("--trace", action="store_true", help="name the lines that hold more")
    options = parser.parse_args()
    report = run(
        lambda quick: measure(quick, options.calls, options.rounds, trace=options.trace),
        quick=options.quick,
    )
    print_all([lambda: report], as_json=options.json)
    sys.exit(not all(target.met for target in report.targets))
