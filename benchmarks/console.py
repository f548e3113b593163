"""Measures how long the console's pages take.

    python -m benchmarks.console [--quick] [--json]

Each page is requested in this process, with 200 servers, 5,000 tools and 1,000,000 audit records
(10 servers and 2,000 records with --quick), on SQLite and PostgreSQL. The first request for a page
is left out. Shown are the median CPU time of this process and the shortest elapsed time, which
includes PostgreSQL's share.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any
from urllib.parse import urlencode

from benchmarks._inprocess import LOCAL_HOST, Request, send, wait_until_idle
from benchmarks._report import Report, Target, main
from benchmarks._stores import KINDS, new_store_url
from benchmarks.audit import _record
from toolgate.base.ids import utc_now
from toolgate.server.http import HttpApplication, build_app
from toolgate.settings import Settings
from toolgate.store import SqlAccess
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Json

TOOLS = 25
"""Tools of each server."""

VERBS = ("read", "write", "list", "find", "delete", "send", "merge", "open", "close", "count")
THINGS = ("file", "issue", "mail", "page", "table", "user", "branch", "note", "order", "photo")

PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("servers", {}),
    ("server", {"name": "s7"}),
    ("servers/add", {}),
    ("tools", {}),
    ("tools", {"q": "read a file"}),
    ("tool", {"key": "s7:read_file_0"}),
    ("search", {"q": "read a file"}),
    ("intents", {"message": "read a file"}),
    ("projects", {}),
    ("tokens", {}),
    ("permissions", {}),
    ("why", {"tool": "s7:read_file_0"}),
    ("logins", {}),
    ("approvals", {}),
    ("audit", {}),
    ("audit", {"period": "all", "result": "failed"}),
    ("audit", {"period": "all", "action": "discover"}),
    ("audit", {"period": "all", "action": "approval"}),
    ("audit", {"period": "all", "server": "s0"}),
    ("audit", {"period": "all", "server": "s39"}),
    ("audit", {"period": "all", "server": "s0", "result": "failed"}),
    ("audit", {"period": "all", "server": "s5", "action": "call", "result": "failed"}),
    ("audit", {"period": "all", "status": "guard"}),
    ("audit", {"period": "all", "server": "s3", "status": "guard", "action": "describe"}),
    ("audit", {"period": "all", "older": "2026-09-20T00:00:00.000Z 0"}),
    ("audit/chain", {"id": "LAST"}),
    ("audit/verify", {}),
    ("cost", {}),
    ("cost", {"days": "30"}),
    ("chat", {}),
    ("evaluation", {}),
    ("sessions", {}),
    ("go", {"q": "read"}),
    ("options", {"pick": "read"}),
    ("connect", {}),
    ("connections", {}),
    ("packs", {}),
    ("documents", {}),
    ("prompts", {}),
    ("project", {"name": "default"}),
    ("guards", {}),
    ("settings", {}),
    ("setting", {"name": "mode"}),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much data there is, and how often a page is requested."""

    servers: int
    records: int
    rounds: int


FULL = Size(servers=200, records=1_000_000, rounds=9)
QUICK = Size(servers=10, records=2_000, rounds=1)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a page took."""

    cpu_ms: float
    """Median CPU milliseconds of this process."""

    wall_ms: float
    """Shortest elapsed milliseconds."""


def measure(quick: bool) -> Report:
    """Fill the store, request every page and return the table."""
    size = QUICK if quick else FULL
    found: dict[str, dict[str, Taken]] = {}
    for store in KINDS:
        with new_store_url(store) as url:
            found[store] = asyncio.run(_pages(url, size))
    rows: list[dict[str, Any]] = [
        {
            "page": page,
            **{f"{store}, CPU ms": of[page].cpu_ms for store, of in found.items()},
            **{f"{store}, least ms": of[page].wall_ms for store, of in found.items()},
        }
        for page in found["SQLite"]
    ]
    return Report(
        name="console",
        title="Pages of the console",
        rows=rows,
        targets=tuple(
            Target(what=f"slowest page, {store}, {what}", measured=max(values), limit=50.0)
            for store, of in found.items()
            for what, values in (
                ("CPU ms", [one.cpu_ms for one in of.values()]),
                ("least ms", [one.wall_ms for one in of.values()]),
            )
        ),
        notes=(
            f"{size.servers} servers, {size.servers * TOOLS:,} tools, {size.records:,} records of"
            " the audit.",
        ),
    )


_SQLITE = {
    "record_id": "lower(hex(randomblob(16)))",
    "conversation": "'c' || abs(random() % 5000)",
    "at": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || abs(random() % 7776000) || ' seconds')",
}
_POSTGRES = {
    "record_id": "replace(gen_random_uuid()::text, '-', '')",
    "conversation": "'c' || floor(random() * 5000)",
    "at": "to_char((now() - random() * interval '90 days') at time zone 'utc',"
    """ 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
}


