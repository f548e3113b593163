"""`toolgate demo`: the main job on real MCP servers that others publish, from search to call.

Everything is real: a gateway in a process of its own, the servers of `_demo_servers`, the official
client over HTTP. Which tool runs is decided by `tool_discovery` alone; the demo knows which tool
ought to be found and says so when another one was.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import anyio
import platformdirs
import tomlkit
import typer
from anyio.abc import Process
from mcp import Client
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolgate import runfile, settings
from toolgate.cli._demo_schema import Asked, ask_schema, connections
from toolgate.cli._demo_servers import DemoServer, find_node, install, server_table
from toolgate.cli._door import Door, over_http
from toolgate.cli._exit import FINE
from toolgate.cli._output import harmless, note, print_json, waiting
from toolgate.errors import ToolgateError
from toolgate.tokens import estimate_tokens
from toolgate.types import Json

__all__ = ["app"]

READY_S = 60.0
"""Seconds that the servers get to start; those that take longer are shown as they are."""

BACK_S = 30.0
"""Seconds that a killed server gets to come back."""

STOP_S = 30.0
"""Seconds that the gateway gets to end; longer than it gives running calls."""

REQUESTS = 4

_PROMPT_LINES = 6
_ANSWER_LINES = 4

_HIT = re.compile(r'^("(?:[^"\\]|\\.)*"|[^\s()"]+)(?:\(.*\))? \[(\d\.\d\d)')
"""A line of an answer of `tool_discovery`: key, signature, relevance."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Something that a person may want, in plain words."""

    text: str
    """What is searched for."""

    expected: str
    """Key of the tool that ought to be found; the arguments are made for it."""

    arguments: Callable[[Path], Json]
    """Arguments for that tool, given the scratch folder."""

    proof: str
    """What the answer has to contain."""


REQUEST_POOL: tuple[Request, ...] = (
    Request(
        text="write a text file",
        expected="filesystem:write_file",
        arguments=lambda scratch: {
            "path": str(scratch / "files" / "hello.txt"),
            "content": "written through Toolgate\n",
        },
        proof="hello.txt",
    ),
    Request(
        # Not one word of the tool: found by what it means.
        text="half past nine in Berlin, which hour is that in Tokyo",
        expected="time:convert_time",
        arguments=lambda _: {
            "source_timezone": "Europe/Berlin",
            "time": "09:30",
            "target_timezone": "Asia/Tokyo",
        },
        proof="Asia/Tokyo",
    ),
    Request(
        text="show git commit logs",
        expected="git:git_log",
        arguments=lambda scratch: {"repo_path": str(scratch / "repository")},
        proof="Open the gate",
    ),
    Request(
        text="run a SELECT query on the database",
        expected="sqlite:read_query",
        arguments=lambda _: {"query": "SELECT name, visitors FROM gates ORDER BY visitors DESC"},
        proof="Brandenburg",
    ),
    Request(
        text="store new entities in a knowledge graph",
        expected="memory:create_entities",
        arguments=lambda _: {
            "entities": [
                {"name": "Toolgate", "entityType": "gateway", "observations": ["one endpoint"]}
            ]
        },
        proof="one endpoint",
    ),
    Request(
        text="create a new Excel workbook",
        expected="excel:create_workbook",
        arguments=lambda scratch: {"path": str(scratch / "files" / "gates.xlsx")},
        proof="gates.xlsx",
    ),
)
"""The first four whose server is there are shown: with Node, without Node, without git."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """How one request went."""

    request: str
    """As it was searched."""

    found: str
    """Key of the best hit; empty when nothing was found."""

    relevance: float
    """Its relevance in [0, 1]."""

    expected: str
    """Key of the tool that ought to be found."""

    ran: str
    """Key of the tool that was run; empty when the expected one was not among the hits."""

    worked: bool
    """Whether it ran without error and the answer held what it had to."""

    answer: str
    """First line of the answer."""

    discovery_tokens: int
    """Estimated tokens of the answer of `tool_discovery`."""

    discovery_ms: float
    """Milliseconds, seen from the client."""

    execute_ms: float
    """Milliseconds, seen from the client."""


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What happened after a server was killed."""

    server: str
    """Which one."""

    killed_pid: int
    """Its process before."""

    new_pid: int | None
    """Its process after; None when it did not come back in time."""

    first_call: str
    """First line of the answer of the call right after the kill."""

    first_call_worked: bool
    """Whether that call worked already."""

    first_call_ms: float
    """Milliseconds of that call."""

    works_again: bool
    """Whether a call worked in the end."""

    other: str = ""
    """Key of a tool of another server that was called meanwhile."""

    other_worked: bool = True
    """Whether that call worked."""

    other_ms: float = 0.0
    """Milliseconds of that call."""


