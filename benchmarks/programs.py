"""Compares tasks done call by call, with the meta-tools, and as one program.

    python -m benchmarks.programs [--quick] [--json]

34 tasks of `data/program_tasks.toml` over seven published servers. The plan of a task is its
program; call by call, every call that it makes is a separate request. Tokens are everything that
enters a model's context: definitions, what the model writes, results. A definition enters it as
name, description and input schema: the interfaces of models take no other parts. The ways with
meta-tools include a search for the tools. Tokens are counted once, and as they are read: a model
reads its whole context again in every round trip, and once more to write its answer.
"""

import json
import sqlite3
import subprocess
import tempfile
import textwrap
import tomllib
from asyncio import gather
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import anyio
import psutil

from benchmarks._report import Report, Target, main
from benchmarks._servers import real_servers
from toolgate import Caller, open_app
from toolgate.app.app import App
from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.gateway.programs.answers import answer_of
from toolgate.gateway.programs.names import function_names
from toolgate.models.sandboxes import CallValue
from toolgate.settings import ProgramSettings, StoreSettings, load
from toolgate.types import Json

TASKS = Path(__file__).parent / "data" / "program_tasks.toml"
SERVERS = ("filesystem", "memory", "everything", "time", "git", "sqlite", "excel")
QUICK = 3
"""Number of servers that the first tasks and the calls of `everything` need."""
MANY_CALLS = 5
"""Number of calls from which programs must save tokens and round trips."""
CHANGING = ("who-works-now", "two-steps")
"""Tasks whose answer depends on the time."""
_SEEN = ("name", "description", "inputSchema")
"""The parts of a definition that the interfaces of models take."""
ME = Caller.local(client="benchmark", conversation="programs")


@dataclass
class Way:
    """One way to do a task."""

    tokens: int = 0
    by_trip: list[int] = field(default_factory=list[int])
    """Tokens that each round trip adds to the context."""
    seconds: float = 0.0
    value: Any = None

    @property
    def trips(self) -> int:
        """Number of round trips."""
        return len(self.by_trip)

    def read(self, menu: int) -> int:
        """Return the tokens that the model reads in all requests, with those of the menu."""
        return sum(accumulate(self.by_trip, initial=menu))


def measure(quick: bool) -> Report:
    """Do the tasks in three ways and return the table."""
    with tempfile.TemporaryDirectory() as folder:
        installed = real_servers(Path(folder), 11)
        names = SERVERS[:QUICK] if quick else SERVERS
        servers = {name: installed[name] for name in names}
        return anyio.run(_measure, Path(folder), servers, quick)


async def _measure(folder: Path, servers: dict[str, Json], quick: bool) -> Report:
    tasks = tomllib.loads(TASKS.read_text("utf-8"))["task"]
    rows: list[dict[str, Any]] = []
    many: list[tuple[Way, Way, Way]] = []
    read: list[float] = []
    async with _opened(folder, servers) as (app, files):
        menu = {mode: await _menu_tokens(app, mode) for mode in ("all", "meta", "program")}
        for task in tasks[:4] if quick else tasks:
            inputs = {"files": str(files), "run": task["id"]}
            direct, executed = await _call_by_call(app, task, {**inputs, "run": "direct"}, files)
            calls, found = direct.trips, await _search_tokens(app, task)
            executed.tokens += found
            executed.by_trip.insert(0, found)
            program = await _as_program(app, task, {**inputs, "run": "program"}, files)
            program.tokens += found
            program.by_trip.insert(0, found)
            if task["id"] not in CHANGING:
                assert direct.value == program.value, (task["id"], direct.value, program.value)
            ways = (
                replace(direct, tokens=direct.tokens + menu["all"]),
                replace(executed, tokens=executed.tokens + menu["meta"]),
                replace(program, tokens=program.tokens + menu["program"]),
            )
            if calls >= MANY_CALLS:
                many.append(ways)
                read.append(100 * program.read(menu["program"]) / executed.read(menu["meta"]))
            rows.append(_row(task["id"], calls, ways))
        inside = await _inside(app, rounds=7 if quick else 40)
    return Report(
        name="programs",
        title=f"{len(rows)} tasks over {len(servers)} published servers",
        rows=rows,
        targets=(
            Target(
                what="tokens of a program, % of call by call (median, 5 calls or more)",
                measured=round(median(100 * p.tokens / d.tokens for d, _, p in many), 1),
                limit=30,
            ),
            Target(
                what="tokens of a program, % of search and tool_execute (median)",
                measured=round(median(100 * p.tokens / e.tokens for _, e, p in many), 1),
                limit=30,
            ),
            Target(
                what="tokens that the model reads, % of search and tool_execute (median)",
                measured=round(median(read), 1),
                limit=30,
            ),
            Target(
                what="round trips call by call to those of a program (median)",
                measured=round(median(d.trips / p.trips for d, _, p in many), 1),
                limit=4,
                at_least=True,
            ),
            Target(what="CPU ms of an empty program, both processes", measured=inside[0], limit=3),
            Target(
                what="CPU of a call in a program to one of tool_execute",
                measured=inside[1],
                limit=1.2,
            ),
        ),
        notes=(
            "The search for the tools counts as a round trip of the program.",
            f"CPU of a call in a program to one of tool_execute, with gather: {inside[2]}.",
            f"CPU of a call in a program to one in Python, without a meta-tool: {inside[3]}.",
        ),
    )