def _double(database: Any) -> None:
    """Copy the records until there are enough, at random times in the last 90 days."""
    if hasattr(database, "pgconn"):
        values = _POSTGRES
        wanted = "SELECT column_name FROM information_schema.columns WHERE table_name = 'audit'"
        columns = [row[0] for row in database.execute(wanted)]
    else:
        values = _SQLITE
        columns = [row[1] for row in database.execute("PRAGMA table_info(audit)")]
    values = {**values, "seq": "NULL", "chain": "NULL"}
    shown = ", ".join(values.get(column, column) for column in columns)
    database.execute(f"INSERT INTO audit ({', '.join(columns)}) SELECT {shown} FROM audit")


def _settle(database: Any) -> None:
    """Do what databases do by themselves some time after so many new rows."""
    is_postgres = hasattr(database, "pgconn")
    database.execute("VACUUM ANALYZE audit" if is_postgres else "PRAGMA wal_checkpoint(TRUNCATE)")


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


async def _pages(url: str, size: Size) -> dict[str, Taken]:
    servers: dict[str, object] = {f"s{n}": _upstream() for n in range(size.servers)}
    settings = Settings(allow_other_users=True)
    async with memory_app(servers, settings, store_url=url, wait_s=120) as app:
        random = Random(7)
        records = [_record(random, n) for n in range(2_000)]
        await app.store.audit.append(records)
        assert isinstance(app.store, SqlAccess)
        number = len(records)
        while number < size.records:
            await app.store.writing(_double)
            number *= 2
        await app.store.maintaining(_settle)
        recent = [replace(one, at=utc_now(), phase="outcome") for one in records[-500:]]
        last = [replace(one, record_id=f"{one.record_id[:-4]}beef") for one in recent[:300]]
        await app.store.audit.append(last)
        door = build_app(app)
        found: dict[str, Taken] = {}
        async with door.running():
            await wait_until_idle()
            for name, query in PAGES:
                wanted = {key: last[0].record_id if v == "LAST" else v for key, v in query.items()}
                await _page(door, name, wanted)
                if size is FULL:
                    await wait_until_idle()  # the page's own background count is done
                times = [await _page(door, name, wanted) for _ in range(size.rounds)]
                label = f"{name or 'home'}?{urlencode(query)}" if query else name or "home"
                found[label] = Taken(
                    cpu_ms=median(cpu for cpu, _ in times), wall_ms=min(wall for _, wall in times)
                )
        return found
    raise AssertionError("the gateway did not open")


async def _page(door: HttpApplication, path: str, query: dict[str, str]) -> tuple[float, float]:
    """CPU milliseconds of a page, and elapsed milliseconds."""
    request = Request(
        method="GET",
        path=f"/console/{path}".rstrip("/"),
        query=urlencode(query),
        headers=[LOCAL_HOST, (b"cookie", b"toolgate_session=bench")],
    )
    began, wall = time.process_time(), time.perf_counter()
    await send(door, request)
    return (time.process_time() - began) * 1000, (time.perf_counter() - wall) * 1000


if __name__ == "__main__":
    main("console", measure)