@dataclass(kw_only=True)
class Report:
    """All that the demo showed; what `--json` prints."""

    servers: list[Json] = field(default_factory=list[Json])
    """State of each server once all had started."""

    problems: list[str] = field(default_factory=list[str])
    """Why servers are missing, a sentence each."""

    ready_s: float = 0.0
    """Seconds from the first look until no server was starting any more."""

    menu_tools: int = 0
    """Tools of all servers together."""

    menu_tokens: int = 0
    """Estimated tokens of all their definitions."""

    shown_tools: list[str] = field(default_factory=list[str])
    """Names that `tools/list` answered."""

    shown_tokens: int = 0
    """Estimated tokens of those definitions."""

    requests: list[Answered] = field(default_factory=list[Answered])
    """How each request went."""

    recovery: Recovered | None = None
    """What happened after a kill; None when there was nothing to kill."""

    questions: list[Asked] = field(default_factory=list[Asked])
    """What became of questions about a database."""

    url: str = ""
    """Address of the gateway's MCP endpoint."""

    @property
    def fine(self) -> bool:
        """Whether everything that was shown worked."""
        seen = self.recovery
        recovered = seen is not None and seen.works_again and seen.other_worked
        done = [*self.requests, *self.questions]
        return bool(self.requests) and recovered and all(one.worked for one in done)


@app.command()
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the gateway serving until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
    servers_dir: Annotated[
        Path | None,
        typer.Option(
            "--servers-dir",
            metavar="DIR",
            help="Where the demo's servers are installed. Default: the user's cache folder.",
        ),
    ] = None,
) -> int:
    """Show the main job on real MCP servers, from search to executed call.

    Installs a handful of published MCP servers on first use (npm ones where Node 20 or later
    exists), starts a gateway before them on a free port, and ends everything again.
    """
    folder = servers_dir or Path(platformdirs.user_cache_dir("toolgate")) / "demo-servers"
    return anyio.run(_demo, folder, keep, as_json)


async def _demo(folder: Path, keep: bool, as_json: bool) -> int:
    out = _Screen(quiet=as_json)
    report = Report()
    ended = True
    async with _until_signalled() as scope:
        out.title()
        servers, node = await _set_up(folder, out, report)
        with tempfile.TemporaryDirectory(
            prefix="toolgate-demo-", ignore_cleanup_errors=True
        ) as name:
            scratch = Path(await anyio.Path(name).resolve())
            servers = await anyio.to_thread.run_sync(_prepare, scratch, servers)
            table = server_table(servers, folder, scratch, node)
            async with _gateway(scratch, table) as run:
                report.url = f"{run.address}/mcp"
                await _show(run, scratch, out, report)
                await _ask(scratch / "shop", out, report)
                out.how_to_connect(report.url if keep else None)
                if as_json:
                    print_json(_as_json(report))
                if keep:
                    out.keeping(report.url)
                    await anyio.sleep_forever()
        ended = False
    out.done(report, interrupted=ended and not keep)
    return FINE if report.fine and (keep or not scope.cancelled_caught) else 1


async def _set_up(
    folder: Path, out: "_Screen", report: Report
) -> tuple[tuple[DemoServer, ...], Any]:
    node = await anyio.to_thread.run_sync(find_node)
    with waiting("Setting up servers"):
        installed = await install(folder, node=node, say=note)
    report.problems += installed.problems
    for problem in installed.problems:
        out.line(problem)
    if not installed.servers:
        raise ToolgateError(
            "No server of the demo could be installed.",
            hint="Look at the reasons above, connect to the network, and run it again.",
        )
    return installed.servers, node


