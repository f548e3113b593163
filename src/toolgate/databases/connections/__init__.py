"""Connected databases, and the history of their schemas."""

from toolgate.databases.connections.connection import Connection, Connections
from toolgate.databases.connections.diagram import mermaid_diagram
from toolgate.databases.connections.postgres_catalog import read_postgres_catalog
from toolgate.databases.connections.privileges import write_privileges
from toolgate.databases.connections.relations import Relation, estimated_rows, relations
from toolgate.databases.connections.schema import (
    ColumnSchema,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    TableKind,
    TableSchema,
)
from toolgate.databases.connections.schema_diff import (
    Action,
    SchemaChange,
    Subject,
    changes_between,
    with_unread,
)
from toolgate.databases.connections.schema_history import (
    Changelog,
    ChangelogEntry,
    SchemaHistory,
    SchemaVersion,
)
from toolgate.databases.connections.table_names import said_as, singular, words_of
from toolgate.databases.statements import QueryLimits, QueryResult, ResultColumn

__all__ = [
    "Action",
    "Changelog",
    "ChangelogEntry",
    "ColumnSchema",
    "Connection",
    "Connections",
    "ForeignKey",
    "Index",
    "NamedType",
    "QueryLimits",
    "QueryResult",
    "Relation",
    "ResultColumn",
    "Schema",
    "SchemaChange",
    "SchemaHistory",
    "SchemaVersion",
    "Subject",
    "TableKind",
    "TableSchema",
    "changes_between",
    "estimated_rows",
    "mermaid_diagram",
    "read_postgres_catalog",
    "relations",
    "said_as",
    "singular",
    "with_unread",
    "words_of",
    "write_privileges",
]
