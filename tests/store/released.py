"""Stores as released versions left them: one function for each schema, never changed afterwards."""

import zlib
from collections.abc import Callable

from sqlalchemy import Connection, text

from toolgate.store import StoredResult, StoredServer, StoredSnapshot
from toolgate.store.engine import schema_version
from toolgate.types import AuditRecord

__all__ = ["AUDIT", "BUILDERS", "RESULT", "SECRET", "SERVER", "SNAPSHOT"]

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


def build_0001(connection: Connection) -> None:
    """The first schema, with a row in every table."""
    schema_version.migrate(connection, to="0001")
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


def build_0002(connection: Connection) -> None:
    """Vectors came: a model, a vector and the text of a tool."""
    build_0001(connection)
    schema_version.migrate(connection, to="0002")
    now = "2026-11-22T12:00:00.000Z"
    for statement, values in (
        (
            "INSERT INTO vector_models (model_id, model, dim, used_at) VALUES (1, 'm', 2, :now)",
            {"now": now},
        ),
        (
            "INSERT INTO vectors (model_id, text_hash, vector, stored_at)"
            " VALUES (1, :hash, :vector, :now)",
            {"hash": bytes(16), "vector": b"\x00\x3c\x00\x00", "now": now},
        ),
        (
            "INSERT INTO tool_texts (project_id, server, tool, text_hash, description, enriched,"
            " definition_hash, created_at, updated_at) VALUES"
            " ('default', 'git', 'log', :hash, 'Log.', 'git log: Log.', 'd1', :now, :now)",
            {"hash": bytes(16), "now": now},
        ),
    ):
        connection.execute(text(statement), values)


def build_0003(connection: Connection) -> None:
    """The usage log came: a search and what became of a tool that it showed."""
    build_0002(connection)
    schema_version.migrate(connection, to="0003")
    now = "2026-11-22T12:00:00.000Z"
    for statement, values in (
        (
            "INSERT INTO usage_searches (search_id, at, project_id, caller_id, conversation, model,"
            " vector, shown, margin, weak, query, size_bytes) VALUES ('s1', :now, 'default',"
            " 'local', 'c', 'm', :vector, :shown, 0.5, :weak, NULL, 300)",
            {
                "now": now,
                "vector": b"\x00\x3c\x00\x00",
                "shown": '[["git:log",0.5]]',
                "weak": False,
            },
        ),
        (
            "INSERT INTO usage_uses (use_id, search_id, at, project_id, tool, outcome) VALUES"
            " ('u1', 's1', :now, 'default', 'git:log', 'ok')",
            {"now": now},
        ),
    ):
        connection.execute(text(statement), values)


def build_0004(connection: Connection) -> None:
    """With projects that set something, tokens and permission rules."""
    build_0003(connection)
    schema_version.migrate(connection, to="0004")
    now = "2026-11-22T12:00:00.000Z"
    for statement, values in (
        ("UPDATE projects SET settings = :settings", {"settings": '{"read_only":true}'}),
        (
            "INSERT INTO tokens (token_id, name, prefix, digest, user_name, details, created_at)"
            " VALUES ('t1', 'anna', 'tg_abcd', 'd', '', :details, :now)",
            {"details": '{"projects":["default"],"roles":["member"]}', "now": now},
        ),
        (
            "INSERT INTO permissions (permission_id, effect, who, kind, pattern, hint, created_at)"
            " VALUES ('p1', 'allow', 'everyone', 'any', '*', '', :now)",
            {"now": now},
        ),
        ("INSERT INTO access_state (state_id, version) VALUES (1, 3)", {}),
    ):
        connection.execute(text(statement), values)


def build_0005(connection: Connection) -> None:
    """With a version of the schema of a connection."""
    build_0004(connection)
    schema_version.migrate(connection, to="0005")
    connection.execute(
        text(
            "INSERT INTO schema_versions (version_id, project_id, connection, number, digest, at,"
            " seen_at, content, changes, size_bytes) VALUES"
            " ('v1', 'default', 'shop', 1, 'd', :now, :now, :packed, :packed, 20)"
        ),
        {"now": "2026-11-22T12:00:00.000Z", "packed": zlib.compress(b"[]")},
    )


