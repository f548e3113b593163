"""Rules for PostgreSQL, where functions, operators, types and even columns can run user code."""

from toolgate.databases.sql_guard.postgres.keywords import Clauses
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.postgres.user_defined import CatalogObject, PostgresCatalog

__all__ = ["CatalogObject", "Clauses", "PostgresCatalog", "PostgresRules"]
