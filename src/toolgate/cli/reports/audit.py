"""`toolgate audit`: show, export, compare and verify the audit log."""

import os
import re
import sys
from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_bytes
from typing import Annotated

import typer

from toolgate.audit import (
    ACTIONS,
    EXPORT_FORMATS,
    ChainSigner,
    SearchReport,
    compare_searches,
    subject_of,
    verify_audit,
)
from toolgate.base.ids import utc_text
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    note,
    plural,
    print_json,
    print_table,
    print_text,
    spinner,
)
from toolgate.errors import ArgumentError
from toolgate.settings import audit_files, read_audit_key
from toolgate.store import AuditFilter, StoreMaintenance, make_store
from toolgate.types import AuditRecord

app = CommandApp()

_PAGE_SIZE = 1000
"""Records read at a time (chosen: a few MB)."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Action = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="ACTION",
        help="Only records of this action, such as discover, call, list (tools/list) or login "
        "(refused logins).",
    ),
]
Server = Annotated[str | None, typer.Option("--server", metavar="NAME", help="Name of a server.")]
Status = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help="Only records with this status: ok, tool_error, or an error code such as timed_out.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only records since this local time (2026-07-28, 2026-07-28T09:30) or within this "
        "period (90m, 24h, 7d).",
    ),
]

Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Only records before this time (same format as --since)."
    ),
]
Tool = Annotated[
    str | None, typer.Option("--tool", metavar="KEY", help="Key of a tool: SERVER:TOOL.")
]
ByCaller = Annotated[
    str | None,
    typer.Option("--caller", metavar="ID", help="Caller, such as local or token:ID."),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="Name of a project.")
]
Failed = Annotated[bool, typer.Option("--failed", help="Only failures.")]


@app.command("list")
async def list_records(
    action: Action = None,
    server: Server = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    tool: Tool = None,
    caller: ByCaller = None,
    project: Project = None,
    failed: Failed = False,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=10_000, metavar="N", help="Maximum number of records."),
    ] = 50,
    before: Annotated[
        bool,
        typer.Option("--before", help="Also show the records written before each call starts."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the records as JSON, with all fields.")
    ] = False,
) -> int:
    """Show the last records, newest first. Exit status 3 if there are none.

    JSON: [{"record_id", "at", "action", "phase", "parent_id", "server", "target", "status", ...}]
    """
    selection = AuditFilter(
        action=_action(action),
        server=server,
        status=status,
        since=_parse_time(since),
        until=_parse_time(until, "--until"),
        target=tool,
        caller_id=caller,
        project_id=project,
        failed=failed,
        phase=None if before else "outcome",
        limit=limit,
    )
    records = [record async for record in _records(selection, selection.limit)]
    if as_json:
        print_json([asdict(record) for record in records])
    elif records:
        print_table(
            ("Time", "Action", "Target", "Status", "Duration", "Client"),
            [_row(record) for record in records],
            wrap=2,
            spare=("Client", "Duration"),
        )
    else:
        note("No matching records.")
    return SUCCESS if records else NO_RESULT


@app.command()
async def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output file; - is standard output.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Output format: jsonl (JSON Lines, all fields), csv, or ocsf (OCSF 1.3 events, "
            "one per line).",
        ),
    ] = "jsonl",
    action: Action = None,
    server: Server = None,
    status: Status = None,
    since: Since = None,
    until: Until = None,
    tool: Tool = None,
    caller: ByCaller = None,
    project: Project = None,
    failed: Failed = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> int:
    """Write all records to FILE, oldest first. Exit status 3 if there are none.

    JSON Lines records have the same fields as `audit list --json`.
    """
    if form not in EXPORT_FORMATS:
        raise ArgumentError(
            f"--format is {form[:40]!r}.", allowed=f"Allowed: {', '.join(EXPORT_FORMATS)}."
        )
    selection = AuditFilter(
        action=_action(action),
        server=server,
        status=status,
        since=_parse_time(since),
        until=_parse_time(until, "--until"),
        target=tool,
        caller_id=caller,
        project_id=project,
        failed=failed,
        oldest_first=True,
    )
    if str(file) == "-":
        return await _print_lines(selection, form)
    if file.exists() and not force:
        raise ArgumentError(
            f"The file {file} exists.", hint="Choose another one, or replace it with --force."
        )
    count = await _write(selection, file, form)
    note(f"Wrote {plural(count, 'record')} to {file}.")
    return SUCCESS if count else NO_RESULT


@app.command()
async def verify(
    as_json: AsJson = False,
) -> int:
    """Verify that no record was changed, removed or moved since it was written.

    Exit status 1 if the verification fails or the key is missing, 3 if there are no records.
    """
    url = store_url(load_settings())
    store = make_store(url)
    if not isinstance(store, StoreMaintenance) or not await store.exists():
        note("There is no audit log yet.")
        return NO_RESULT
    key = read_audit_key()
    await store.open()
    try:
        with spinner("Verifying the audit log"):
            # Without the key only the hash chain is checked, which proves little by itself.
            signer = ChainSigner(key or token_bytes(32), file=audit_files()[1])
            result = await verify_audit(store, signer)
    finally:
        await store.close()
    is_verifiable = key is not None and result.is_verifiable
    is_whole = is_verifiable and result.is_whole
    if as_json:
        print_json(result.as_json() | {"verifiable": is_verifiable, "whole": is_whole})
        return SUCCESS if is_whole else FAILED
    for restore in result.restores:
        print_text(f"Restored from {restore.file} at {local_time(restore.at)}.")
    for fault in result.faults:
        print_text(f"{fault.kind}: {fault.text}")
    if result.unchained:
        note(f"{plural(result.unchained, 'record')} from before signing: not verified.")
    if result.foreign:
        note(f"{plural(result.foreign, 'signature')} by other keys: not verified.")
    if not is_verifiable and result.records:
        reason = f"its key {audit_files()[0]} is missing" if key is None else "its key is another"
        note(
            f"The audit log cannot be verified: {reason}."
            " Copy audit.key back, or set TOOLGATE_AUDIT_KEY."
        )
        return FAILED
    if result.faults:
        note(f"{plural(result.records, 'record')} checked. The audit log was changed or damaged.")
        return FAILED
    if not result.records:
        note("There are no records to verify.")
        return NO_RESULT
    beyond = result.last - result.signed_through
    print_text(
        f"{plural(result.records, 'record')} verified, {result.first} to {result.last}: no changes."
        f" Signed up to {result.signed_through}"
        + (f"; the last {beyond} are not signed yet." if beyond else ".")
    )
    return SUCCESS


@app.command()
async def compare(
    since: Since = "7d",
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the numbers as JSON; the strategy `off` appears as null."
        ),
    ] = False,
) -> int:
    """Compare search strategies across recorded conversations: cost, time and success.

    With experiment_percent, a share of the conversations uses a different search strategy. A search
    counts as successful if one of the tools it returned was called afterwards. Exit status 3 if
    there are no searches.
    """
    store = make_store(store_url(load_settings()))
    reports: list[SearchReport] = []
    try:
        if not isinstance(store, StoreMaintenance) or await store.exists():
            await store.open()
            reports = await compare_searches(store, since=_parse_time(since))
    finally:
        await store.close()
    if as_json:
        print_json([report.as_json() for report in reports])
    elif reports:
        print_table(_COMPARISON_HEADINGS, [_comparison_row(report) for report in reports])
    else:
        note("There were no searches in this time, or the audit log is disabled.")
    return SUCCESS if reports else NO_RESULT


_COMPARISON_HEADINGS = (
    "Search",
    "Conversations",
    "Searches",
    "Success",
    "Empty",
    "Fallbacks",
    "Mean tokens",
    "Tokens",
    "ms p50",
    "ms p95",
)


def _comparison_row(report: SearchReport) -> tuple[str, ...]:
    return (
        report.optimization,
        f"{report.conversations:,}",
        f"{report.searches:,}",
        f"{report.executed_share:.0%}",
        f"{report.without_result:,}",
        f"{report.fallbacks:,}",
        f"{report.tokens_mean:,.0f}",
        f"{report.tokens:,}",
        f"{report.duration_ms_p50:.1f}",
        f"{report.duration_ms_p95:.1f}",
    )


async def _print_lines(selection: AuditFilter, form: str) -> int:
    head, line = EXPORT_FORMATS[form]
    count = 0
    async for record in _records(selection):
        sys.stdout.write(line(record) if count else head + line(record))
        count += 1
    return SUCCESS if count else NO_RESULT


async def _write(selection: AuditFilter, file: Path, form: str) -> int:
    """Write a file that only this user can read; leave no file on failure."""
    head, line = EXPORT_FORMATS[form]
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    count = 0
    try:
        handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as lines:
            lines.write(head)
            async for record in _records(selection):
                lines.write(line(record))
                count += 1
        partial.replace(file)
    except OSError as error:
        raise ArgumentError(f"The file {file} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


async def _records(selection: AuditFilter, limit: int | None = None) -> AsyncGenerator[AuditRecord]:
    """Read matching records, page by page, without creating a store."""
    store = make_store(store_url(load_settings()))
    try:
        if isinstance(store, StoreMaintenance) and not await store.exists():
            return
        await store.open()
        left = limit
        while left is None or left > 0:
            size = _PAGE_SIZE if left is None else min(left, _PAGE_SIZE)
            page = await store.audit.select(replace(selection, limit=size))
            for record in page:
                yield record
            if len(page) < size:
                return
            left = None if left is None else left - size
            selection = replace(selection, after=(page[-1].at, page[-1].record_id))
    finally:
        await store.close()


def _row(record: AuditRecord) -> tuple[str, ...]:
    duration = "-" if record.duration_ms is None else f"{record.duration_ms:.0f} ms"
    subject = subject_of(record) or "-"
    status = record.status if record.phase == "outcome" else "started"
    return local_time(record.at), record.action, subject, status, duration, record.client or "-"


def _action(text: str | None) -> str | None:
    if text is not None and text not in ACTIONS:
        raise ArgumentError(
            f"--action {text!r} is not an action.", allowed=f"Allowed: {', '.join(ACTIONS)}."
        )
    return text


def _parse_time(text: str | None, option: str = "--since") -> str | None:
    """Convert a time or an age to the format of the store."""
    if text is None:
        return None
    age = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    try:
        if age is not None:
            moment = datetime.now(UTC) - timedelta(seconds=int(age[1]) * _UNITS_S[age[2]])
        else:
            moment = datetime.fromisoformat(text)  # local time unless it names a zone
        return utc_text(moment)
    except (ValueError, OverflowError) as error:
        raise ArgumentError(
            f"{option} {text!r} is not a time.",
            allowed="Allowed: a time such as 2026-07-28 or 2026-07-28T09:30, an age such as 24h.",
        ) from error
