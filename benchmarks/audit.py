"""Measures how long it takes to verify and to search a large audit.

    python -m benchmarks.audit [--quick] [--json]

Writes 1,000,000 records (4,000 with --quick) into a new store, as a shared gateway would: two per
call, forty servers, some failures, some tokens. Then verifies all of them, and lists 50 records at
a time by single and combined filters. SQLite and PostgreSQL; wall time.
"""

import asyncio
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks._report import Report, Target, main
from benchmarks._stores import KINDS, new_store_url
from toolgate.audit import ChainSigner, sign_chain_end, verify_audit
from toolgate.base.ids import new_id, utc_text_of
from toolgate.store import AuditFilter, Store, make_store
from toolgate.types import AuditRecord

FILTERS = {
    "all": AuditFilter(phase="outcome", limit=50),
    "a rare status": AuditFilter(phase="outcome", status="guard", limit=50),
    "what failed": AuditFilter(phase="outcome", failed=True, limit=50),
    "a server": AuditFilter(phase="outcome", server="s31", limit=50),
    "a tool": AuditFilter(phase="outcome", target="s3:tool17", limit=50),
    "a rare tool": AuditFilter(phase="outcome", target="s38:tool3", limit=50),
    "an action": AuditFilter(phase="outcome", action="approval", limit=50),
    "a project": AuditFilter(phase="outcome", project_id="rare", limit=50),
    "a caller": AuditFilter(phase="outcome", caller_id="token:9", limit=50),
    "a server and a status": AuditFilter(
        phase="outcome", server="s31", status="timed_out", limit=50
    ),
    "a project and a status": AuditFilter(
        phase="outcome", project_id="web", status="guard", limit=50
    ),
    "a status and a time": AuditFilter(
        phase="outcome", status="forbidden", since="2026-06-01", limit=50
    ),
    "an action and a status": AuditFilter(
        phase="outcome", action="discover", status="guard", limit=50
    ),
}


def measure(quick: bool) -> Report:
    """Write, verify and search; return the table."""
    count = 4_000 if quick else 1_000_000
    rows: list[dict[str, Any]] = []
    targets: list[Target] = []
    for kind in KINDS:
        with new_store_url(kind) as url:
            figures = asyncio.run(_measure(url, count))
        rows += [{"what": f"{kind}: {name}", "value": value} for name, value in figures.items()]
        slowest = max(value for name, value in figures.items() if name.startswith("list"))
        targets += [
            Target(what=f"{kind}: verify, s", measured=figures["verify, s"], limit=60.0),
            Target(what=f"{kind}: slowest list, ms", measured=slowest, limit=50.0),
        ]
    return Report(
        name="audit",
        title=f"Proof and search of {count:,} records",
        rows=rows,
        targets=tuple(targets),
        notes=("Lists: median of five, the first one left out.",),
    )


async def _measure(url: str, count: int) -> dict[str, float]:
    store = make_store(url)
    await store.open()
    found: dict[str, float] = {}
    try:
        began = perf_counter()
        random = Random(7)
        for start in range(0, count, 2_000):
            await store.audit.append([_record(random, n) for n in range(start, start + 2_000)])
        found["write, s"] = perf_counter() - began
        sealer = ChainSigner(bytes(32))
        await sign_chain_end(store, sealer, after=0)
        began = perf_counter()
        checked = await verify_audit(store, sealer)
        found["verify, s"] = perf_counter() - began
        assert checked.is_whole, checked.faults
        assert checked.records == count
        for name, wanted in FILTERS.items():
            found[f"list {name}, ms"] = await _list(store, wanted)
    finally:
        await store.close()
    return found


async def _list(store: Store, wanted: AuditFilter) -> float:
    times: list[float] = []
    for _ in range(6):
        began = perf_counter()
        await store.audit.select(wanted)
        times.append((perf_counter() - began) * 1000)
    return median(times[1:])


_BEGAN = 1_767_225_600
"""2026-01-01."""


def _record(random: Random, number: int) -> AuditRecord:
    server = f"s{min(int(random.expovariate(0.2)), 39)}"
    return AuditRecord(
        record_id=new_id(),
        at=utc_text_of(_BEGAN + number * 25),
        action=random.choices(("call", "discover", "describe", "approval"), (80, 15, 5, 0.01))[0],
        phase="outcome" if number % 2 else "intent",
        project_id=random.choices(("default", "web", "rare"), (70, 29.9, 0.1))[0],
        caller_id=random.choices(("local", "token:1", "token:9"), (60, 39.9, 0.1))[0],
        client="client",
        conversation="c",
        request_id=f"{number:08x}",
        server=server,
        target=f"{server}:tool{random.randrange(50)}",
        digest="d" * 64,
        status=random.choices(
            ("ok", "tool_error", "timed_out", "forbidden", "guard"), (95, 3, 1, 0.95, 0.05)
        )[0],
        duration_ms=1.5,
        request_bytes=100,
        response_bytes=1000,
        arguments_sha256="a" * 64,
        response_sha256="b" * 64,
        detail={"decision": "allow * to role:member [built in]", "shape": {"path": "text 20"}},
    )


if __name__ == "__main__":
    main("audit", measure)
