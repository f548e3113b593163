"""How the demo looks: plain text with a little colour where there is a terminal."""

import json
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolgate.cli.demo._report import Answered, Recovered, Report
from toolgate.cli.demo._requests import BACK_S
from toolgate.cli.demo._schema import Asked
from toolgate.cli.demo._turns import Turned
from toolgate.cli.terminal._output import harmless

__all__ = ["Screen"]

_PROMPT_LINES = 6
_ANSWER_LINES = 4
_TURN_LINES = 7


class Screen:
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

    def turns(self, needs: str) -> None:
        self.heading(6, "Whole turns behind an OpenAI endpoint", "a script stands for the model")
        if needs:
            self.line(f"   left out: it needs a library. Run: {needs}", "dim")

    def turn(self, one: Turned) -> None:
        self.line(f'   "{one.question}"', "bold")
        mark, style = ("ran   ", "") if one.worked else ("FAILED", "red")
        self._fitting(f"     {mark} ", one.ran, style)
        for line in one.answer.splitlines()[:_TURN_LINES]:
            self._fitting("       > ", line)
        self.line(f"     {one.tokens} tokens went through the model", "dim")

    def how_to_connect(self, url: str | None) -> None:
        program = _program()
        address = url or "http://127.0.0.1:7420/mcp"
        self.heading(7, "Your own client, with your own servers")
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
        self.line(f"With a browser: {url.removesuffix('/mcp')}/console", "bold")

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
