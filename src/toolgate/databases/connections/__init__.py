"""Named databases of the settings, and the history of their schemas."""

from toolgate.databases.connections.connection import Connection, Connections
from toolgate.databases.connections.inspect import read_schema
from toolgate.databases.connections.privileges import write_privileges
from toolgate.databases.connections.query import Limits, ResultColumn, Rows
from toolgate.databases.connections.relations import Relation, estimated_rows, relations
from toolgate.databases.connections.schema import (
    Column,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    Table,
    TableKind,
)
from toolgate.databases.connections.schema_diff import (
    Action,
    Change,
    Subject,
    changes_between,
    with_unread,
)
from toolgate.databases.connections.schema_history import Changelog, Entry, SchemaHistory, Version
from toolgate.databases.connections.table_names import said_as, singular, words_of

__all__ = [
    "Action",
    "Change",
    "Changelog",
    "Column",
    "Connection",
    "Connections",
    "Entry",
    "ForeignKey",
    "Index",
    "Limits",
    "NamedType",
    "Relation",
    "ResultColumn",
    "Rows",
    "Schema",
    "SchemaHistory",
    "Subject",
    "Table",
    "TableKind",
    "Version",
    "changes_between",
    "estimated_rows",
    "read_schema",
    "relations",
    "said_as",
    "singular",
    "with_unread",
    "words_of",
    "write_privileges",
]