def _row(name: str, calls: int, ways: tuple[Way, Way, Way]) -> dict[str, Any]:
    row: dict[str, Any] = {"task": name, "calls": calls}
    for label, way in zip(("direct", "execute", "program"), ways, strict=True):
        row[f"{label} tokens"] = way.tokens
        row[f"{label} trips"] = way.trips
        if label != "execute":
            row[f"{label} s"] = round(way.seconds, 2)
    return row


@asynccontextmanager
async def _opened(folder: Path, servers: dict[str, Json]) -> AsyncIterator[tuple[App, Path]]:
    files = folder / "scratch1" / "files"
    _fill(files, folder / "scratch1" / "notes.db")
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    settings = replace(
        load(imports=[str(config)]),
        store=StoreSettings(url="sqlite://"),
        mode="meta",
        programs=ProgramSettings(offer="on"),
    )
    async with open_app(settings, wait_s=60) as app:
        people = ["anna", "ben", "carla", "dan", "eva", "finn", "gina", "hugo"]
        entities = [
            {"name": n, "entityType": "person", "observations": ["likes tea"] * (i % 3)}
            for i, n in enumerate(people)
        ]
        await app.gateway.calls.execute(ME, "memory:create_entities", {"entities": entities})
        yield app, files


async def _menu_tokens(app: App, mode: str) -> int:
    """Tokens of the definitions that a client gets."""
    if mode == "all":
        listed = [dict(tool.definition) for tool in app.gateway.visible.tools(ME)]
    else:
        listed = json_text.loads(await app.gateway.listing.list_tools(ME))
    kept = [tool for tool in listed if mode == "program" or tool["name"] != "tool_program"]
    seen = [{name: tool[name] for name in _SEEN if name in tool} for tool in kept]
    return estimate_tokens(json_text.dumps(seen))


async def _search_tokens(app: App, task: Json) -> int:
    arguments = {"query": task["search"]}
    result = await app.gateway.call(ME, {"name": "tool_discovery", "arguments": arguments}, None)
    text = result["content"][0]["text"]
    return estimate_tokens(text) + _call_tokens("tool_discovery", arguments)


def _call_tokens(name: str, arguments: Json) -> int:
    """Tokens of a call as a model writes it."""
    return estimate_tokens(json_text.dumps({"name": name, "input": arguments}))


