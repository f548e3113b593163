"""Output of the demo: plain text, with some colour on a terminal."""

import json
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolgate.cli.demo._report import DemoReport, RecoveryResult, RequestResult
from toolgate.cli.demo._requests import BACK_S
from toolgate.cli.demo._schema import QuestionResult
from toolgate.cli.demo._turns import TurnResult
from toolgate.cli.terminal._sanitize import sanitize
from toolgate.types import relevance_text

_PROMPT_LINES = 6
"""Lines shown of a prompt (chosen: the demo fits a screen of 40 lines)."""
_ANSWER_LINES = 4
"""Lines shown of an answer (chosen for the same reason)."""
_TURN_LINES = 7
"""Lines shown of a chat turn (chosen for the same reason)."""


class Screen:
    """Prints the steps of the demo; fits into 80 columns."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(quiet=quiet, highlight=False, emoji=False)

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line without wrapping it, so that it can be copied as a whole."""
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

    def servers(self, report: DemoReport) -> None:
        ready = [row for row in report.servers if row["state"] == "ready"]
        self.heading(
            1,
            f"{len(ready)} servers, {sum(row['tools'] for row in ready)} tools",
            f"ready after {report.ready_s:.1f} s",
        )
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("server")
        table.add_column("tools", justify="right")
        table.add_column("protocol")
        table.add_column("state", overflow="fold")
        for row in report.servers:
            state = row["state"]
            remark = state if state == "ready" else f"{state}: {row.get('last_error') or '-'}"
            table.add_row(
                row["name"],
                str(row["tools"]),
                row.get("version") or "-",
                Text(sanitize(remark), style="green" if state == "ready" else "yellow"),
            )
        self._console.print(Padding(table, (0, 0, 0, 3)))

    def menu(self, report: DemoReport) -> None:
        self.heading(2, "What a model reads before it starts", "estimated tokens")
        widest = 34
        rows = (
            (f"all {report.menu_tools} tools", report.menu_tokens, "red"),
            (
                f"listed by Toolgate ({len(report.shown_tools)} tools)",
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
        self.line(f"   {saved:.1f} % less, with these instead:")
        self.line(f"   {', '.join(report.shown_tools)}")

    def requests(self) -> None:
        self.heading(3, "Requests in plain words", "by an MCP client over HTTP")

    def request(self, result: RequestResult) -> None:
        self.line(f'   "{result.request}"', "bold")
        hit = (
            f"{result.found} (relevance {relevance_text(result.relevance)})"
            if result.found
            else "nothing"
        )
        self.line(
            f"     found  {hit}, {result.discovery_tokens} tokens, {result.discovery_ms:.0f} ms"
        )
        if result.found != result.expected:
            remark = (
                "it was found with a lower rank and is called" if result.ran else "it was not found"
            )
            self.line(f"     NOTE   expected {result.expected}; {remark}", "yellow")
        if result.ran:
            mark, style = ("ran   ", "") if result.worked else ("FAILED", "red")
            self._fitting(f"     {mark} ", f"in {result.execute_ms:.0f} ms: {result.answer}", style)

    def cost(self, report: DemoReport) -> None:
        answers = sum(result.discovery_tokens for result in report.requests)
        self.line(
            f"   Tool list and {len(report.requests)} searches together: "
            f"{report.shown_tokens + answers:,} tokens instead of {report.menu_tokens:,}."
        )

    def recovery(self, seen: RecoveryResult) -> None:
        self.heading(4, "A server crashes")
        self.line(f"   killed {seen.server} (process {seen.killed_pid}), called it immediately:")
        if seen.first_call_worked:
            self._fitting("     ran    ", f"in {seen.first_call_ms:.0f} ms: {seen.first_call}")
        else:
            self._fitting("     said   ", seen.first_call)
        verb = "answered" if seen.other_worked else "FAILED"
        self.line(f"     other  {seen.other} {verb} in {seen.other_ms:.0f} ms meanwhile")
        if seen.works_again:
            self.line(f"     back   as process {seen.new_pid}")
        else:
            self.line(f"     GONE   it did not come back within {BACK_S:.0f} s", "red")

    def questions(self) -> None:
        self.heading(5, "Questions about a database", "intent detection")

    def question(self, result: QuestionResult, *, with_prompt: bool) -> None:
        self.line(f'   "{result.message}"', "bold")
        self.line(f"     intent {result.intent} ({result.confidence:.2f}, {result.decided})")
        if with_prompt:
            self.line(f"     a model gets {result.prompt_tokens} tokens with the rules for it:")
            for line in [line for line in result.prompt.splitlines() if line][:_PROMPT_LINES]:
                self._fitting("       | ", line)
        arguments = json.dumps(result.arguments, ensure_ascii=False)
        mark, style = ("ran   ", "") if result.worked else ("FAILED", "red")
        self._fitting(f"     {mark} ", f"{result.tool} {arguments}", style)
        for line in result.answer.splitlines()[:_ANSWER_LINES]:
            self._fitting("       > ", line)

    def turns(self, needs: str) -> None:
        self.heading(6, "Chat turns at an OpenAI endpoint", "with a scripted model")
        if needs:
            self.line(f"   skipped: a library is missing. Run: {needs}", "dim")

    def turn(self, result: TurnResult) -> None:
        self.line(f'   "{result.question}"', "bold")
        mark, style = ("ran   ", "") if result.worked else ("FAILED", "red")
        self._fitting(f"     {mark} ", result.ran, style)
        for line in result.answer.splitlines()[:_TURN_LINES]:
            self._fitting("       > ", line)
        self.line(f"     {result.tokens} tokens in all requests to the model", "dim")

    def how_to_connect(self, url: str | None) -> None:
        program = _program()
        address = url or "http://127.0.0.1:7420/mcp"
        self.heading(7, "Your own client, with your own servers")
        if url is None:
            self.line(f"   {program} init")
            self.line("     imports the servers of your clients; then")
            self.line(f"   {program} serve")
            self.line(f"     serves them at {address}. Connect a client:")
        self.line(f"   claude mcp add --transport http toolgate {address}")
        if url is None:
            self.line("   or let a client start Toolgate, in its JSON:")
            entry = {"mcpServers": {"toolgate": {"command": program, "args": ["stdio"]}}}
        else:
            self.line("   or in the JSON of a client:")
            entry = {"mcpServers": {"toolgate": {"url": address}}}
        self.line(f"   {json.dumps(entry)}")

    def keeping(self, url: str) -> None:
        self.line()
        self.line(f"Serving at {url}. Ctrl-C stops it.", "bold")
        self.line(f"Web console: {url.removesuffix('/mcp')}/console", "bold")

    def done(self, report: DemoReport, *, interrupted: bool) -> None:
        self.line()
        if interrupted:
            self.line("Interrupted; everything was stopped.", "yellow")
        elif report.fine:
            self.line(
                "Everything worked. All processes were stopped and all files removed.", "green"
            )
        else:
            self.line("Not everything worked; see above. All processes were stopped.", "red")

    def _fitting(self, label: str, text: str, style: str = "") -> None:
        room = max(20, self._console.width - len(label))
        cut = text if len(text) <= room else f"{text[: room - 3]}..."
        self.line(f"{label}{cut}", style)


def _program() -> str:
    """Return the command name or path that works from any folder."""
    beside = Path(sys.executable).parent / (
        "toolgate.exe" if sys.platform == "win32" else "toolgate"
    )
    on_path = shutil.which("toolgate")
    if on_path and Path(on_path).resolve() == beside.resolve():
        return "toolgate"
    return str(beside) if beside.is_file() else on_path or "toolgate"