def build_0006(connection: Connection) -> None:
    """With what a message was taken for."""
    build_0005(connection)
    schema_version.migrate(connection, to="0006")
    connection.execute(
        text(
            "INSERT INTO detections (detection_id, at, project_id, caller_id, conversation, door,"
            " outcome, stage, intent, confidence, rival, rival_confidence, called, remembered,"
            " message, size_bytes) VALUES ('d1', :now, 'default', 'local', '', 'detect', 'found',"
            " 'semantic', 'refunds', 0.9, '', 0.0, '', :no, 'money back', 200)"
        ),
        {"now": "2026-11-22T12:00:00.000Z", "no": False},
    )


def build_0007(connection: Connection) -> None:
    """With a tool that was seen."""
    build_0006(connection)
    schema_version.migrate(connection, to="0007")
    connection.execute(
        text(
            "INSERT INTO seen_tools (project_id, server, tool, digest, definition,"
            " accepted_digest, accepted, state, findings, seen_at, decided_at, decided_by) VALUES"
            " ('default', 'git', 'log', 'd', :packed, 'd', :packed, 'accepted', '[]', :now, '', '')"
        ),
        {"now": "2026-11-22T12:00:00.000Z", "packed": zlib.compress(b"{}")},
    )


def build_0008(connection: Connection) -> None:
    """With a chain of one record, which somebody has signed."""
    build_0007(connection)
    schema_version.migrate(connection, to="0008")
    for statement in (
        "INSERT INTO audit_state (state_id, seq, chain, removed_seq, removed_chain) VALUES"
        " (1, 1, 'c', 0, '')",
        "INSERT INTO audit_anchors (seq, kind, chain, at, key_id, signature) VALUES"
        " (1, 'end', 'c', '2026-11-22T12:00:00.000Z', 'k', 's')",
    ):
        connection.execute(text(statement))


def build_0009(connection: Connection) -> None:
    """With a credential and the key that it is encrypted with."""
    build_0008(connection)
    schema_version.migrate(connection, to="0009")
    connection.execute(
        text(
            "INSERT INTO credential_keys (key_id, wrapped_by, wrapped, created_at) VALUES"
            " ('k1', 'w1', :bytes, '2026-11-22T12:00:00.000Z')"
        ),
        {"bytes": b"wrapped"},
    )
    connection.execute(
        text(
            "INSERT INTO credentials (project_id, server, subject, kind, key_id, sealed, shown,"
            " version, lease_by, lease_until, updated_at) VALUES ('default', 'git', 'user:anna',"
            " 'login', 'k1', :bytes, '{}', 1, '', '', '2026-11-22T12:00:00.000Z')"
        ),
        {"bytes": b"sealed"},
    )


def build_0010(connection: Connection) -> None:
    """With a call that waited for a person."""
    build_0009(connection)
    schema_version.migrate(connection, to="0010")
    connection.execute(
        text(
            "INSERT INTO approvals (approval_id, slot, binding, project_id, caller_id, who, client,"
            " conversation, tool, digest, arguments, arguments_sha256, reason, approver, state,"
            " created_at, expires_at, decided_by, decided_via, comment, step, record_id) VALUES"
            " ('a1', 'b', 'b', 'default', 'local', 'local', '', '', 'git:push', 'd', '{}', 'h', '',"
            " 'user', 'waiting', :now, :now, '', '', '', 0, '')"
        ),
        {"now": "2026-11-22T12:00:00.000Z"},
    )


def build_0013(connection: Connection) -> None:
    """With somebody who has logged in to the console."""
    build_0010(connection)
    schema_version.migrate(connection, to="0013")
    connection.execute(
        text(
            "INSERT INTO sessions (session_id, caller_id, name, sealed, created_at, seen_at,"
            " expires_at, address, agent) VALUES ('s1', 'token:t1', 'anna', :bytes, :now, :now,"
            " :now, '127.0.0.1', 'a browser')"
        ),
        {"bytes": b"sealed", "now": "2026-11-22T12:00:00.000Z"},
    )