async def _show(run: runfile.RunFile, scratch: Path, out: "_Screen", report: Report) -> None:
    exchange = over_http(run)
    gateway = Door(exchange, run)
    started = anyio.current_time()
    with waiting("Starting servers"):
        report.servers = await _wait_ready(gateway)
    report.ready_s = anyio.current_time() - started
    out.servers(report)

    async with Client(report.url) as client:
        _, listing = await exchange("GET", "/api/v1/tools?format=mcp", None)
        await _measure_menu(json.loads(listing)["tools"], client, report)
        out.menu(report)
        known = {row["name"] for row in report.servers if row["state"] == "ready"}
        chosen = [one for one in REQUEST_POOL if one.expected.partition(":")[0] in known]
        out.requests()
        for request in chosen[:REQUESTS]:
            answered = await _find_and_run(client, request, scratch)
            report.requests.append(answered)
            out.request(answered)
        out.cost(report)
        victim = _victim(chosen)
        other = next((one for one in chosen if one is not victim), None)
        if victim is not None and other is not None:
            report.recovery = await _kill_and_call(gateway, client, victim, other, scratch)
            out.recovery(report.recovery)


async def _ask(folder: Path, out: "_Screen", report: Report) -> None:
    """Ask about a database, through a gateway that has nothing else."""
    await anyio.Path(folder).mkdir()
    async with _gateway(folder, connections=connections(folder)) as run:
        gateway = Door(over_http(run), run)
        out.questions()
        with waiting("Learning what people ask"):
            asked = [one async for one in ask_schema(gateway, folder)]
        for number, one in enumerate(asked):
            report.questions.append(one)
            out.question(one, with_prompt=number == 0)


# What is shown


async def _wait_ready(gateway: Door) -> list[Json]:
    servers = await gateway.servers()
    with anyio.move_on_after(READY_S):
        while any(_is_starting(row) for row in servers):
            await anyio.sleep(0.1)
            servers = await gateway.servers()
    return servers


def _is_starting(server: Json) -> bool:
    return server["state"] == "connecting" or (
        server["state"] in {"ready", "degraded"} and server.get("listed_at") is None
    )


async def _measure_menu(whole: Sequence[Json], client: Client, report: Report) -> None:
    report.menu_tools = len(whole)
    report.menu_tokens = estimate_tokens(_compact(whole))
    listed = (await client.list_tools()).tools
    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    report.shown_tools = [tool["name"] for tool in shown]
    report.shown_tokens = estimate_tokens(_compact(shown))


async def _find_and_run(client: Client, request: Request, scratch: Path) -> Answered:
    begun = anyio.current_time()
    text, _ = await _call(client, "tool_discovery", {"query": request.text})
    found_at = anyio.current_time()
    hits = read_hits(text)
    best, relevance = hits[0] if hits else ("", 0.0)
    ran = request.expected if request.expected in dict(hits) else ""
    answer, worked = "", False
    if ran:
        wanted = {"toolKey": ran, "arguments": request.arguments(scratch)}
        answer, worked = await _call(client, "tool_execute", wanted)
    return Answered(
        request=request.text,
        found=best,
        relevance=relevance,
        expected=request.expected,
        ran=ran,
        worked=worked and request.proof in answer,
        answer=_gist(answer),
        discovery_tokens=estimate_tokens(text),
        discovery_ms=(found_at - begun) * 1e3,
        execute_ms=(anyio.current_time() - found_at) * 1e3,
    )


def _victim(chosen: Sequence[Request]) -> Request | None:
    """The request whose server is killed: one that may be repeated, of a server quick to start."""
    quick = ("filesystem", "memory", "sqlite")
    by_server = {one.expected.partition(":")[0]: one for one in chosen}
    return next((by_server[name] for name in quick if name in by_server), None)


