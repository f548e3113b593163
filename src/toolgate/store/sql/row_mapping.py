"""Converts between the values of the contract and the rows of the tables."""

import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import RowMapping

from toolgate.store.engine.text import UNSUPPORTED_CHARACTERS, escape_text, unescape_text
from toolgate.store.repositories.access import (
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredToken,
)
from toolgate.store.repositories.approvals import StoredApproval, StoredProgram
from toolgate.store.repositories.catalog import Fingerprint, StoredSnapshot, ToolVersion
from toolgate.store.repositories.detections import DetectionCount, StoredDetection
from toolgate.store.repositories.results import ResultSummary, StoredResult
from toolgate.store.repositories.schemas import StoredSchema
from toolgate.store.repositories.servers import StoredServer
from toolgate.store.repositories.usage import StoredSearch, StoredUse
from toolgate.types import AuditRecord, Json

_ROW_BYTES = 200
"""Bytes of an audit row besides its texts: numbers, headers, its two index entries."""

_LARGEST_INTEGER = 2**63 - 1
"""Largest value of 64-bit columns in PostgreSQL and SQLite."""


def server_row(server: StoredServer) -> dict[str, Any]:
    """Return the columns of a server."""
    return _escaped(vars(server) | {"config": _json(server.config)})


def server_from(row: RowMapping) -> StoredServer:
    """Return the server of a row."""
    values = _unescaped(row)
    return StoredServer(**values | {"config": json.loads(row["config"])})


def project_row(project: StoredProject) -> dict[str, Any]:
    """Return the columns of a project."""
    return _escaped(vars(project) | {"settings": _json(project.settings)})


def project_from(row: RowMapping) -> StoredProject:
    """Return the project of a row."""
    return StoredProject(**_unescaped(row) | {"settings": json.loads(row["settings"])})


_OF_TOKEN = ("projects", "roles", "groups", "read_only", "limits")
"""Fields of a token that are not used for searching."""


def token_row(token: StoredToken) -> dict[str, Any]:
    """Return the columns of a token."""
    row = dict(vars(token))
    row["details"] = json.dumps({name: row.pop(name) for name in _OF_TOKEN}, default=dict)
    row["user_name"] = row.pop("user")
    return _escaped(row)


def token_from(row: RowMapping) -> StoredToken:
    """Return the token of a row."""
    values = _unescaped(row)
    del values["details"]
    values["user"] = values.pop("user_name")
    details: Json = json.loads(row["details"])
    for name in ("projects", "roles", "groups"):
        details[name] = tuple(map(str, details.get(name, ())))
    return StoredToken(**values, **details)


def permission_row(rule: StoredPermission) -> dict[str, Any]:
    """Return the columns of a permission rule."""
    return _escaped(dict(vars(rule)))


def permission_from(row: RowMapping) -> StoredPermission:
    """Return the permission rule of a row."""
    return StoredPermission(**_unescaped(row))


def guard_row(guard: StoredGuard) -> dict[str, Any]:
    """Return the columns of a guard."""
    return _escaped(vars(guard) | {"settings": _json(guard.settings)})


def guard_from(row: RowMapping) -> StoredGuard:
    """Return the guard of a row."""
    return StoredGuard(**_unescaped(row) | {"settings": json.loads(row["settings"])})


def approval_row(approval: StoredApproval) -> dict[str, Any]:
    """Return the columns of an approval, without its slot."""
    return _escaped(dict(vars(approval)))


def approval_from(row: RowMapping) -> StoredApproval:
    """Return the approval of a row."""
    values = _unescaped(row)
    del values["slot"]
    return StoredApproval(**values)


def snapshot_row(snapshot: StoredSnapshot) -> dict[str, Any]:
    """Return the columns of a listing; compressed, since listings are repetitive."""
    listing = zlib.compress(snapshot.listing, 1)
    return _escaped(vars(snapshot) | {"listing": listing, "seen_at": snapshot.listed_at})


def snapshot_from(row: RowMapping) -> StoredSnapshot:
    """Return the listing of a row."""
    values = _unescaped(row)
    del values["seen_at"]
    values["listing"] = zlib.decompress(row["listing"])
    return StoredSnapshot(**values)


def result_row(result: StoredResult) -> dict[str, Any]:
    """Return the columns of a large result."""
    return _escaped(vars(result) | {"size_bytes": len(result.body)})


def result_from(row: RowMapping) -> StoredResult:
    """Return the large result of a row."""
    values = _unescaped(row)
    del values["size_bytes"]
    return StoredResult(**values)


def result_summary_from(row: RowMapping) -> ResultSummary:
    """Return the summary of a large result, from a row without its text."""
    return ResultSummary(**_unescaped(row))


def program_row(program: StoredProgram) -> dict[str, Any]:
    """Return the columns of a program that waits."""
    return _escaped(vars(program))


def program_from(row: RowMapping) -> StoredProgram:
    """Return the program of a row."""
    return StoredProgram(**_unescaped(row))