def build_0012(connection: Connection) -> None:
    """With a document of one passage."""
    build_0013(connection)
    schema_version.migrate(connection, to="0012")
    for statement in (
        "INSERT INTO document_collections (collection_id, project_id, name, name_key, alias,"
        " description, model, model_identity, dim, metric, place, shelf_id, version, updated_at)"
        " VALUES ('c1', 'default', 'Docs', 'docs', '', '', 'bundled', 'm', 2, 'cosine', 'sqlite',"
        " 's1', 1, '2026-11-22T12:00:00.000Z')",
        "INSERT INTO documents (document_id, collection_id, origin, source, title, media_type,"
        " content_hash, size_bytes, passages, added_at) VALUES ('d1', 'c1', '', 'a.md', '', '',"
        " 'h', 1, 1, '2026-11-22T12:00:00.000Z')",
        "INSERT INTO passages (passage_id, collection_id, document_id, ordinal, heading, page,"
        " text, words, length) VALUES (1, 'c1', 'd1', 0, '', 1, 'A', 'collectionc1 a', 1)",
    ):
        connection.execute(text(statement))
    connection.execute(
        text(
            "INSERT INTO passage_vectors (shelf_id, passage_id, collection_id, document_id, vector)"
            " VALUES ('s1', 1, 'c1', 'd1', :bytes)"
        ),
        {"bytes": b"1234"},
    )


def build_0011(connection: Connection) -> None:
    """With a thread of one message, and a text in place of a prompt."""
    build_0012(connection)
    schema_version.migrate(connection, to="0011")
    now = "2026-11-22T12:00:00.000Z"
    for statement in (
        "INSERT INTO threads (thread_id, project_id, caller_id, name, settings, state, last_number,"
        " running, running_until, created_at, used_at, size_bytes) VALUES ('t1', 'default',"
        " 'local', 'mine', '{}', '{}', 1, '', '', :now, :now, 200)",
        "INSERT INTO thread_messages (thread_id, number, turn_id, role, body, notes, at) VALUES"
        " ('t1', 1, 'u1', 'user', '{\"content\":\"Hello\"}', '{}', :now)",
        "INSERT INTO prompt_versions (project_id, name, version, text, changed_at, changed_by)"
        " VALUES ('default', 'basic-default', 1, 'Be brief.', :now, 'local')",
    ):
        connection.execute(text(statement), {"now": now})


def build_0014(connection: Connection) -> None:
    """With a statement that was run."""
    build_0011(connection)
    schema_version.migrate(connection, to="0014")
    connection.execute(
        text(
            "INSERT INTO statements (statement_id, at, project_id, caller_id, conversation,"
            " connection, dialect, tool, statement, outcome, reason, rows, elapsed_ms, size_bytes)"
            " VALUES ('q1', :now, 'default', 'local', '', 'shop', 'sqlite', 'query', 'SELECT 1',"
            " 'done', '', 1, 0.5, 200)"
        ),
        {"now": "2026-11-22T12:00:00.000Z"},
    )


def build_0015(connection: Connection) -> None:
    """With indexes by which records of the audit are found."""
    build_0014(connection)
    schema_version.migrate(connection, to="0015")


def build_0016(connection: Connection) -> None:
    """With a guard."""
    build_0015(connection)
    schema_version.migrate(connection, to="0016")
    connection.execute(
        text("INSERT INTO guards (guard_id, settings, created_at) VALUES ('g1', :settings, :now)"),
        {"settings": '{"approver":"user"}', "now": "2026-11-22T12:00:00.000Z"},
    )


def build_0017(connection: Connection) -> None:
    """With a definition of a tool that was replaced."""
    build_0016(connection)
    schema_version.migrate(connection, to="0017")
    connection.execute(
        text(
            "INSERT INTO tool_versions (version_id, project_id, server, tool, definition, state,"
            " seen_at, replaced_at, size_bytes)"
            " VALUES ('v1', 'default', 'git', 'log', :definition, 'accepted', :now, :now, 300)"
        ),
        {"definition": zlib.compress(b'{"name":"log"}'), "now": "2026-11-22T12:00:00.000Z"},
    )


def build_0018(connection: Connection) -> None:
    """With an index of failures."""
    build_0017(connection)
    schema_version.migrate(connection, to="0018")