async def _kill_and_call(
    gateway: Door, client: Client, request: Request, other: Request, scratch: Path
) -> Recovered:
    server = request.expected.partition(":")[0]
    old = _pid(await gateway.servers(), request.expected)
    assert old is not None
    os.kill(old, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    arguments = request.arguments(scratch)
    answers: dict[str, tuple[str, bool, float]] = {}

    async def timed(key: str, arguments: Json) -> None:
        begun = anyio.current_time()
        call = {"toolKey": key, "arguments": arguments}
        answers[key] = (
            *await _call(client, "tool_execute", call),
            (anyio.current_time() - begun) * 1e3,
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timed, request.expected, arguments)
        tasks.start_soon(timed, other.expected, other.arguments(scratch))
    first, worked, first_ms = answers[request.expected]
    works = worked
    new: int | None = None
    with anyio.move_on_after(BACK_S):
        while (new := _pid(await gateway.servers(), request.expected)) in {None, old} or not works:
            await anyio.sleep(0.1)
            if not works:
                wanted = {"toolKey": request.expected, "arguments": arguments}
                _, works = await _call(client, "tool_execute", wanted)
    return Recovered(
        server=server,
        killed_pid=old,
        new_pid=None if new == old else new,
        first_call=_gist(first),
        first_call_worked=worked,
        first_call_ms=first_ms,
        works_again=works and new not in {None, old},
        other=other.expected,
        other_worked=answers[other.expected][1],
        other_ms=answers[other.expected][2],
    )


async def _call(client: Client, tool: str, arguments: Json) -> tuple[str, bool]:
    """The text of a tool's answer, and whether it is no error."""
    result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if block.type == "text"]
    return "\n".join(texts), not result.is_error


def read_hits(text: str) -> list[tuple[str, float]]:
    """Keys and relevance of the tools in an answer of `tool_discovery`, best first."""
    hits: list[tuple[str, float]] = []
    for line in text.splitlines():
        match = _HIT.match(line)
        if match:
            key = match[1]
            hits.append((json.loads(key) if key.startswith('"') else key, float(match[2])))
    return hits


def _pid(servers: Sequence[Json], key: str) -> int | None:
    name = key.partition(":")[0]
    return next((row["pid"] for row in servers if row["name"] == name), None)


def _gist(text: str) -> str:
    """The beginning of an answer in one line."""
    return harmless(" ".join(text.split()))[:300]


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_json(report: Report) -> Json:
    shown = asdict(report)
    shown["fine"] = report.fine
    return shown


# The gateway and its world


def _prepare(scratch: Path, servers: Sequence[DemoServer]) -> tuple[DemoServer, ...]:
    """Make what the servers work on; gives those that can work."""
    (scratch / "files").mkdir()
    with contextlib.closing(sqlite3.connect(scratch / "notes.db")) as database:
        database.execute("CREATE TABLE gates (name TEXT, visitors INTEGER)")
        rows = [("Brandenburg", 3_900_000), ("Ishtar", 1_200_000), ("Golden", 800_000)]
        database.executemany("INSERT INTO gates VALUES (?, ?)", rows)
        database.commit()
    git = shutil.which("git")
    if git is None:
        return tuple(server for server in servers if server.name != "git")
    repository = scratch / "repository"
    repository.mkdir()
    who = ("-c", "user.name=Toolgate", "-c", "user.email=demo@example.org")
    unsigned = ("-c", "commit.gpgsign=false")
    steps = [("init", "--quiet")]
    steps += [
        (*who, *unsigned, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject)
        for subject in ("Draw the plan", "Build the wall", "Open the gate")
    ]
    for step in steps:
        subprocess.run([git, *step], cwd=repository, check=True, capture_output=True)  # noqa: S603
    return tuple(servers)


