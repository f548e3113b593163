"""A long run: many calls, killed servers, changed settings, clients that come and go.

    python -m benchmarks.soak [--calls 1000000] [--kills 1000] [--changes 50] [--replicas 3]
                              [--clients 20] [--quick] [--json]

Replicas on one PostgreSQL have six stdio servers each, and share one over HTTP. These are killed in
turn and the configuration is changed, while clients of both eras call tools of all of them and keep
reconnecting to any replica. A call may fail with a reason while its server is away; it may never
hang, and clients may notice nothing else. Afterwards, each replica must have the same children, no
more descriptors and no more memory than when it was warm, and the audit must contain an intent and
an outcome for each call; the report shows where the memory is.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psutil

from benchmarks import menu_server
from benchmarks._load import own_rss_mb
from benchmarks._memory_probe import CAUSES, MemoryProbe
from benchmarks._report import Report, Target, parser_of, print_all, run
from benchmarks._servers import gateway
from benchmarks.vendored.gateway_bench import Mcp
from tests.limits import HANG_S
from tests.postgres import PostgresServer, running_server
from tests.real.processes import PROBE_SERVER, RunningGateway, free_port, listening, wait_until

VICTIMS = ("one", "two", "three", "four", "five", "six")
HTTP = "net"
HTTP_EVERY = 10
STEADY = "steady"
CALLS_A_CONNECTION = 100
AFTER_FAILURE_S = 0.1
LONGEST_CALL_S = 30.0
REASONS = ("nothing was sent", "may have run", "did not answer", "No connection to")
"""Reasons for which a call may fail while its server is away."""

VANISHING = 0.1
"""Share of clients that leave without ending their session, which the gateway then keeps for half
an hour; the clients of the SDKs end it."""

EXTRA = "extra"
"""A server that configuration changes add and remove."""

FIGURES = ("descriptors", "threads", "rss_mb")
AUDIT_MB = 100_000
"""Megabytes: more than two records for each of a million calls take."""

WARM_UP = 0.1
GROWTH = 1.10


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a gateway process holds while no client is connected."""

    children: tuple[str, ...]
    """Command lines of its children."""

    descriptors: int
    """Open files and sockets."""

    threads: int
    """Its threads."""

    rss_mb: float
    """Resident memory in MB."""

    memory_mb: Mapping[str, float]
    """Resident memory by use."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a run."""

    calls: int
    """Calls that succeeded."""

    failed: Mapping[str, int]
    """Calls that failed, by error message."""

    kills: int
    """Servers that were killed."""

    connections: int
    """Connections that clients opened."""

    changes: int
    """Configuration changes that were applied."""

    unaudited: int
    """Successful calls without both of their records."""

    longest_s: float
    """Duration of the longest call."""

    wall_s: float
    """Duration of the run."""

    warm: tuple[Standing, ...]
    """Each replica after the first tenth."""

    end: tuple[Standing, ...]
    """Each replica at the end."""


def soak(
    folder: Path,
    *,
    calls: int,
    kills: int,
    clients: int,
    changes: int = 0,
    replicas: int = 1,
    limit_s: float = float("inf"),
) -> Found:
    """Run the load, with fewer calls, kills and changes if the time runs out."""
    port = free_port()
    python, script = PROBE_SERVER
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": [menu_server.__file__, "echo", name]}
        for name in VICTIMS
    }
    servers[STEADY] = {"command": python, "args": [script, "--name", STEADY]}
    servers[HTTP] = {"url": f"http://127.0.0.1:{port}/mcp"}
    with ExitStack() as stack, ExitStack() as net:
        command = (*PROBE_SERVER, "--transport", "http", "--port", str(port))

        def start_http() -> None:
            process = net.enter_context(listening(command, port, log=folder / "http.log"))
            net.callback(process.kill)  # it would wait for its open streams

        start_http()
        store = stack.enter_context(running_server())
        url = store.new_database()
        settings = {"mode": "all", "store": {"url": url, "audit_max_mb": AUDIT_MB}}
        fleet: list[_Replica] = []
        for number in range(replicas):
            place = folder / f"replica{number}"
            place.mkdir()
            probe = MemoryProbe(place)
            running = stack.enter_context(gateway(place / "gateway", servers, settings, probe.env))
            running.wait_ready(*servers)
            fleet.append(_Replica(running, probe, running.config.read_text("utf-8")))

        def kill(turn: int) -> bool:
            """Kill a running server; False if it has not come back yet."""
            if turn % HTTP_EVERY == HTTP_EVERY - 1:
                net.close()
                start_http()
                return True
            pid = fleet[turn % len(fleet)].running.run.pid
            for child in psutil.Process(pid).children(recursive=True):
                with suppress(psutil.Error):
                    if child.cmdline()[-2:] == ["echo", VICTIMS[turn % len(VICTIMS)]]:
                        child.kill()
                        return True
            return False

        work = _Work(calls=calls, kills=kills, changes=changes, clients=clients)
        found = _run(fleet, servers, kill, work, limit_s)
        return replace(found, unaudited=found.calls - _audited(store, url))


