"""Between the values of the contract and the rows of the tables."""

import zlib
from dataclasses import fields
from typing import Any

from sqlalchemy import RowMapping

from toolgate.store.base import StoredResult, StoredServer, StoredSnapshot
from toolgate.types import AuditRecord

__all__ = [
    "audit_from",
    "audit_row",
    "result_from",
    "result_row",
    "server_from",
    "server_row",
    "snapshot_from",
    "snapshot_row",
]

_AUDIT_FIELDS = tuple(field.name for field in fields(AuditRecord))
_SERVER_FIELDS = tuple(field.name for field in fields(StoredServer))
_RESULT_FIELDS = tuple(field.name for field in fields(StoredResult))

_ROW_BYTES = 200
"""What a row costs beside its texts: numbers, headers, its two index entries."""

_LARGEST_INTEGER = 2**63 - 1


def server_row(server: StoredServer) -> dict[str, Any]:
    """Columns of a server."""
    return {name: getattr(server, name) for name in _SERVER_FIELDS}


def server_from(row: RowMapping) -> StoredServer:
    """The server of a row."""
    return StoredServer(**{name: row[name] for name in _SERVER_FIELDS})


def snapshot_row(snapshot: StoredSnapshot) -> dict[str, Any]:
    """Columns of a listing; packed, since listings repeat themselves a lot."""
    return {
        "project_id": snapshot.project_id,
        "server": snapshot.server,
        "listing": zlib.compress(snapshot.listing, 1),
        "digest": snapshot.digest,
        "listed_at": snapshot.listed_at,
        "seen_at": snapshot.listed_at,
    }


def snapshot_from(row: RowMapping) -> StoredSnapshot:
    """The listing of a row."""
    return StoredSnapshot(
        project_id=row["project_id"],
        server=row["server"],
        listing=zlib.decompress(row["listing"]),
        digest=row["digest"],
        listed_at=row["listed_at"],
    )


def result_row(result: StoredResult) -> dict[str, Any]:
    """Columns of a large result."""
    row = {name: getattr(result, name) for name in _RESULT_FIELDS}
    return row | {"size_bytes": len(result.body)}


def result_from(row: RowMapping) -> StoredResult:
    """The large result of a row."""
    return StoredResult(**{name: row[name] for name in _RESULT_FIELDS})


def audit_row(record: AuditRecord) -> dict[str, Any]:
    """Columns of an audit record; numbers that no database keeps are cut to the largest."""
    row = {name: getattr(record, name) for name in _AUDIT_FIELDS}
    for name in ("request_bytes", "response_bytes"):
        if row[name] is not None:
            row[name] = min(row[name], _LARGEST_INTEGER)
    texts = sum(len(value) for value in row.values() if isinstance(value, str))
    row["size_bytes"] = _ROW_BYTES + texts + len(str(record.detail))
    return row


def audit_from(row: RowMapping) -> AuditRecord:
    """The audit record of a row."""
    return AuditRecord(**{name: row[name] for name in _AUDIT_FIELDS})