@asynccontextmanager
async def _gateway(
    scratch: Path, servers: dict[str, Json] | None = None, *, connections: Json | None = None
) -> AsyncGenerator[runfile.RunFile]:
    """A gateway process on a free port; ended with the block, its children with it."""
    config = scratch / "toolgate.toml"
    document = {
        "serve": {"port": 0},
        "store": {"url": f"sqlite:///{(scratch / 'toolgate.db').as_posix()}"},
        "server": servers or {},
        "connections": connections or {},
    }
    text = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
    await anyio.Path(config).write_text(text, encoding="utf-8")
    log = scratch / "toolgate.log"
    command = [sys.executable, "-m", "toolgate", "serve", "--config", str(config)]
    # Its run file lies with everything else: nothing of the demo stays in the user's folders.
    env = {**settings.current_environment(), "XDG_DATA_HOME": str(scratch / "data")}
    with log.open("wb") as output:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,  # Ctrl-C is for the demo, which ends the gateway itself
        )
    try:
        yield await _announced(process, settings.run_dir(env), log)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _announced(process: Process, folder: Path, log: Path) -> runfile.RunFile:
    with anyio.move_on_after(READY_S):
        while process.returncode is None:
            for run in runfile.read_all(folder):
                if run.pid == process.pid:
                    return run
            await anyio.sleep(0.02)
    said = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
    raise ToolgateError(
        "The gateway of the demo did not start.", hint=f"It said: {said.strip()[-1500:] or '-'}"
    )


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _until_signalled() -> AsyncGenerator[anyio.CancelScope]:
    """Cancel the block at SIGINT or SIGTERM, so that everything is ended and removed."""

    async def watch(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                scope.cancel()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        await tasks.start(watch)
        with scope:
            yield scope
        tasks.cancel_scope.cancel()


# How it looks


class _Screen:
    """Plain text with a little colour where there is a terminal; 80 columns suffice."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(quiet=quiet, highlight=False, emoji=False)

    def line(self, text: str = "", style: str = "") -> None:
        """A line of its own, broken only by the terminal, so that it can be copied whole."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def title(self) -> None:
        self.line("Toolgate: real MCP servers behind one endpoint", "bold")
        self.line()

    def heading(self, number: int, text: str, aside: str = "") -> None:
        self.line()
        line = Text(f"{number}. {text}", style="bold cyan")
        if aside:
            line.append(f"  {aside}", style="not bold default dim")
        self._console.print(line)

    def servers(self, report: Report) -> None:
        ready = [row for row in report.servers if row["state"] == "ready"]
        self.heading(
            1,
            f"{len(ready)} servers, {sum(row['tools'] for row in ready)} tools",
            f"ready after {report.ready_s:.1f} s",
        )
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("server")
        table.add_column("tools", justify="right")
        table.add_column("speaks")
        table.add_column("era")
        table.add_column("state", overflow="fold")
        for row in report.servers:
            state = row["state"]
            remark = state if state == "ready" else f"{state}: {row.get('last_error') or '-'}"
            table.add_row(
                row["name"],
                str(row["tools"]),
                row.get("version") or "-",
                row.get("era") or "-",
                Text(harmless(remark), style="green" if state == "ready" else "yellow"),
            )
        self._console.print(Padding(table, (0, 0, 0, 3)))

    def menu(self, report: Report) -> None:
        self.heading(2, "What a model has to read before it starts", "estimated tokens")
        widest = 34
        rows = (
            (f"all {report.menu_tools} tools", report.menu_tokens, "red"),
            (
                f"what Toolgate shows ({len(report.shown_tools)} tools)",
                report.shown_tokens,
                "green",
            ),
        )
        for label, tokens, style in rows:
            bar = max(1, round(widest * tokens / max(1, report.menu_tokens)))
            line = Text(f"   {label:<30}{tokens:>9,}  ")
            line.append("#" * bar, style=style)
            self._console.print(line)
        saved = 100 * (1 - report.shown_tokens / max(1, report.menu_tokens))
        self.line(f"   {saved:.1f} % less: {', '.join(report.shown_tools)}")

    def requests(self) -> None:
        self.heading(3, "Requests in plain words, found and run", "by an MCP client over HTTP")

    def request(self, one: Answered) -> None:
        self.line(f'   "{one.request}"', "bold")
        found = f"{one.found} (relevance {one.relevance:.2f})" if one.found else "nothing"
        self.line(f"     found  {found}, {one.discovery_tokens} tokens, {one.discovery_ms:.0f} ms")
        if one.found != one.expected:
            place = "it came later and is run" if one.ran else "it was not among the hits"
            self.line(f"     NOTE   expected {one.expected}; {place}", "yellow")
        if one.ran:
            mark, style = ("ran   ", "") if one.worked else ("FAILED", "red")
            self._fitting(f"     {mark} ", f"in {one.execute_ms:.0f} ms: {one.answer}", style)

    def cost(self, report: Report) -> None:
        answers = sum(one.discovery_tokens for one in report.requests)
        self.line(
            f"   Menu and {len(report.requests)} searches together: "
            f"{report.shown_tokens + answers:,} tokens instead of {report.menu_tokens:,}."
        )

    def recovery(self, seen: Recovered) -> None:
        self.heading(4, "A server dies in between")
        self.line(f"   killed {seen.server} (process {seen.killed_pid}), called it at once:")
        if seen.first_call_worked:
            self._fitting("     ran    ", f"in {seen.first_call_ms:.0f} ms: {seen.first_call}")
        else:
            self._fitting("     said   ", seen.first_call)
        verb = "answered" if seen.other_worked else "FAILED"
        self.line(f"     beside {seen.other} {verb} in {seen.other_ms:.0f} ms meanwhile")
        if seen.works_again:
            self.line(f"     back   as process {seen.new_pid}")
        else:
            self.line(f"     GONE   it did not come back within {BACK_S:.0f} s", "red")

    def questions(self) -> None:
        self.heading(5, "Questions about a database", "understood, and answered from it")

    def question(self, one: Asked, *, with_prompt: bool) -> None:
        self.line(f'   "{one.message}"', "bold")
        self.line(f"     is     {one.intent} ({one.confidence:.2f}, {one.decided})")
        if with_prompt:
            self.line(f"     a model gets {one.prompt_tokens} tokens with the rules for it:")
            for line in [line for line in one.prompt.splitlines() if line][:_PROMPT_LINES]:
                self._fitting("       | ", line)
        arguments = json.dumps(one.arguments, ensure_ascii=False)
        mark, style = ("ran   ", "") if one.worked else ("FAILED", "red")
        self._fitting(f"     {mark} ", f"{one.tool} {arguments}", style)
        for line in one.answer.splitlines()[:_ANSWER_LINES]:
            self._fitting("       > ", line)

    def how_to_connect(self, url: str | None) -> None:
        program = _program()
        address = url or "http://127.0.0.1:7420/mcp"
        self.heading(6, "Your own client, with your own servers")
        if url is None:
            self.line(f"   {program} init")
            self.line("     finds the servers that your clients know already; then")
            self.line(f"   {program} serve")
            self.line(f"     serves them at {address}. Connect a client:")
        self.line(f"   claude mcp add --transport http toolgate {address}")
        if url is None:
            self.line("   or let any client start Toolgate itself, in its JSON:")
            entry = {"mcpServers": {"toolgate": {"command": program, "args": ["stdio"]}}}
        else:
            self.line("   or in the JSON of a client:")
            entry = {"mcpServers": {"toolgate": {"url": address}}}
        self.line(f"   {json.dumps(entry)}")

    def keeping(self, url: str) -> None:
        self.line()
        self.line(f"Serving at {url}. Ctrl-C ends it.", "bold")

    def done(self, report: Report, *, interrupted: bool) -> None:
        self.line()
        if interrupted:
            self.line("Interrupted; everything was ended.", "yellow")
        elif report.fine:
            self.line("All of it worked. Everything was ended and removed.", "green")
        else:
            self.line("Not all of it worked; see above. Everything was ended.", "red")

    def _fitting(self, label: str, text: str, style: str = "") -> None:
        room = max(20, self._console.width - len(label))
        cut = text if len(text) <= room else f"{text[: room - 3]}..."
        self.line(f"{label}{cut}", style)


def _program() -> str:
    """How this command is called from anywhere."""
    beside = Path(sys.executable).parent / (
        "toolgate.exe" if sys.platform == "win32" else "toolgate"
    )
    found = shutil.which("toolgate")
    if found and Path(found).resolve() == beside.resolve():
        return "toolgate"
    return str(beside) if beside.is_file() else found or "toolgate"