@dataclass(frozen=True, kw_only=True)
class _Work:
    """How much there is to do."""

    calls: int
    kills: int
    changes: int
    clients: int


@dataclass(frozen=True)
class _Replica:
    """A gateway, and its configuration at the start."""

    running: RunningGateway
    probe: MemoryProbe
    configuration: str

    def change(self, turn: int) -> None:
        """Add a server to the configuration, or restore it."""
        extra = f'\n[server.{EXTRA}]\nurl = "http://127.0.0.1:9/mcp"\nenabled = false\n'
        text = self.configuration + (extra if turn % 2 == 0 else "")
        self.running.config.write_text(text, encoding="utf-8")
        wait_until(
            lambda: True if (EXTRA in self.running.servers()) == (turn % 2 == 0) else None,
            within_s=HANG_S,
            what="the new configuration",
        )


def _run(
    fleet: Sequence[_Replica],
    servers: Mapping[str, Any],
    kill: Callable[[int], bool],
    work: _Work,
    limit_s: float,
) -> Found:
    began = time.monotonic()
    crowd = _Crowd([replica.running.url for replica in fleet], sorted(servers))
    # An even number of changes leaves each configuration as it was.
    every = max(1, work.kills // (work.changes + work.changes % 2)) if work.changes else 0
    made = 0

    def disturb(turn: int) -> bool:
        nonlocal made
        if every and turn % every == 0:
            for replica in fleet:
                replica.change(made)
            made += 1
        return kill(turn)

    first = int(work.calls * WARM_UP)
    kills = max(1, int(work.kills * WARM_UP))
    asyncio.run(crowd.work(first, kills, disturb, work.clients, began + limit_s * 0.2))
    warm = tuple(_standing(replica, servers) for replica in fleet)
    left = work.calls - crowd.calls, work.kills - crowd.kills
    asyncio.run(crowd.work(*left, disturb, work.clients, began + limit_s))
    if made % 2:
        for replica in fleet:
            replica.change(made)
        made += 1
    return Found(
        calls=crowd.calls,
        failed=dict(crowd.failed.most_common()),
        kills=crowd.kills,
        connections=crowd.connections,
        changes=made,
        unaudited=0,
        longest_s=round(crowd.longest_s, 3),
        wall_s=round(time.monotonic() - began, 1),
        warm=warm,
        end=tuple(
            _standing(replica, servers, like=before)
            for replica, before in zip(fleet, warm, strict=True)
        ),
    )


def _audited(store: PostgresServer, url: str) -> int:
    """Count the calls for which the audit has an intent and a good outcome."""
    database = urlsplit(url).path.removeprefix("/")
    return store.count(
        "SELECT count(*) FROM audit AS begun"
        " JOIN audit AS ended ON ended.parent_id = begun.record_id"
        " WHERE begun.phase = 'intent' AND ended.phase = 'outcome' AND ended.status = 'ok'"
        " AND begun.action = 'call'",
        database,
    )


class _Crowd:
    """Clients that call, leave and come back."""

    def __init__(self, urls: list[str], servers: list[str]) -> None:
        self._urls = urls
        self._servers = servers
        self.calls = 0
        self.kills = 0
        self.connections = 0
        self.longest_s = 0.0
        self.failed: Counter[str] = Counter()

    async def work(self, calls: int, kills: int, kill: Any, clients: int, until: float) -> None:
        """Make so many calls with so many kills in between, or stop at a deadline."""
        self._left = iter(range(calls))
        self._until = until
        start, every = self.calls, max(1, calls // (kills + 1))
        tasks = [asyncio.create_task(self._client(number)) for number in range(clients)]
        whole = asyncio.gather(*tasks)
        for turn in range(kills):
            while self.calls < start + every * (turn + 1) and not whole.done():
                await asyncio.wait({whole}, timeout=0.02)
            if whole.done():
                break
            self.kills += await asyncio.to_thread(kill, self.kills)
        await whole

    async def _client(self, number: int) -> None:
        era = "modern" if number % 2 else "legacy"
        dice = random.Random(number)
        while time.monotonic() < self._until:
            client = Mcp(dice.choice(self._urls), era)
            await client.start()
            self.connections += 1
            try:
                for _ in range(dice.randint(1, 2 * CALLS_A_CONNECTION)):
                    if time.monotonic() > self._until or next(self._left, None) is None:
                        return
                    if not await self._call(client, dice):
                        await anyio.sleep(AFTER_FAILURE_S)
            finally:
                await _leave(client, vanishes=dice.random() < VANISHING)

    async def _call(self, client: Mcp, dice: random.Random) -> bool:
        server = dice.choice(self._servers)
        text = "x" * dice.choice((2, 200, 20_000))
        name, arguments = f"{server}__echo", {"text": text}
        if dice.random() < 0.25:
            name, arguments = "tool_execute", {"toolKey": f"{server}:echo", "arguments": arguments}
        began = time.monotonic()
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                result = await client.call("tools/call", {"name": name, "arguments": arguments})
            assert result["content"][0]["text"] == text, "another call's answer"
        except RuntimeError as error:  # an error from the gateway, with its reason
            said = str(error)
            self.failed[next((r for r in REASONS if r in said), said)] += 1
            return False
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.calls += 1
        return True


async def _leave(client: Mcp, *, vanishes: bool) -> None:
    """End the session, if there is one, and the connection."""
    connection = client.c
    if client.sid and connection.r is not None and not vanishes:
        headers = {"Host": f"{connection.host}:{connection.port}", **client.headers("", None)}
        lines = [f"DELETE {connection.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        connection.w.write("\r\n".join([*lines, "", ""]).encode())
        with suppress(OSError, asyncio.IncompleteReadError):
            await connection.r.readuntil(b"\r\n\r\n")
    connection.close()


def _standing(
    replica: _Replica, servers: Mapping[str, Any], like: Standing | None = None
) -> Standing:
    """What is held once all servers run again and the clients' connections are closed."""
    replica.running.wait_ready(*servers)
    process = psutil.Process(replica.running.run.pid)

    def look() -> Standing | None:
        seen = _seen(process, {})
        # A server killed in the last moment counts as ready until the gateway notices; a child that
        # is about to end stands beside its successor; a new one looks like the gateway at first.
        names = [line.rpartition(" ")[2] for line in seen.children]
        servers_running = sorted(name for name in names if name in {*VICTIMS, STEADY})
        settled = servers_running == sorted((*VICTIMS, STEADY)) and not _clients(process)
        settled = settled and " ".join(process.cmdline()) not in seen.children
        if like:
            settled = settled and seen.descriptors <= like.descriptors
            settled = settled and seen.children == like.children
        return seen if settled else None

    quiet: Standing | None = None
    with suppress(AssertionError):
        quiet = wait_until(look, within_s=HANG_S, what="quiet")
    report = replica.probe.take(process.pid)
    memory_mb = {cause: report[key] / 2**20 for cause, key in CAUSES.items()}
    seen = _seen(process, memory_mb)
    # What a replica holds for a moment only, such as a child that starts, is no growth.
    return seen if quiet is None else replace(seen, children=quiet.children)


def _seen(process: psutil.Process, memory_mb: Mapping[str, float]) -> Standing:
    children = [child for child in process.children(recursive=True) if child.is_running()]
    return Standing(
        children=tuple(sorted(" ".join(child.cmdline()) for child in children)),
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        rss_mb=round(own_rss_mb(process.pid), 1),
        memory_mb=memory_mb,
    )


def _clients(process: psutil.Process) -> int:
    """Connections from outside."""
    connections = process.net_connections("tcp")
    own = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
    return sum(each.laddr.port in own and each.status != psutil.CONN_LISTEN for each in connections)


def faults(found: Found) -> list[str]:
    """Describe what a run shows that must not be; empty if all is well."""
    said: list[str] = [
        f"{count} calls failed without a reason that fits: {reason}"
        for reason, count in found.failed.items()
        if reason not in REASONS
    ]
    if found.unaudited > 0:
        said.append(f"{found.unaudited} calls lack one of their audit records")
    for warm, end in zip(found.warm, found.end, strict=True):
        said += _growth(warm, end)
    return said


def _growth(warm: Standing, end: Standing) -> list[str]:
    """Describe what a replica holds beyond what it held when it was warm."""
    said: list[str] = []
    before, after = Counter(warm.children), Counter(end.children)
    if before != after:
        more, fewer = list((after - before).elements()), list((before - after).elements())
        said.append(f"other children than before: {more} more, {fewer} fewer")
    if end.descriptors > warm.descriptors:
        said.append(f"{end.descriptors} descriptors instead of {warm.descriptors}")
    if end.rss_mb > warm.rss_mb * GROWTH:
        causes = ", ".join(
            f"{cause} {end.memory_mb[cause] - warm.memory_mb[cause]:+.1f} MB"
            for cause in end.memory_mb
        )
        said.append(f"{end.rss_mb} MB instead of {warm.rss_mb} MB: {causes}")
    return said


LONG = _Work(calls=1_000_000, kills=1_000, changes=50, clients=20)
REPLICAS = 3


def measure(quick: bool, work: _Work = LONG, replicas: int = REPLICAS) -> Report:
    """Run, and report what accumulated.

    Args:
        quick: Do a five-hundredth of the work.
        work: How much there is to do.
        replicas: Gateways on one database.
    """
    if quick:
        work = _Work(calls=work.calls // 500, kills=work.kills // 500, changes=2, clients=20)
    with tempfile.TemporaryDirectory() as folder:
        outcome = soak(Path(folder), **asdict(work), replicas=replicas)
    wrong = faults(outcome)
    rows = [
        {"replica": number, "what": name, "warm": of_warm, "end": of_end}
        for number, (warm, end) in enumerate(zip(outcome.warm, outcome.end, strict=True), 1)
        for name, of_warm, of_end in (
            *((name, getattr(warm, name), getattr(end, name)) for name in FIGURES),
            *((f"MB of {one}", mb, end.memory_mb[one]) for one, mb in warm.memory_mb.items()),
        )
    ]
    return Report(
        name="soak",
        title=(
            f"{outcome.calls:,} calls, {sum(outcome.failed.values())} failed with a reason, "
            f"{outcome.kills} kills, {outcome.changes} changes, {outcome.connections} connections, "
            f"longest call {outcome.longest_s:g} s, {outcome.wall_s:g} s in all"
        ),
        rows=rows,
        targets=(Target(what="faults", measured=len(wrong), limit=0),),
        notes=(
            *(f"{count} failed: {reason}" for reason, count in outcome.failed.items()),
            *(f"FAULT: {fault}" for fault in wrong),
        ),
    )


if __name__ == "__main__":
    parser = parser_of("soak")
    for name, number in (asdict(LONG) | {"replicas": REPLICAS}).items():
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    wanted = _Work(**{name: getattr(given, name) for name in asdict(LONG)})
    report = run(lambda quick: measure(quick, wanted, given.replicas), quick=given.quick)
    print_all([lambda: report], as_json=given.json)
    sys.exit(not all(target.met for target in report.targets))