def build_0019(connection: Connection) -> None:
    """With a signed restore, and a process that writes the audit."""
    build_0018(connection)
    schema_version.migrate(connection, to="0019")
    for statement in (
        "INSERT INTO audit_anchors (seq, kind, chain, at, key_id, signature, detail) VALUES"
        " (2, 'restored', 'c', '2026-11-23T12:00:00.000Z', 'k', 's', '{}')",
        "INSERT INTO audit_writers (writer_id, started_at, seen_at) VALUES"
        " ('w1', '2026-11-23T12:00:00.000Z', '2026-11-23T12:00:00.000Z')",
    ):
        connection.execute(text(statement))


def build_0020(connection: Connection) -> None:
    """With a prompt that was seen."""
    build_0019(connection)
    schema_version.migrate(connection, to="0020")
    connection.execute(
        text(
            "INSERT INTO seen_entries (project_id, server, kind, name, digest, definition,"
            " accepted_digest, accepted, state, findings, seen_at, decided_at, decided_by) VALUES"
            " ('default', 'git', 'prompt', 'log', 'd', :packed, 'd', :packed, 'accepted', '[]',"
            " :now, '', '')"
        ),
        {"now": "2026-11-24T12:00:00.000Z", "packed": zlib.compress(b"{}")},
    )


def build_0021(connection: Connection) -> None:
    """With what counts against limits."""
    build_0020(connection)
    schema_version.migrate(connection, to="0021")
    for statement in (
        "INSERT INTO limit_days (day, name, calls, tokens) VALUES"
        " ('2026-11-24', 'token:t1', 3, 400)",
        "INSERT INTO limit_minutes (name, remaining, at) VALUES ('caller:token:t1', 2.5, 1e9)",
    ):
        connection.execute(text(statement))


def build_0022(connection: Connection) -> None:
    """With a vector of a tool and one of a passage in one table."""
    build_0021(connection)
    schema_version.migrate(connection, to="0022")
    connection.execute(
        text(
            "INSERT INTO vectors (collection_id, key, group_id, vector)"
            " VALUES ('s1', :key, 'd1', :vector)"
        ),
        {"key": (2).to_bytes(16), "vector": b"12345678"},
    )


def build_0023(connection: Connection) -> None:
    """With a program that waits."""
    build_0022(connection)
    schema_version.migrate(connection, to="0023")
    connection.execute(
        text(
            "INSERT INTO programs (program_id, project_id, caller_id, state, body, created_at,"
            " expires_at) VALUES ('p1', 'default', 'local', 'waiting', :body, :now, :now)"
        ),
        {"now": "2026-11-24T12:00:00.000Z", "body": b"{}"},
    )


def build_0024(connection: Connection) -> None:
    """With a call that runs."""
    build_0023(connection)
    schema_version.migrate(connection, to="0024")
    connection.execute(
        text("INSERT INTO limit_slots (name, call_id, until) VALUES ('caller:local', 'c1', 1e9)")
    )


def build_0025(connection: Connection) -> None:
    """With a document that could not be imported."""
    build_0024(connection)
    schema_version.migrate(connection, to="0025")
    connection.execute(
        text(
            "INSERT INTO document_failures (collection_id, origin, source, reason, failed_at)"
            " SELECT collection_id, '', 'scan.pdf', 'It has no text.', updated_at"
            " FROM document_collections"
        )
    )


BUILDERS: dict[str, Callable[[Connection], None]] = {
    "0001": build_0001,
    "0002": build_0002,
    "0003": build_0003,
    "0004": build_0004,
    "0005": build_0005,
    "0006": build_0006,
    "0007": build_0007,
    "0008": build_0008,
    "0009": build_0009,
    "0010": build_0010,
    "0013": build_0013,
    "0012": build_0012,
    "0011": build_0011,
    "0014": build_0014,
    "0015": build_0015,
    "0016": build_0016,
    "0017": build_0017,
    "0018": build_0018,
    "0019": build_0019,
    "0020": build_0020,
    "0021": build_0021,
    "0022": build_0022,
    "0023": build_0023,
    "0024": build_0024,
    "0025": build_0025,
}
"""By revision; a new schema that is released gets a line here."""
