"""Lists the tables and views of a database, fast for any number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.exc import SQLAlchemyError

from toolgate.databases.connections.inspect import schemas_of


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table or a view."""

    name: str
    """Its name in the database."""

    kind: str
    """`table`, `view` or `materialized view`."""

    schema: str = ""
    """Its schema; empty: the default schema."""

    comment: str = ""
    """Its comment in the database."""

    @property
    def full_name(self) -> str:
        """The name, qualified if it is not in the default schema."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


def relations(
    opened: sa.Connection, *, schemas: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Relation]:
    """All tables and views, by name.

    Args:
        opened: An open connection.
        schemas: As in the settings; one that is named stays in the names.
        exclude: Patterns of tables that are left out.
    """
    inspector: Inspector = sa.inspect(opened)
    all_relations: list[Relation] = []
    for schema in schemas_of(inspector, schemas):
        comments = _comments(inspector, schema)
        for kind, names in _names(inspector, schema):
            all_relations += [
                Relation(name=name, kind=kind, schema=schema or "", comment=comments.get(name, ""))
                for name in names
            ]
    included = [match for match in all_relations if not _is_out(match.full_name, exclude)]
    return sorted(included, key=lambda item: item.full_name)


def estimated_rows(opened: sa.Connection, schema: str, name: str) -> int | None:
    """Rows that a table has, as the database last noted; None: it does not say."""
    statement = _ESTIMATES.get(opened.dialect.name)
    if statement is None:
        return None
    values = {"schema": schema or opened.dialect.default_schema_name or "", "name": name}
    with suppress(SQLAlchemyError), opened.begin_nested():
        count = opened.execute(sa.text(statement), values).scalar()
        return None if count is None or int(count) < 0 else int(count)
    return None


_ESTIMATES: Final[Mapping[str, str]] = {
    "sqlite": "SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = :name",
    "postgresql": "SELECT c.reltuples::bigint FROM pg_class c JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :name",
    "mysql": "SELECT table_rows FROM information_schema.tables "
    "WHERE table_schema = :schema AND table_name = :name",
    "mariadb": "SELECT table_rows FROM information_schema.tables "
    "WHERE table_schema = :schema AND table_name = :name",
    "oracle": "SELECT num_rows FROM all_tables WHERE owner = upper(:schema) "
    "AND table_name = upper(:name)",
    "duckdb": "SELECT estimated_size FROM duckdb_tables() WHERE table_name = :name",
}


def _names(inspector: Inspector, schema: str | None) -> Iterator[tuple[str, Iterable[str]]]:
    yield "table", inspector.get_table_names(schema)
    yield "view", inspector.get_view_names(schema)
    with suppress(NotImplementedError):
        yield "materialized view", inspector.get_materialized_view_names(schema)


def _comments(inspector: Inspector, schema: str | None) -> Mapping[str, str]:
    with suppress(NotImplementedError, SQLAlchemyError):
        comments = inspector.get_multi_table_comment(schema)
        return {str(key[1]): passage["text"] or "" for key, passage in comments.items()}
    return {}


def _is_out(name: str, exclude: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in exclude)
