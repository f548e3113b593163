"""`toolgate pack sql`: functions of the pack that need no gateway."""

import json
import sys
from pathlib import Path
from typing import IO, Annotated, cast

import typer

from toolgate.databases.sql_guard import DIALECTS, check_statement, dialect_named
from toolgate.errors import ArgumentError

app = typer.Typer(help="Inspect SQL statements.", no_args_is_help=True)

_LONGEST = 4_000_000
"""Bytes of a statement (chosen: above dumps that people paste)."""


@app.callback()
def group() -> None:
    """Inspect SQL statements."""


@app.command()
def check(
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect", metavar="NAME", help="postgres, sqlite, oracle, mysql, duckdb, or any."
        ),
    ],
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="JSON Lines file. Default: standard input."),
    ] = None,
    functions: Annotated[
        list[str] | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="Also allow this user-defined function, which must have no side effects.",
        ),
    ] = None,
    as_json: Annotated[  # noqa: ARG001, FBT002
        bool, typer.Option("--json", help="No effect: the output is always JSON Lines.")
    ] = False,
) -> int:
    """Check whether each input is exactly one read-only SQL statement.

    Each line of input is {"id", "sql"}; each line of output {"id", "allowed", "reason"}, in the
    same order. For PostgreSQL a line can list the columns of each table, as "columns": {"orders":
    ["id", "total"]}. With it, t.f is allowed only if f is one of the listed columns of t; otherwise
    PostgreSQL might call a function f. The exit status is 0 whatever the results, or 2 if a line
    cannot be read. No database is needed.
    """
    if dialect.strip().lower() != "any" and dialect_named(dialect) is None:
        raise ArgumentError(
            f"There is no dialect {dialect!r}.",
            allowed=f"Dialects: {', '.join(d.name for d in DIALECTS)}; any is all of them.",
            hint="Name one of these.",
        )
    if path is not None and not path.is_file():
        raise ArgumentError(f"There is no file {str(path)!r}.", hint="Choose another.")
    bad = 0
    with _opened(path) as lines:
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                key, sql, columns = _statement(text)
            except ValueError as error:
                bad += 1
                typer.echo(f"Line {number} cannot be read: {error}.", err=True)
                continue
            verdict = check_statement(sql, dialect, functions=functions or (), columns=columns)
            row = {"id": key, "allowed": verdict.allowed, "reason": verdict.reason}
            typer.echo(json.dumps(row))
    return 2 if bad else 0


def _opened(path: Path | None) -> IO[bytes]:
    return sys.stdin.buffer if path is None else path.open("rb")


def _statement(line: bytes) -> tuple[object, str, dict[str, list[str]] | None]:
    """Parse a line into id, statement and known columns.

    Raises:
        ValueError: The line is invalid.
    """
    if len(line) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST:,} bytes")
    try:
        value: object = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({str(error)[:100]})") from None
    row: dict[str, object] | None = (
        cast("dict[str, object]", value) if isinstance(value, dict) else None
    )
    if row is None:
        raise ValueError('it is not an object; expected {"id": …, "sql": …}')
    sql = row.get("sql")
    if not isinstance(sql, str):
        raise ValueError('it has no text "sql"')  # noqa: TRY004
    if "id" not in row:
        raise ValueError('it has no "id"')
    return row["id"], sql, _columns(row.get("columns"))


def _columns(value: object) -> dict[str, list[str]] | None:
    """Parse the known columns by table; None if none were given.

    Raises:
        ValueError: They have another format.
    """
    if value is None:
        return None
    tables = cast("dict[str, object]", value) if isinstance(value, dict) else {"": None}
    columns: dict[str, list[str]] = {}
    for table, names in tables.items():
        texts = cast("list[object]", names) if isinstance(names, list) else [None]
        if not all(isinstance(name, str) for name in texts):
            raise ValueError(
                'its "columns" are not lists of strings by table: {"table": ["name", …]}'
            )
        columns[table] = cast("list[str]", texts)
    return columns