def detection_row(detection: StoredDetection) -> dict[str, Any]:
    """Return the columns of a detection."""
    row = dict(vars(detection))
    row["size_bytes"] = _ROW_BYTES + sum(len(v) for v in row.values() if isinstance(v, str))
    return _escaped(row)


def detection_from(row: RowMapping) -> StoredDetection:
    """Return the detection of a row."""
    values = _unescaped(row)
    del values["size_bytes"]
    return StoredDetection(**values)


def detection_count_from(row: RowMapping) -> DetectionCount:
    """Return the count of a row."""
    return DetectionCount(**_unescaped(row))


_PACKED_DEFINITIONS = ("definition", "accepted")


def fingerprint_row(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return the columns of a seen definition; compressed, since schemas are repetitive."""
    packed = {name: zlib.compress(getattr(fingerprint, name), 6) for name in _PACKED_DEFINITIONS}
    return _escaped(vars(fingerprint) | packed)


def tool_version_from(row: RowMapping) -> ToolVersion:
    """Return the version of a row."""
    values = _unescaped(row)
    values["definition"] = zlib.decompress(row["definition"])
    return ToolVersion(**values)


def fingerprint_from(row: RowMapping) -> Fingerprint:
    """Return the definition of a row."""
    values = _unescaped(row)
    values |= {name: zlib.decompress(row[name]) for name in _PACKED_DEFINITIONS}
    return Fingerprint(**values)


def schema_row(schema: StoredSchema) -> dict[str, Any]:
    """Return the columns of a schema version without id; compressed, as schemas are repetitive."""
    packed = {name: zlib.compress(getattr(schema, name), 6) for name in ("content", "changes")}
    return _escaped(vars(schema) | packed | {"size_bytes": sum(map(len, packed.values()))})


def schema_from(row: RowMapping) -> StoredSchema:
    """Return the schema version of a row; without content if that was not read."""
    values = _unescaped(row)
    for name in ("version_id", "size_bytes"):
        values.pop(name, None)
    for name in ("content", "changes"):
        if name in values:
            values[name] = zlib.decompress(row[name])
    return StoredSchema(**values)


def audit_row(record: AuditRecord) -> dict[str, Any]:
    """Return the columns of an audit record; numbers are limited to 64 bits."""
    row = vars(record) | {"detail": _detail(record.detail)}
    for name in ("request_bytes", "response_bytes"):
        if row[name] is not None:
            row[name] = min(row[name], _LARGEST_INTEGER)
    # Each call writes two rows, so their texts are collected once for both purposes.
    texts = "".join([value for value in row.values() if isinstance(value, str)])
    row["size_bytes"] = _ROW_BYTES + len(texts)
    return row if UNSUPPORTED_CHARACTERS.search(texts) is None else _escaped(row)


def audit_from(row: RowMapping) -> AuditRecord:
    """Return the audit record of a row."""
    values = _unescaped(row)
    for name in ("size_bytes", "seq", "chain"):
        del values[name]
    return AuditRecord(**values | {"detail": json.loads(row["detail"])})


def search_row(search: StoredSearch) -> dict[str, Any]:
    """Return the columns of a search in the usage log."""
    rounded = [[key, round(relevance, 4)] for key, relevance in search.shown]
    row = vars(search) | {"shown": json.dumps(rounded, separators=(",", ":"))}
    texts = sum(len(value) for value in row.values() if isinstance(value, str | bytes))
    return _escaped(row | {"size_bytes": _ROW_BYTES + texts})


def search_from(row: RowMapping) -> StoredSearch:
    """Return the search of a row."""
    values = _unescaped(row)
    del values["size_bytes"]
    values["shown"] = tuple((str(key), float(value)) for key, value in json.loads(row["shown"]))
    values["vector"] = bytes(row["vector"])
    return StoredSearch(**values)


def use_row(use: StoredUse) -> dict[str, Any]:
    """Return the columns of a use of a tool."""
    return _escaped(dict(vars(use)))


def use_from(row: RowMapping) -> StoredUse:
    """Return the use of a tool in a row."""
    return StoredUse(**_unescaped(row))


def _json(value: Json) -> str:
    return json.dumps(value, separators=(",", ":")) if value else "{}"  # ASCII: needs no escapes


_encode_detail = json.JSONEncoder(separators=(",", ":"), default=str).encode
"""Made once: `json.dumps` makes an encoder for each row, which takes longer than encoding."""


def _detail(value: Json) -> str:
    """Return details as JSON; whatever they contain, the record must not be lost."""
    try:
        return _encode_detail(value) if value else "{}"
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"lost": type(error).__name__})


def _escaped(row: dict[str, Any]) -> dict[str, Any]:
    texts = "".join([value for value in row.values() if isinstance(value, str)])
    if (
        UNSUPPORTED_CHARACTERS.search(texts) is None
    ):  # nearly always, and one search is much cheaper
        return row
    return {
        name: escape_text(value) if isinstance(value, str) else value for name, value in row.items()
    }


def _unescaped(row: RowMapping) -> dict[str, Any]:
    return {
        name: unescape_text(value) if isinstance(value, str) and "\x1a" in value else value
        for name, value in cast(Mapping[str, Any], row).items()
    }
