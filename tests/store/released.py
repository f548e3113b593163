"""Stores as released versions left them: one function for each schema, never changed afterwards."""

import zlib
from collections.abc import Callable

from sqlalchemy import Connection, MetaData, insert, text

from toolgate.store import StoredResult, StoredServer, StoredSnapshot
from toolgate.store.engine import schema_version, tables
from toolgate.types import AuditRecord

SERVER = StoredServer(
    server_id="01", project_id="default", name="git", config={"command": "git"}, alias="old"
)
SNAPSHOT = StoredSnapshot(
    project_id="default",
    server="git",
    listing=b'{"tools":[]}',
    digest="d1",
    listed_at="2026-07-28T12:00:00.000Z",
)
RESULT = StoredResult(
    handle="h1",
    project_id="default",
    caller_id="local",
    body=b"a long text",
    expires_at="2026-07-28T13:00:00.000Z",
)
AUDIT = AuditRecord(
    record_id="a1",
    at="2026-07-28T12:00:00.000Z",
    action="call",
    server="git",
    target="git:log",
    query="nul \x00",
    duration_ms=1.5,
    request_bytes=2**40,
    detail={"shown": [["git:log", 0.5]]},
)
SECRET = bytes(range(32))

_VALUES = {str: "default", int: 1, float: 0.5, bytes: b"1", bool: False}
"""By type; the same in every table, so that rows refer to one another."""


def build_0025(connection: Connection) -> None:
    """The first schema, with a row in every table."""
    schema_version.migrate(connection, to="0025")
    for statement, values in (
        (
            "INSERT INTO servers (server_id, project_id, name, config, enabled, alias)"
            " VALUES ('01', 'default', 'git', :config, :enabled, 'old')",
            {"config": '{"command":"git"}', "enabled": True},
        ),
        (
            "INSERT INTO snapshots (project_id, server, listing, digest, listed_at, seen_at) VALUES"
            " ('default', 'git', :listing, 'd1', :now, :now)",
            {"listing": zlib.compress(b'{"tools":[]}'), "now": "2026-07-28T12:00:00.000Z"},
        ),
        (
            "INSERT INTO results (handle, project_id, caller_id, body, size_bytes, expires_at)"
            " VALUES ('h1', 'default', 'local', :body, 11, :expires)",
            {"body": b"a long text", "expires": "2026-07-28T13:00:00.000Z"},
        ),
        (
            "INSERT INTO audit (record_id, at, action, phase, project_id, caller_id, client,"
            " conversation, request_id, server, target, query, status, duration_ms, request_bytes,"
            " detail, size_bytes) VALUES ('a1', :now, 'call', 'outcome', 'default', 'local', '',"
            " '', '', 'git', :target, :query, 'ok', 1.5, 1099511627776, :detail, 300)",
            {
                "now": "2026-07-28T12:00:00.000Z",
                "target": "git:log",
                "query": "nul \x1a0000",
                "detail": '{"shown":[["git:log",0.5]]}',
            },
        ),
        (
            "INSERT INTO secrets (name, value, created_at) VALUES ('installation', :value, :now)",
            {"value": bytes(range(32)), "now": "2026-07-28T12:00:00.000Z"},
        ),
    ):
        connection.execute(text(statement), values)
    reflected = MetaData()
    reflected.reflect(connection)
    for table in reflected.sorted_tables:
        if table.name != tables.VERSION_TABLE and not connection.execute(table.select()).first():
            row = {column.name: _VALUES[column.type.python_type] for column in table.columns}
            connection.execute(insert(table), row)


BUILDERS: dict[str, Callable[[Connection], None]] = {"0025": build_0025}
"""By revision; a new schema that is released gets a line here."""