async def _call_by_call(app: App, task: Json, inputs: Json, files: Path) -> tuple[Way, Way]:
    """Run the plan here; each of its calls is a request and a response.

    Returns:
        The way with every tool listed, and the way with `tool_execute`, without the search.
    """
    _prepare(files, inputs["run"])
    way, executed = Way(), Way()
    names = function_names(tool.key for tool in app.gateway.visible.tools(ME))

    class Module:
        def __init__(self, module: str) -> None:
            self.module = module

        def __getattr__(self, function: str) -> Any:
            key = names[f"{self.module}.{function}"]

            async def call(**arguments: Any) -> Any:
                result = await app.gateway.calls.execute(ME, key, arguments)
                shown = estimate_tokens(_shown(result))
                way.by_trip.append(_call_tokens(key, arguments) + shown)
                wrapped = {"toolKey": key, "arguments": arguments}
                executed.by_trip.append(_call_tokens("tool_execute", wrapped) + shown)
                answer = answer_of(result)
                assert isinstance(answer, CallValue), (key, answer)
                return answer.value

            return call

    modules = {name.partition(".")[0]: Module(name.partition(".")[0]) for name in names}
    scope: dict[str, Any] = {**modules, "inputs": inputs, "gather": gather}
    source = f"async def plan():\n{textwrap.indent(task['code'], '    ')}"
    exec(source, scope)
    began = perf_counter()
    way.value = json_text.loads(json_text.dumps(_plain(await scope["plan"]())))
    way.seconds = perf_counter() - began
    answered = estimate_tokens(json_text.dumps(way.value))
    way.tokens = sum(way.by_trip) + answered
    executed.tokens = sum(executed.by_trip) + answered
    return way, executed


async def _as_program(app: App, task: Json, inputs: Json, files: Path) -> Way:
    _prepare(files, inputs["run"])
    arguments = {"code": task["code"], "inputs": inputs}
    began = perf_counter()
    result = await app.gateway.call(ME, {"name": "tool_program", "arguments": arguments}, None)
    seconds = perf_counter() - began
    assert "isError" not in result, (task["id"], result)
    text = result["content"][0]["text"]
    try:
        value = json_text.loads(text)
    except ValueError:
        value = text
    tokens = _call_tokens("tool_program", arguments) + estimate_tokens(text)
    # The answer that the model writes from it is added.
    return Way(
        tokens=tokens + estimate_tokens(text), by_trip=[tokens], seconds=seconds, value=value
    )


async def _inside(app: App, *, rounds: int) -> tuple[float, float, float, float]:
    """CPU milliseconds of an empty program, and CPU of a call inside relative to a direct one.

    The second number compares with a call of `tool_execute`, the third is the same for calls at
    the same time, and the last one compares with a call that no model makes: without a meta-tool
    and its paging. All direct calls are made in this process, without the request of a client.
    """
    gateway = app.gateway

    async def program(code: str) -> None:
        result = await gateway.call(ME, {"name": "tool_program", "arguments": {"code": code}}, None)
        assert "isError" not in result, result

    many = 30

    async def empty_ones() -> None:
        for _ in range(many):
            await program("1")

    echo = {"toolKey": "everything:echo", "arguments": {"message": "x"}}
    call = "await everything.echo(message='x')"
    together = f"await gather(*[everything.echo(message='x') for n in range({many})])"

    async def execute() -> None:
        for _ in range(many):
            await gateway.call(ME, {"name": "tool_execute", "arguments": echo}, None)

    async def execute_bare() -> None:
        for _ in range(many):
            await gateway.calls.execute(ME, echo["toolKey"], echo["arguments"])

    works: dict[str, Callable[[], Awaitable[None]]] = {
        "empty": empty_ones,
        "one": lambda: program(f"for n in range(1): {call}"),
        "inside": lambda: program(f"for n in range({many + 1}): {call}"),
        "gathered": lambda: program(f"{together}\n{call}"),
        "execute": execute,
        "bare": execute_bare,
    }
    for work in works.values():
        await work()
    # Alternating, and compared within a round, so that a busy machine slows down all of them.
    times = [{name: await _cpu(app, work) for name, work in works.items()} for _ in range(rounds)]

    def ratio(inside: str, direct: str) -> float:
        return round(median((t[inside] - t["one"]) / t[direct] for t in times), 2)

    empty = median(t["empty"] for t in times) / many
    return (
        round(empty, 2),
        ratio("inside", "execute"),
        ratio("gathered", "execute"),
        ratio("inside", "bare"),
    )


