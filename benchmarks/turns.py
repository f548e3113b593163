"""Measures complete turns: CPU, streaming, and how much of a request repeats the previous one.

    python -m benchmarks.turns [--quick] [--json]

The model is a script in its own process (`vendored/llm_double.py`), and so is the client; the
gateway runs here, so that its CPU time can be read. It has 200 real tools
(`data/real_tools.jsonl`), whose server runs in this process, and a collection of documents.
"""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import psutil
from openai import AsyncOpenAI

from benchmarks._report import Report, Target, main
from toolgate.app.app import App, open_app
from toolgate.base.ids import utc_now
from toolgate.base.processes.memory import set_aside
from toolgate.base.token_estimate import estimate_tokens
from toolgate.documents import NewDocument
from toolgate.server.http import serve
from toolgate.settings import (
    ChatSettings,
    ModelTable,
    PackSettings,
    Settings,
    StoreSettings,
)
from toolgate.store import StoredMessage, StoredThread
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json, ServerSpec

HERE = Path(__file__).parent
TOOLS = HERE / "data" / "real_tools.jsonl"
TURNS = 20
_PLAIN_TURN = "plain, nothing kept"
_TOOL_TURN = "one tool, thread in SQLite"
_ALONE = "reference: the model alone"
_LIBRARY = "reference: the openai library"
_RUNS_KEPT = 250
"""A few more runs than can be read after their end: until then, memory has to grow."""

PLAIN = {"when": {"user": "plain"}, "reply": {"text": "It is said in a few words, no more."}}
TOOL = {
    "when": {"user": "tool", "has_tool_results": False},
    "reply": {"tool_calls": [{"name": "bench__clock", "arguments": {}}]},
}
TOOL_DONE = {"when": {"user": "tool"}, "reply": {"text": "It is noon."}}
SLOW = {
    "when": {"user": "slow"},
    "reply": {"text": "word " * 60, "chunk": 5, "chunk_delay_s": 0.05},
}
GRADE = {"when": {"user": "Do the documents below help"}, "reply": {"text": "yes"}}
REPHRASE = {
    "when": {"user": "Write the question alone"},
    "reply": {"text": "What does the guide say of the next step?"},
}
LOOK = {
    "when": {"user": "guide", "has_tool_results": False},
    "reply": {"tool_calls": [{"name": "documents__retriever", "arguments": {"question": "q"}}]},
}
LOOKED = {"when": {"user": "guide"}, "reply": {"text": "The guide says so. " * 6}}


def measure(quick: bool) -> Report:
    """Measure everything and return the table."""
    return anyio.run(_measure, quick)


async def _measure(quick: bool) -> Report:
    count = 5 if quick else 100
    with tempfile.TemporaryDirectory() as folder:
        async with double(Path(folder)) as model, gateway(Path(folder), model) as (app, url):
            warm = {"mode": "turns", "count": 5, "text": "tool", "thread": "warm"}
            await client(url, warm)
            cpu: dict[str, float] = {}
            late: dict[str, float] = {}
            first: dict[str, float] = {}
            failed = 0
            for turn_round in range(1 if quick else 3):
                for name, wanted, place in (
                    (_PLAIN_TURN, {"text": f"plain {turn_round}"}, url),
                    (
                        _TOOL_TURN,
                        {
                            "text": "tool",
                            "thread": f"round {turn_round}, ",
                            "turns_a_thread": 10,
                        },
                        url,
                    ),
                    (_ALONE, {"text": "plain"}, model),
                ):
                    before = len(await _journal(model))
                    began = time.process_time()
                    seen = await client(place, {"mode": "turns", "count": count, **wanted})
                    took = (time.process_time() - began) / count * 1000
                    wrote = await _journal(model, before)
                    asked = [row["t"] for row in wrote if row["event"] == "request"]
                    cpu[name] = min(took, cpu.get(name, took))
                    waited = statistics.median(seen["first_ms"])
                    first[name] = min(waited, first.get(name, waited))
                    failed += seen["failed"]
                    if len(asked) == count:  # one request per turn
                        pairs = zip(seen["first_at"], asked, strict=True)
                        found = statistics.median((at - since) * 1000 for at, since in pairs)
                        late[name] = min(found, late.get(name, found))
                took = await _library(model, count)
                cpu[_LIBRARY] = min(took, cpu.get(_LIBRARY, took))
            cpu.pop(_ALONE)
            rows = [
                {
                    "turn": name,
                    "CPU ms": round(cpu[name], 2) if name in cpu else "",
                    "first byte ms": round(first[name], 2) if name in first else "",
                }
                for name in (_PLAIN_TURN, _TOOL_TURN, _ALONE, _LIBRARY)
            ]
            worked, stall, gap = await _streams(url, quick=quick)
            stable, whole, grown, ours, naive = await _conversation(
                app, url, model, TURNS // 5 if quick else TURNS
            )
            page = await _page(app, 60 if quick else 1_000)
            growth = await _memory(
                url, turns=20 if quick else 1_000, before=0 if quick else _RUNS_KEPT
            )
    behind = late[_PLAIN_TURN] - late[_ALONE]
    saved = 100 * (1 - ours / naive)
    return Report(
        name="turns",
        title="Whole turns behind /v1/chat/completions, streamed",
        rows=rows,
        targets=[
            Target(what="CPU ms per plain turn", measured=round(cpu[_PLAIN_TURN], 2), limit=10),
            Target(
                what="CPU ms per turn with one tool", measured=round(cpu[_TOOL_TURN], 2), limit=20
            ),
            Target(
                what="ms from the model's first byte to ours", measured=round(behind, 2), limit=2
            ),
            Target(
                what="longest work that holds 100 streams up, CPU ms",
                measured=round(worked),
                limit=100,
            ),
            Target(
                what=f"% of the previous request sent again, {TURNS} turns, documents aside",
                measured=round(stable, 1),
                limit=100,
                at_least=True,
            ),
            Target(
                what="% fewer tokens than all tools and kept documents",
                measured=round(saved, 1),
                limit=60,
                at_least=True,
            ),
            Target(what="ms for a page of 1,000 turns", measured=round(page, 1), limit=20),
            Target(
                what="MB of memory that the second half of turns adds", measured=growth, limit=8
            ),
        ],
        notes=[
            f"turns that failed: {failed}",
            "the first byte of a row is counted from the client's request, that of the target from "
            "the moment at which the model was asked, less what the model alone takes",
            f"{cpu[_PLAIN_TURN] / cpu[_LIBRARY]:.1f} and {cpu[_TOOL_TURN] / cpu[_LIBRARY]:.1f} "
            "times as much as the openai library takes in this process for the request alone",
            f"tokens of the {TURNS} turns: {ours:,} here, {naive:,} the naive way",
            f"{grown} of these requests had another list of tools than the one before",
            "memory grows until all lists with an end are full, which takes some 7,000 turns",
            f"with the documents of the turn, which no later request may have, {whole:.1f} % of "
            "the previous request were sent again",
            "what holds streams up is the processor time of this process between two looks at a "
            f"timer of 10 ms; by the clock it was {stall:.0f} ms, and a client saw a pause of "
            f"{gap:.0f} ms: both have in them what else runs here",
        ],
    )


