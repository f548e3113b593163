"""`toolgate doctor`: check everything and suggest fixes."""

import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from toolgate.cli.setup._check import Check, State
from toolgate.cli.setup._checks import run_checks
from toolgate.cli.setup._support_archive import write_bundle
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text, spinner, wrap_text
from toolgate.cli.terminal._sanitize import one_line

app = CommandApp()

_MARKS: dict[State, str] = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


@app.command(help="Check configuration, servers, store and port, and suggest fixes.")
async def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="FILE",
            help="Also write a ZIP archive for a bug report, without secrets.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start servers.")] = False,
    production: Annotated[
        bool,
        typer.Option("--production", help="Also check that the gateway is ready for production."),
    ] = False,
) -> int:
    """Check configuration, servers, store and port, and suggest fixes."""
    checks: list[Check] = []
    results = _all_checks(handshakes=not quick, production=production)
    while True:
        with spinner("Checking"):
            check = await anext(results, None)
        if check is None:
            break
        checks.append(check)
        if not as_json:
            show(check)
    problems = len({check.name for check in checks if check.state == "problem"})
    warnings = len([check for check in checks if check.state == "warning"])
    if as_json:
        print_json({"ok": not problems, "checks": [asdict(check) for check in checks]})
    if bundle is not None:
        await write_bundle(bundle, checks)
        note(f"Wrote {bundle}. Review it before you share it.")
    if not as_json:
        note(_summary(problems, warnings))
    return FAILED if problems else SUCCESS


async def _all_checks(*, handshakes: bool, production: bool) -> AsyncIterator[Check]:
    async for check in run_checks(handshakes=handshakes):
        yield check
    if production:
        async for check in import_module(
            "toolgate.cli.setup._production_checks"
        ).run_production_checks():
            yield check


def _summary(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "Everything works."
    counts = [plural(problems, "problem")]
    if warnings:
        counts.append(plural(warnings, "warning"))
    text = " and ".join(counts)
    return f"Found {text}." if problems else f"Everything works, with {counts[-1]}."


def show(check: Check) -> None:
    """Print the result of a check."""
    line = f"{_MARKS[check.state]}  {check.name}: {one_line(check.found)}"
    print_text(wrap_text(line, sys.stdout, hang=9))
    if check.hint:
        print_text(f"         -> {check.hint}")