async def _cpu(app: App, work: Callable[[], Awaitable[None]]) -> float:
    """CPU milliseconds here and in the sandbox, until the audit records are written."""
    await app.recorder.flush()
    before = process_time() + _sandbox_cpu()
    await work()
    await app.recorder.flush()
    return (process_time() + _sandbox_cpu() - before) * 1000


def _sandbox_cpu() -> float:
    """CPU seconds of the sandbox processes.

    Read from the scheduler, in nanoseconds: psutil's times have steps of 10 ms, longer than a
    program takes.
    """
    total_ns = 0
    for child in psutil.Process().children():
        if "monty" in child.name():
            for thread in Path(f"/proc/{child.pid}/task").iterdir():
                total_ns += int((thread / "schedstat").read_text("ascii").split()[0])
    return total_ns / 1e9


def _shown(result: Json) -> str:
    """What a client shows its model of a result: the text blocks."""
    return "\n".join(str(block.get("text", "")) for block in result.get("content", []))


def _plain(value: Any) -> Any:
    return (
        [_plain(v) for v in value]
        if isinstance(value, list | tuple)
        else ({str(k): _plain(v) for k, v in value.items()} if isinstance(value, dict) else value)
    )


def _prepare(files: Path, run: str) -> None:
    """Folders that a task changes, created anew for each way."""
    notes = files / f"notes-{run}"
    notes.mkdir(exist_ok=True)
    for note in (files / "notes").iterdir():
        (notes / note.name).write_text(note.read_text("utf-8"), "utf-8")


def _fill(files: Path, database: Path) -> None:
    """Create logs, orders, reports, notes, repositories and a database, always the same."""
    for name in ("logs", "orders", "reports", "notes"):
        (files / name).mkdir(parents=True)
    for n in range(12):
        lines = [
            f"2026-11-{n + 1:02} 10:{k % 60:02} {'ERROR' if (n * 7 + k) % 11 == 0 else 'INFO'} "
            f"request {n * 100 + k} took {(n * 37 + k * 53) % 900} ms"
            for k in range(80)
        ]
        (files / "logs" / f"app-{n:02}.log").write_text("\n".join(lines))
    orders = [
        {
            "id": n,
            "customer": f"customer {n % 5}",
            "status": ("open", "paid", "sent")[n % 3],
            "days": (n * 5) % 31,
            "total": 100 + n * 13,
            "lines": [{"article": f"article {k}", "count": k + n % 3} for k in range(12)],
        }
        for n in range(15)
    ]
    for order in orders:
        (files / "orders" / f"{order['id']}.json").write_text(json.dumps(order, indent=1))
    for n in range(1, 9):
        rows = [f"{k},article {k},{(n * 131 + k * 97) % 1000}" for k in range(60)]
        (files / "reports" / f"month-{n}.csv").write_text("\n".join(["id,article,amount", *rows]))
    for n in range(10):
        words = " ".join(f"word{k}" for k in range(120 + n))
        todo = f"\nTODO call {n}" if n % 2 else ""
        project = "Falcon" if n % 3 == 0 else "Heron"
        text = f"# Note {n} about {project}\n{words}{todo}\n"
        (files / "notes" / f"note-{n}.md").write_text(text)
    for n in range(5):
        _repository(files / f"repo{n}", n)
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer INTEGER, total INTEGER)")
        connection.execute("CREATE TABLE customers (id INTEGER, name TEXT)")
        connection.execute("CREATE TABLE titles (note INTEGER, title TEXT)")
        rows = [(n, n % 12 + 1, 100 + n * 13 + (n % 7 == 3)) for n in range(300)]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        names = [(n, f"customer {n}") for n in range(1, 13)]
        connection.executemany("INSERT INTO customers VALUES (?, ?)", names)


def _repository(folder: Path, n: int) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", f"user.name=author {n}", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    git("init", "-q")
    for k in range(6):
        (folder / f"file{k}.txt").write_text(f"line {k}\n" * (k + n + 3))
        git("add", "-A")
        git("commit", "-qm", f"Change {k}")
    if n % 2:
        (folder / "new.txt").write_text("not committed\n")


if __name__ == "__main__":
    main("programs", measure)
