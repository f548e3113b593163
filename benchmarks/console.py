"""What the console, the metrics and the traces cost.

    python -m benchmarks.console [--quick] [--json]

Each page within this process, with 200 servers, 5,000 tools and 1,000,000 records of the audit
(20,000 with --quick): CPU time of a request, the first of each page left out. Then a call through
the whole HTTP door with metrics and spans off and on, in turns.
"""

import asyncio
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from urllib.parse import urlencode

from opentelemetry.sdk.trace import SpanProcessor

from benchmarks._report import Report, Target, main
from benchmarks.access import HEADERS, _block, _settled
from benchmarks.audit import _record
from toolgate.ids import utc_now
from toolgate.serve.http import Door, build_app
from toolgate.settings import MetricSettings, Settings, TraceSettings
from toolgate.store import SqlAccess
from toolgate.telemetry._traces import Tracer
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Json

SERVERS, TOOLS = 200, 25
VERBS = ("read", "write", "list", "find", "delete", "send", "merge", "open", "close", "count")
THINGS = ("file", "issue", "mail", "page", "table", "user", "branch", "note", "order", "photo")

PAGES: dict[str, dict[str, str]] = {
    "": {},
    "servers": {},
    "server": {"name": "s7"},
    "tools": {},
    "tools ": {"q": "read a file"},
    "tool": {"key": "s7:read_file_0"},
    "search": {"q": "read a file"},
    "intents": {"message": "read a file"},
    "projects": {},
    "tokens": {},
    "permissions": {},
    "why": {"tool": "s7:read_file_0"},
    "approvals": {},
    "audit": {},
    "audit ": {"period": "all", "result": "failed"},
    "audit/chain": {"id": "LAST"},
    "audit/verify": {},
    "sessions": {},
}


def measure(quick: bool) -> Report:  # noqa: FBT001 - the one option of every benchmark
    """Fill, look at every page, call; gives the table."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        count = 20_000 if quick else 1_000_000
        pages = asyncio.run(_pages(f"sqlite:///{folder}/audit.db", count, 3 if quick else 9))
    plain_ms, counted_ms, traced_ms = asyncio.run(_calls(blocks=6 if quick else 24))
    rows: list[dict[str, Any]] = [
        {"what": f"page {name or 'home'}, CPU ms", "value": value} for name, value in pages.items()
    ]
    rows += [
        {"what": "call, metrics and traces off, CPU ms", "value": plain_ms},
        {"what": "call, metrics on, CPU ms", "value": counted_ms},
        {"what": "call, metrics and traces on, CPU ms", "value": traced_ms},
        {"what": "metrics, ratio", "value": counted_ms / plain_ms},
        {"what": "metrics and traces, ratio", "value": traced_ms / plain_ms},
    ]
    return Report(
        name="console",
        title="Pages, metrics and traces",
        rows=rows,
        targets=(
            Target(what="slowest page, CPU ms", measured=max(pages.values()), limit=50.0),
            Target(what="metrics, ratio", measured=counted_ms / plain_ms, limit=1.05),
            Target(what="metrics and traces, ratio", measured=traced_ms / plain_ms, limit=1.05),
        ),
        notes=(
            f"{SERVERS} servers, {SERVERS * TOOLS:,} tools, {count:,} records of the audit.",
            "Spans are made and thrown away: sending them is the work of a thread.",
        ),
    )


def _double(database: Any) -> None:
    """As many records again, at any time of the last 90 days."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(audit)")]
    values = {
        "record_id": "lower(hex(randomblob(16)))",
        "seq": "NULL",
        "chain": "NULL",
        "at": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || abs(random() % 7776000) || ' seconds')",
    }
    shown = ", ".join(values.get(column, column) for column in columns)
    database.execute(f"INSERT INTO audit ({', '.join(columns)}) SELECT {shown} FROM audit")


def _upstream() -> FakeUpstream:
    names = [f"{VERBS[n % 10]}_{THINGS[n // 10 % 10]}_{n}" for n in range(TOOLS - 1)]
    names.append("read_file_0")
    definitions: dict[str, Json] = {
        name: {
            "description": f"Does {name.replace('_', ' ')} for you, with care. " * 3,
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Where."}},
            },
        }
        for name in names
    }
    tools = {name: lambda _params: text_result("x") for name in names}
    return FakeUpstream(tools, definitions=definitions)


async def _pages(url: str, count: int, rounds: int) -> dict[str, float]:
    servers: dict[str, object] = {f"s{n}": _upstream() for n in range(SERVERS)}
    settings = Settings(local_open=True)
    async with memory_app(servers, settings, store_url=url, wait_s=120) as app:
        random = Random(7)
        records = [_record(random, n) for n in range(2_000)]
        await app.store.append_audit(records)
        assert isinstance(app.store, SqlAccess)
        number = len(records)
        while number < count:
            await app.store.writing(_double)
            number *= 2
        recent = [replace(one, at=utc_now(), phase="outcome") for one in records[-500:]]
        last = [replace(one, record_id=f"{one.record_id[:-4]}beef") for one in recent[:300]]
        await app.store.append_audit(last)
        door = build_app(app)
        found: dict[str, float] = {}
        async with door.running():
            await _settled()
            for name, query in PAGES.items():
                wanted = {key: last[0].record_id if v == "LAST" else v for key, v in query.items()}
                times = [await _page(door, name.strip(), wanted) for _ in range(rounds + 1)]
                label = f"{name.strip()}?{urlencode(query)}" if query else name
                found[label] = median(times[1:])
        return found
    raise AssertionError("the gateway did not open")


async def _page(door: Door, path: str, query: dict[str, str]) -> float:
    """CPU milliseconds of a page."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/console/{path}".rstrip("/"),
        "query_string": urlencode(query).encode(),
        "headers": [(b"host", b"127.0.0.1:7420"), (b"cookie", b"toolgate_session=bench")],
        "client": ("127.0.0.1", 1),
    }
    began = time.process_time()
    await door(scope, receive, send)
    taken_ms = (time.process_time() - began) * 1000
    assert sent[0]["status"] == 200, (path, sent)
    return taken_ms


class _Nowhere(SpanProcessor):
    """Spans that are made and thrown away."""


async def _calls(*, blocks: int) -> tuple[float, float, float]:
    def server() -> dict[str, object]:
        return {"a": FakeUpstream({"echo": lambda _params: text_result("x")})}

    off = Settings(local_open=True, metrics=MetricSettings(enabled=False))
    on = Settings(local_open=True)
    tracer = Tracer(TraceSettings(), processor=_Nowhere())
    times: list[list[float]] = [[], [], []]
    async with memory_app(server(), off) as plain, memory_app(server(), on) as counted:
        doors = [build_app(plain), build_app(counted), build_app(counted)]
        for _ in range(blocks):  # what watches, watches all of the process: one after the other
            for at, door in enumerate(doors):
                async with door.running():
                    await _block(door, HEADERS, 20)
                    if at < 2:
                        times[at].append(await _block(door, HEADERS))
                    else:
                        with tracer.recording():
                            times[at].append(await _block(door, HEADERS))
    plain_ms, counted_ms, traced_ms = map(median, times)
    return plain_ms, counted_ms, traced_ms


if __name__ == "__main__":
    main("console", measure)