@asynccontextmanager
async def double(folder: Path) -> AsyncIterator[str]:
    """URL of the scripted model."""
    scenario = folder / "scenario.json"
    steps = [GRADE, REPHRASE, LOOK, LOOKED, TOOL, TOOL_DONE, SLOW, PLAIN]
    scenario.write_text(json.dumps({"steps": steps, "fallback": {"text": "Yes."}}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = HERE / "vendored" / "llm_double.py"
    process = subprocess.Popen([sys.executable, str(program), str(scenario), "--port", str(port)])
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session:
            with anyio.fail_after(30):
                while True:
                    try:
                        async with session.get(f"{url}/double/health"):
                            break
                    except aiohttp.ClientError:
                        await anyio.sleep(0.05)
        yield f"{url}/v1"
    finally:
        process.terminate()
        process.wait(10)


@asynccontextmanager
async def gateway(folder: Path, model: str) -> AsyncIterator[tuple[App, str]]:
    """A gateway with 200 real tools and some documents."""
    bench = FakeUpstream(tools={"clock": lambda _: text_result("noon")})
    rows = [json.loads(line) for line in TOOLS.read_text(encoding="utf-8").splitlines()][:200]
    for row in rows:
        tool = row.get("tool", row)
        name = str(tool["name"])
        bench.tools[name] = lambda _: text_result("done")
        bench.definitions[name] = tool
    settings = Settings(
        servers=(ServerSpec(name="bench", kind="inprocess", options={"target": bench}),),
        pinned=("bench:clock",),
        quarantine="off",
        store=StoreSettings(url=f"sqlite:///{folder / 'toolgate.db'}"),
        packs=PackSettings(enable=("documents",)),
        models={"main": ModelTable(url=model, key="k", model="double")},
        chat=ChatSettings(engine="langgraph"),
    )
    async with open_app(settings, wait_s=60, wires={"bench": bench}) as app:
        await app.gateway.documents.make(Caller.local(), "GUIDES", description="Guides")
        for number in range(30):
            text = f"# Guide {number}\n\nThe guide number {number} explains step {number}. " * 2
            document = NewDocument(source=f"guide{number}.md", text=text, sha256=str(number))
            await app.gateway.documents.add(Caller.local(), "GUIDES", document)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(app, port=0, on_ready=ready.set_result))
        assert app.chat is not None
        await app.chat.models.warm_up()
        try:
            address = await ready
            set_aside()  # as `toolgate serve` does once everything is started
            yield app, f"{address}/v1"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def client(url: str, wanted: Json) -> Any:
    """What a client in another process saw."""
    program = [sys.executable, str(HERE / "_turn_client.py"), url, json.dumps(wanted)]
    done = await anyio.run_process(program)
    return json.loads(done.stdout)


async def _journal(model: str, after: int = 0) -> list[Any]:
    """What the model recorded."""
    root = model.removesuffix("/v1")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{root}/double/journal?after={after}") as answer,
    ):
        return list(await answer.json())


