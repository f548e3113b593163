"""Named databases of the settings, and the history of their schemas."""

from toolgate.connections._asking import Limits, ResultColumn, Rows
from toolgate.connections._changes import Action, Change, Subject, changes_between, with_unread
from toolgate.connections._connection import Connection, Connections
from toolgate.connections._history import Changelog, Entry, SchemaHistory, Version
from toolgate.connections._inspect import read_schema
from toolgate.connections._names import said_as, singular, words_of
from toolgate.connections._privileges import write_privileges
from toolgate.connections._relations import Relation, estimated_rows, relations
from toolgate.connections._schema import (
    Column,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    Table,
    TableKind,
)

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
