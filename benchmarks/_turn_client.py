"""Sends turns to a chat endpoint from its own process, and prints what it saw as JSON.

python benchmarks/_turn_client.py URL '{"mode": "turns", "count": 50, "thread": "t"}'
"""

import asyncio
import json
import sys
import time
from typing import Any

import aiohttp


async def main() -> None:
    url, wanted = sys.argv[1], json.loads(sys.argv[2])
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        run = turns if wanted["mode"] == "turns" else streams
        print(json.dumps(await run(session, url, wanted)))


async def turns(session: aiohttp.ClientSession, url: str, wanted: dict[str, Any]) -> Any:
    firsts, at, failed = [], [], 0
    for number in range(wanted["count"]):
        text = f"{wanted['text']} ({number})"
        thread = wanted.get("thread")
        if thread and wanted.get("turns_a_thread"):
            thread = f"{thread}{number // wanted['turns_a_thread']}"
        began = time.time()
        first, ok = await one(session, url, text, thread)
        firsts.append((first - began) * 1000)
        at.append(first)
        failed += not ok
    return {"first_ms": firsts, "first_at": at, "failed": failed}


async def streams(session: aiohttp.ClientSession, url: str, wanted: dict[str, Any]) -> Any:
    gaps: list[float] = []

    async def follow(number: int) -> None:
        body = _body(f"{wanted['text']} ({number})")
        async with session.post(f"{url}/chat/completions", json=body) as answer:
            last = 0.0
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    now = time.perf_counter()
                    if last:
                        gaps.append((now - last) * 1000)
                    last = now

    await asyncio.gather(*(follow(number) for number in range(wanted["count"])))
    return {"longest_gap_ms": max(gaps), "pieces": len(gaps)}


async def one(
    session: aiohttp.ClientSession, url: str, text: str, thread: str | None
) -> tuple[float, bool]:
    headers = {"x-toolgate-thread": thread} if thread else {}
    first = 0.0
    done = False
    async with session.post(f"{url}/chat/completions", json=_body(text), headers=headers) as answer:
        async for line in answer.content:
            if not first and _has_text(line):
                first = time.time()
            done = done or line.startswith(b"data: [DONE]")
    return first, done and answer.status == 200


def _has_text(line: bytes) -> bool:
    """Whether a line of a stream contains part of the answer."""
    if not line.startswith(b"data: {"):
        return False
    choices = json.loads(line[6:])["choices"]
    return bool(choices and choices[0]["delta"].get("content"))


def _body(text: str) -> dict[str, Any]:
    return {
        "model": "main",
        "stream": True,
        "messages": [{"role": "user", "content": text}],
    }


asyncio.run(main())