async def _library(model: str, count: int) -> float:
    """CPU ms of the openai library for the request of a plain turn, in this process."""
    model_client = AsyncOpenAI(base_url=model, api_key="k", max_retries=0)
    question: Any = [{"role": "user", "content": "plain"}]
    began = time.process_time()
    for _ in range(count):
        stream = await model_client.chat.completions.create(
            model="double", messages=question, stream=True
        )
        async for _ in stream:
            pass
    took = (time.process_time() - began) / count * 1000
    await model_client.close()
    return took


async def _streams(url: str, *, quick: bool) -> tuple[float, float, float]:
    """The longest work between two timer checks, the longest delay of the timer, and the longest
    pause that a client saw, in milliseconds."""
    late: list[float] = []
    worked: list[float] = []

    async def tick() -> None:
        while True:
            before, spent = time.perf_counter(), time.process_time()
            await anyio.sleep(0.01)
            late.append((time.perf_counter() - before) * 1000 - 10)
            worked.append((time.process_time() - spent) * 1000)

    ticking = asyncio.create_task(tick())
    seen = await client(url, {"mode": "streams", "count": 5 if quick else 100, "text": "slow"})
    ticking.cancel()
    return max(worked), max(late), seen["longest_gap_ms"]


async def _conversation(
    app: App, url: str, model: str, turns: int
) -> tuple[float, float, int, int, int]:
    """Stability of the prefix in per cent without and with a turn's documents, requests with new
    tools, tokens sent, and tokens when everything is sent each time."""
    before = len(await _journal(model))
    wanted = {"mode": "turns", "count": turns, "text": "What does the guide say of step"}
    await client(url, {**wanted, "thread": "talk"})
    journal = await _journal(model, before)
    bodies = [row["body"] for row in journal if row["event"] == "request"]
    answers = [body for body in bodies if body.get("temperature") != 0]
    stable, whole = [
        statistics.mean(_shares([_bytes(body, is_whole=is_whole) for body in answers]))
        for is_whole in (False, True)
    ]
    everything = [
        {"type": "function", "function": tool.definition}
        for tool in app.gateway.listing.tool_views(Caller.local())
    ]
    grown = sum(old["tools"] != new["tools"] for old, new in pairwise(answers))
    ours = sum(estimate_tokens(_bytes(body)) for body in bodies)
    naive, kept = 0, 0
    listed = estimate_tokens(json.dumps(everything))
    for body in answers:
        documents = [m for m in body["messages"] if "<document" in str(m.get("content"))]
        kept += sum(estimate_tokens(str(m["content"])) for m in documents)
        naive += listed + estimate_tokens(json.dumps(body["messages"])) + kept
    return stable, whole, grown, ours, naive


def _shares(requests: list[bytes]) -> list[float]:
    """How much of each request repeats the beginning of the previous one, in per cent."""
    found: list[float] = []
    for old, new in pairwise(requests):
        pairs = enumerate(zip(old, new, strict=False))
        shorter = min(len(old), len(new))
        same = next((at for at, (one, other) in pairs if one != other), shorter)
        found.append(100 * same / len(old))
    return found


def _bytes(body: Json, *, is_whole: bool = True) -> bytes:
    """Tools and messages, in the order in which services read them, without the last brackets."""
    messages = [
        message
        if is_whole or message["role"] != "tool"
        else {**message, "content": str(message["content"]).partition("\n\nRelevant Context:")[0]}
        for message in body["messages"]
    ]
    return json.dumps([body.get("tools", []), messages]).encode().removesuffix(b"]]")


async def _page(app: App, turns: int) -> float:
    """CPU milliseconds of the last page of a thread of so many turns."""
    thread = StoredThread(thread_id="long", project_id="default", caller_id="local", name="long")
    await app.store.threads.save_settings(thread, {}, now=utc_now())
    for turn in range(turns):
        said = [
            StoredMessage(number=0, turn_id=str(turn), role=role, body={"content": "word " * 40})
            for role in ("user", "assistant")
        ]
        await app.store.threads.append_messages("long", said, now=utc_now())
    assert app.chat is not None
    found: list[float] = []
    for _ in range(20):
        began = time.process_time()
        page = await app.chat.threads.history(Caller.local(), "long")
        found.append((time.process_time() - began) * 1000)
        assert page is not None
        assert len(page["messages"]) == 100
    return statistics.median(found)


async def _memory(url: str, *, turns: int, before: int) -> float:
    """Megabytes that turns leave behind, once as many runs are kept as may be."""
    process = psutil.Process()
    wanted = {"mode": "turns", "text": "tool", "turns_a_thread": 5}
    await client(url, {**wanted, "thread": "m", "count": max(turns, before)})
    rss = process.memory_info().rss
    await client(url, {**wanted, "thread": "n", "count": turns})
    return round(max(0, process.memory_info().rss - rss) / 2**20, 1)


if __name__ == "__main__":
    main("turns", measure)
