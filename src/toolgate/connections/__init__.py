"""Named databases of the settings, and the history of their schemas."""

from toolgate.connections._asking import Limits, ResultColumn, Rows
from toolgate.connections._changes import Action, Change, Subject, changes_between, with_unread
from toolgate.connections._connection import Connection, Connections
from toolgate.connections._history import Changelog, Entry, SchemaHistory, Version
from toolgate.connections._inspect import read_schema
from toolgate.connections._names import said_as, singular, words_of
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
    "ResultColumn",
    "Rows",
    "Schema",
    "SchemaHistory",
    "Subject",
    "Table",
    "TableKind",
    "Version",
    "changes_between",
    "read_schema",
    "said_as",
    "singular",
    "with_unread",
    "words_of",
]
