"""Columns of PostgreSQL's system tables, views and functions."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


def system_columns(schema: str, table: str) -> frozenset[str] | None:
    """Return columns of a `pg_catalog` or `information_schema` relation; None for others."""
    if schema not in {"", "pg_catalog", "information_schema"}:
        return None
    return _columns().get(f"{schema}.{table}" if schema == "information_schema" else table)


def output_columns(function: str) -> frozenset[str]:
    """Return the named output columns of a `pg_catalog` function."""
    return _columns().get(f"{function}()", frozenset())


@cache
def _columns() -> Mapping[str, frozenset[str]]:
    text = files("toolgate.databases.sql_guard.postgres").joinpath("columns.txt").read_text("utf-8")
    columns: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            names = columns.setdefault(line.partition(": ")[0], [])
        names += line.rpartition(": ")[2].split()
    return {name: frozenset(names) for name, names in columns.items()}
