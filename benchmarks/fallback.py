"""Counts how often a search falls back to words alone, under load and while tools change.

    python -m benchmarks.fallback [--quick] [--json]

32 clients search over REST, each with its own requests, while servers are restarted and all vectors
are recomputed. The figures are the gateway's own counters from `/api/v1/index`.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchmarks._report import Report, Target, main
from benchmarks._servers import gateway, menu_servers
from benchmarks.discovery import QUERIES

CLIENTS = 32
MOST_SHARE = 0.001
DISTURBANCES = 5
"""How often a server is restarted and all vectors are recomputed."""


def measure(quick: bool) -> Report:
    """Run the load and return the table."""
    requests = 60 if quick else 20_000
    servers = menu_servers(2 if quick else None)
    names = sorted(servers)
    with tempfile.TemporaryDirectory() as name:
        settings = {"optimization": "hybrid"}
        with gateway(Path(name) / "gateway", servers, settings) as running:
            running.wait_ready(*servers, within_s=240)
            place = urlsplit(running.url)
            base = f"{place.scheme}://{place.netloc}/api/v1"
            headers = {"X-Toolgate-Key": running.run.key}
            tools, counted = asyncio.run(_load(base, headers, requests, names))
    share = counted["fallbacks"] / counted["searches"]
    return Report(
        name="fallback",
        title=f"searches by meaning over {tools} tools of {len(names)} servers, {CLIENTS} at once",
        rows=[
            {
                "searches": counted["searches"],
                "by words alone": counted["fallbacks"],
                "while vectors were missing": counted["with_backlog"],
                "p50_ms": counted["latency_ms"]["p50"],
                "p99_ms": counted["latency_ms"]["p99"],
                "texts of requests embedded": counted["embedding"]["query"]["texts"],
                "texts of tools embedded": counted["embedding"]["document"]["texts"],
            }
        ],
        targets=(
            Target(what="share of searches by words alone", measured=share, limit=MOST_SHARE),
        ),
        notes=(
            f"{DISTURBANCES} times a server was restarted and all vectors were computed anew.",
            "p50 and p99 are of the last 1,000 searches, within the gateway.",
        ),
    )


async def _load(
    base: str, headers: dict[str, str], requests: int, names: list[str]
) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession(headers=headers) as http:

        async def post(path: str, body: dict[str, Any]) -> Any:
            async with http.post(f"{base}/{path}", json=body) as answer:
                assert answer.status < 300, await answer.text()
                return await answer.json()

        async def search(queries: Iterator[str]) -> None:
            for query in queries:
                await post("discover", {"query": query})

        texts = (f"{QUERIES[at % len(QUERIES)]} {at}" for at in itertools.count())
        wanted = itertools.islice(texts, requests)
        await post("discover", {"query": "warm up"})
        part = requests // (DISTURBANCES + 1)
        for turn in range(DISTURBANCES + 1):
            share = list(itertools.islice(wanted, part))
            clients = [iter(share[at::CLIENTS]) for at in range(CLIENTS)]
            work = [search(client) for client in clients]
            if turn:
                work.append(post(f"servers/{names[turn % len(names)]}/restart", {}))
                work.append(post("index/refresh", {}))
            await asyncio.gather(*work)
        async with http.get(f"{base}/index") as answer:
            found = (await answer.json())["searches"][0]
    return found["tools"], found["counted"]


if __name__ == "__main__":
    main("fallback", measure)
