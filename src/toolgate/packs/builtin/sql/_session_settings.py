"""Reads version and session settings of a database."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from toolgate.types import Json

_VERSIONS: Final[Mapping[str, str]] = {
    "sqlite": "SELECT sqlite_version()",
    "postgresql": "SELECT current_setting('server_version')",
    "mysql": "SELECT version()",
    "mariadb": "SELECT version()",
    "duckdb": "SELECT version()",
    "oracle": "SELECT version_full FROM product_component_version WHERE rownum = 1",
}

_FACTS: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {"encoding": "SELECT * FROM pragma_encoding"},
    "postgresql": {
        "user": "SELECT current_user",
        "database": "SELECT current_database()",
        "schema": "SELECT current_schema()",
        "transaction_read_only": "SELECT current_setting('transaction_read_only')",
        "isolation": "SELECT current_setting('transaction_isolation')",
        "statement_timeout": "SELECT current_setting('statement_timeout')",
        "application_name": "SELECT current_setting('application_name')",
    },
    "mysql": {
        "user": "SELECT current_user()",
        "database": "SELECT database()",
        "transaction_read_only": "SELECT @@transaction_read_only",
        "statement_timeout": "SELECT @@max_execution_time",
    },
    "duckdb": {"database": "SELECT current_database()", "schema": "SELECT current_schema()"},
    "oracle": {
        "user": "SELECT user FROM dual",
        "schema": "SELECT sys_context('userenv', 'current_schema') FROM dual",
        "database": "SELECT sys_context('userenv', 'db_name') FROM dual",
        "module": "SELECT sys_context('userenv', 'module') FROM dual",
        "action": "SELECT sys_context('userenv', 'action') FROM dual",
    },
}


def server_version(opened: sa.Connection) -> str:
    """Return the version of the database; empty if unknown."""
    statement = _VERSIONS.get(opened.dialect.name, "SELECT 1")
    version = opened.execute(sa.text(statement)).scalar()
    return str(version) if opened.dialect.name in _VERSIONS else ""


def session_facts(opened: sa.Connection) -> Json:
    """Return the settings of the session; unknown ones are left out."""
    facts: dict[str, Any] = {
        "server_version": server_version(opened),
        "read_only": True,
    }
    for name, statement in _FACTS.get(opened.dialect.name, {}).items():
        try:
            facts[name] = opened.execute(sa.text(statement)).scalar()
        except SQLAlchemyError:
            break  # a failed transaction answers no further queries
    return facts
