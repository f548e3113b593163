"""Rules for PostgreSQL, where functions, operators, types and even columns can be a user's code."""

from toolgate.databases.sql_guard.postgres.catalog import CatalogObject, PostgresCatalog
from toolgate.databases.sql_guard.postgres.keywords import is_clause
from toolgate.databases.sql_guard.postgres.rules import PostgresRules

__all__ = ["CatalogObject", "PostgresCatalog", "PostgresRules", "is_clause"]
