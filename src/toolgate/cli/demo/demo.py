"""`toolgate demo`: search and call tools of real, published MCP servers.

Everything is real: a gateway process, the servers in `_servers`, the official client over HTTP.
The requests are in `_requests`; the demo reports if the search finds another tool than expected.
"""

import signal
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import platformdirs
import typer
from mcp import Client

from toolgate.base.json_text import dumps, loads
from toolgate.base.processes import run_file
from toolgate.base.token_estimate import estimate_tokens
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._http_exchange import over_http
from toolgate.cli.demo._gateway import READY_S, gateway_process, prepare
from toolgate.cli.demo._report import DemoReport
from toolgate.cli.demo._requests import REQUEST_POOL, choose_victim, find_and_run, kill_and_call
from toolgate.cli.demo._schema import ask_questions, connections
from toolgate.cli.demo._screen import Screen
from toolgate.cli.demo._servers import DemoServer, find_node, install, server_table
from toolgate.cli.demo._turns import INSTALL_COMMAND, run_turns, turn_tables
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import note, print_json, spinner
from toolgate.errors import ToolgateError
from toolgate.types import Json

REQUESTS = 4
"""Requests that are shown (chosen: one screen)."""

app = CommandApp()


@app.command()
async def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the gateway running until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    servers_dir: Annotated[
        Path | None,
        typer.Option(
            "--servers-dir",
            metavar="DIR",
            help="Folder to install the demo servers in. Default: the user's cache folder.",
        ),
    ] = None,
) -> int:
    """Try Toolgate with real MCP servers: find tools, call them, recover from a crash.

    On first use, installs a few published MCP servers (those from npm only if Node 20 or later is
    available). Then starts a gateway for them on a free port, and stops everything when done.
    """
    folder = servers_dir or Path(platformdirs.user_cache_dir("toolgate")) / "demo-servers"
    out = Screen(quiet=as_json)
    report = DemoReport()
    ended = True
    async with _until_signalled() as scope:
        out.title()
        servers, node = await _set_up(folder, out, report)
        with tempfile.TemporaryDirectory(
            prefix="toolgate-demo-", ignore_cleanup_errors=True
        ) as name:
            scratch = Path(await anyio.Path(name).resolve())
            servers = await anyio.to_thread.run_sync(prepare, scratch, servers)
            table = server_table(servers, folder, scratch, node)
            async with gateway_process(scratch, table) as run:
                report.url = f"{run.address}/mcp"
                await _show(run, scratch, out, report)
                await _ask(scratch / "shop", out, report)
                await _turns(scratch / "turns", out, report)
                out.how_to_connect(report.url if keep else None)
                if as_json:
                    print_json(report.as_json())
                if keep:
                    out.keeping(report.url)
                    await anyio.sleep_forever()
        ended = False
    out.done(report, interrupted=ended and not keep)
    return SUCCESS if report.fine and (keep or not scope.cancelled_caught) else 1


async def _set_up(
    folder: Path, out: Screen, report: DemoReport
) -> tuple[tuple[DemoServer, ...], Any]:
    node = await anyio.to_thread.run_sync(find_node)
    with spinner("Setting up servers"):
        installed = await install(folder, node=node, say=note)
    report.problems += installed.problems
    for problem in installed.problems:
        out.line(problem)
    if not installed.servers:
        raise ToolgateError(
            "No server of the demo could be installed.",
            hint="See the reasons above, check the network, and run it again.",
        )
    return installed.servers, node


async def _show(run: run_file.RunFile, scratch: Path, out: Screen, report: DemoReport) -> None:
    exchange = over_http(run)
    gateway = GatewayClient(exchange, run)
    started = anyio.current_time()
    with spinner("Starting servers"):
        report.servers = await _wait_ready(gateway)
    report.ready_s = anyio.current_time() - started
    out.servers(report)

    async with Client(report.url) as client:
        _, listing = await exchange("GET", "/api/v1/tools?format=mcp", None)
        await _measure_menu(loads(listing)["tools"], client, report)
        out.menu(report)
        ready = {row["name"] for row in report.servers if row["state"] == "ready"}
        chosen = [
            request for request in REQUEST_POOL if request.expected.partition(":")[0] in ready
        ]
        out.requests()
        for request in chosen[:REQUESTS]:
            answered = await find_and_run(client, request, scratch)
            report.requests.append(answered)
            out.request(answered)
        out.cost(report)
        victim = choose_victim(chosen)
        other = next((request for request in chosen if request is not victim), None)
        if victim is not None and other is not None:
            report.recovery = await kill_and_call(gateway, client, victim, other, scratch)
            out.recovery(report.recovery)


async def _ask(folder: Path, out: Screen, report: DemoReport) -> None:
    """Ask questions about a database, through a gateway without other servers."""
    await anyio.Path(folder).mkdir()
    async with gateway_process(folder, connections=connections(folder)) as run:
        gateway = GatewayClient(over_http(run), run)
        out.questions()
        with spinner("Learning example prompts"):
            results = [result async for result in ask_questions(gateway, folder)]
        for number, result in enumerate(results):
            report.questions.append(result)
            out.question(result, with_prompt=number == 0)


async def _turns(folder: Path, out: Screen, report: DemoReport) -> None:
    """Run two chat turns with a scripted model."""
    out.turns(INSTALL_COMMAND)
    if INSTALL_COMMAND:
        return
    await anyio.Path(folder).mkdir()
    tables = await anyio.to_thread.run_sync(turn_tables, folder)
    async with gateway_process(folder, tables=tables) as run:
        for name in ("documents", "sql"):
            await GatewayClient(over_http(run), run).wait_for_servers(name)
        async for result in run_turns(over_http(run), folder):
            report.turns.append(result)
            out.turn(result)


async def _wait_ready(gateway: GatewayClient) -> list[Json]:
    servers = await gateway.servers()
    with anyio.move_on_after(READY_S):
        while any(row["state"] == "connecting" for row in servers):
            await anyio.sleep(0.1)
            servers = await gateway.servers()
    return servers


async def _measure_menu(whole: Sequence[Json], client: Client, report: DemoReport) -> None:
    report.menu_tools = len(whole)
    report.menu_tokens = estimate_tokens(dumps(whole))
    listed = (await client.list_tools()).tools
    definitions = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed
    ]
    report.shown_tools = [tool["name"] for tool in definitions]
    report.shown_tokens = estimate_tokens(dumps(definitions))


@asynccontextmanager
async def _until_signalled() -> AsyncGenerator[anyio.CancelScope]:
    """Cancel the block on SIGINT or SIGTERM, so that everything is stopped and removed."""

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
