"""Write privileges of a database user, for warnings; Toolgate never writes."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

_MOST_NAMED: Final = 5
"""Names in a sentence (chosen: readable in one line)."""

_POSTGRES_ROLE: Final = """
SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls
FROM pg_roles WHERE rolname = current_user
"""
_POSTGRES_GROUPS: Final = """
SELECT rolname FROM pg_roles
WHERE rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files',
  'pg_execute_server_program', 'pg_signal_backend', 'pg_maintain', 'pg_checkpoint')
AND pg_has_role(current_user, oid, 'USAGE') ORDER BY rolname
"""
_POSTGRES_TABLES: Final = """
SELECT n.nspname || '.' || c.relname, p.name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN (VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) AS p (name)
WHERE c.relkind IN ('r', 'p', 'f', 'v') AND n.nspname NOT LIKE 'pg\\_%'
AND n.nspname <> 'information_schema' AND has_table_privilege(c.oid, p.name)
ORDER BY 2, 1
"""
_POSTGRES_SEQUENCES: Final = """
SELECT n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S' AND n.nspname NOT LIKE 'pg\\_%'
AND (has_sequence_privilege(c.oid, 'USAGE') OR has_sequence_privilege(c.oid, 'UPDATE'))
ORDER BY 1
"""
_POSTGRES_SCHEMAS: Final = """
SELECT nspname FROM pg_namespace
WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
AND has_schema_privilege(oid, 'CREATE') ORDER BY 1
"""
_POSTGRES_DATABASE: Final = """
SELECT has_database_privilege(current_database(), 'CREATE'),
  has_database_privilege(current_database(), 'TEMPORARY')
"""
_MYSQL: Final = """
SELECT privilege_type, '*.*' FROM information_schema.user_privileges
UNION SELECT privilege_type, concat(table_schema, '.*') FROM information_schema.schema_privileges
UNION SELECT privilege_type, concat(table_schema, '.', table_name)
FROM information_schema.table_privileges
"""
_ORACLE: Final = """
SELECT privilege, 'system' FROM session_privs
UNION SELECT privilege, owner || '.' || table_name FROM all_tab_privs
WHERE grantee IN (SELECT user FROM dual UNION SELECT role FROM session_roles)
"""
_HARMLESS: Final = frozenset(
    {
        *("SELECT", "USAGE", "SHOW VIEW", "SHOW DATABASES", "PROCESS", "REFERENCES"),
        *("CREATE SESSION", "READ", "SELECT ANY TABLE", "SELECT ANY DICTIONARY", "READ ANY TABLE"),
        *("FLASHBACK", "QUERY REWRITE", "ON COMMIT REFRESH", "DEBUG", "INHERIT PRIVILEGES"),
    }
)


def write_privileges(opened: sa.Connection) -> list[str]:
    """What the user of a connection may change, in short phrases; empty: nothing, or unknown."""
    find = _BY_DIALECT.get(opened.dialect.name)
    return [] if find is None else list(find(opened))


def _sqlite(opened: sa.Connection) -> Iterator[str]:
    rows = _rows(opened, "SELECT file FROM pragma_database_list WHERE name = 'main'")
    path = Path(str(rows[0][0])) if rows and rows[0][0] else None
    if path is not None and os.access(path, os.W_OK):
        yield "its file may be written by the user that Toolgate runs as"


def _postgres(opened: sa.Connection) -> Iterator[str]:
    is_super, *flags = _rows(opened, _POSTGRES_ROLE)[0]
    if is_super:
        yield "superuser: everything"
        return
    words = ("CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS")
    yield from (word for word, has in zip(words, flags, strict=True) if has)
    for (name,) in _rows(opened, _POSTGRES_GROUPS):
        yield f"member of {name}"
    tables: dict[str, list[str]] = {}
    for table, privilege in _rows(opened, _POSTGRES_TABLES):
        tables.setdefault(privilege, []).append(table)
    for privilege, names in tables.items():
        yield f"{privilege} on {_named(names)}"
    if sequences := [name for (name,) in _rows(opened, _POSTGRES_SEQUENCES)]:
        yield f"USAGE or UPDATE on {_named(sequences)}"
    if schemas := [name for (name,) in _rows(opened, _POSTGRES_SCHEMAS)]:
        yield f"CREATE in {_named(schemas)}"
    may_create, may_temp = _rows(opened, _POSTGRES_DATABASE)[0]
    if may_create:
        yield "CREATE in the database"
    if may_temp:
        yield "TEMPORARY tables"


def _granted(statement: str) -> Callable[[sa.Connection], Iterator[str]]:
    def find(opened: sa.Connection) -> Iterator[str]:
        privileges: dict[str, list[str]] = {}
        for privilege, where in _rows(opened, statement):
            if str(privilege).upper() not in _HARMLESS:
                privileges.setdefault(str(privilege), []).append(str(where))
        for privilege, places in sorted(privileges.items()):
            yield f"{privilege} on {_named(sorted(places))}"

    return find


_BY_DIALECT: Final[Mapping[str, Callable[[sa.Connection], Iterator[str]]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "mysql": _granted(_MYSQL),
    "mariadb": _granted(_MYSQL),
    "oracle": _granted(_ORACLE),
}


def _rows(opened: sa.Connection, statement: str) -> list[Any]:
    return list(opened.execute(sa.text(statement)).all())


def _named(names: list[str]) -> str:
    listed = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{listed} and {more:,} more" if more > 0 else listed
