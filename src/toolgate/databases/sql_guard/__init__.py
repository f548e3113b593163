"""The SQL guard: decides whether a statement only reads, before it is sent to a database.

A statement is read by a lexer with the rules of its database and by a parser, which must agree
on what is a string. Then every node of its tree and every function has to be known as harmless.
Anything unknown is refused.
"""

from toolgate.databases.sql_guard.dialects import DIALECTS, Dialect, dialect_named
from toolgate.databases.sql_guard.postgres import CatalogObject, PostgresCatalog
from toolgate.databases.sql_guard.postgres.names import PostgresNames, named_in
from toolgate.databases.sql_guard.read_only_check import check_statement, mask_values
from toolgate.databases.sql_guard.verdict import StatementKind, StatementVerdict

__all__ = [
    "DIALECTS",
    "CatalogObject",
    "Dialect",
    "PostgresCatalog",
    "PostgresNames",
    "StatementKind",
    "StatementVerdict",
    "check_statement",
    "dialect_named",
    "mask_values",
    "named_in",
]
