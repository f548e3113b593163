"""Audit records as JSON Lines, CSV and OCSF."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Final

from toolgate import __version__
from toolgate.types import AuditRecord, Json

_COLUMNS: Final = tuple(field.name for field in fields(AuditRecord))

_ACTIVITIES: Final[Mapping[str, int]] = {
    "discover": 2,
    "describe": 2,
    "read": 2,
    "prompt": 2,
    "complete": 2,
    "catalog_search": 2,
    "detect": 2,
    "enrich": 2,
    "knowledge": 2,
    "token_create": 1,
    "server_add": 1,
    "project_save": 3,
    "token_delete": 4,
    "server_remove": 4,
    "project_delete": 4,
    "forget": 4,
}
"""Activities of OCSF: 1 create, 2 read, 3 update, 4 delete; all others are 99, other."""

_REFUSALS: Final = frozenset({"guard", "approval", "limit", "forbidden", "credential"})


def as_json_line(record: AuditRecord) -> str:
    """A record with all fields as one line of JSON."""
    return json.dumps(asdict(record), separators=(",", ":")) + "\n"


def csv_head() -> str:
    """The header line of a CSV file."""
    return ",".join(_COLUMNS) + "\r\n"


def _as_csv(record: AuditRecord) -> str:
    row = asdict(record) | {"detail": json.dumps(record.detail, separators=(",", ":"))}
    out = io.StringIO()
    csv.writer(out).writerow([_cell(row[name]) for name in _COLUMNS])
    return out.getvalue()


def _cell(value: object) -> object:
    """A value as a CSV cell; a leading formula character is escaped for spreadsheets."""
    # https://owasp.org/www-community/attacks/CSV_Injection
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return "" if value is None else value


def as_ocsf(record: AuditRecord) -> Json:
    """A record as an event of OCSF 1.3, class API Activity (6003).

    https://schema.ocsf.io/1.3.0/classes/api_activity
    """
    activity = _ACTIVITIES.get(record.action, 99)
    is_fine = record.status in {"ok", "input_required"}
    is_refusal = record.status in _REFUSALS
    response: Json = {"code": 0 if is_fine else 1}
    if not is_fine:
        response["error"] = record.status
    event: Json = {
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": 6003,
        "class_name": "API Activity",
        # OCSF: class_uid * 100 + activity_id.
        "type_uid": 600_300 + activity,
        "activity_id": activity,
        "activity_name": record.action,
        "time": _milliseconds(record.at),
        # 1 informational, 2 low, 3 medium: a refusal deserves more attention than a failure.
        "severity_id": 1 if is_fine else 3 if is_refusal else 2,
        "status_id": 1 if is_fine else 2,
        "status": "Success" if is_fine else "Failure",
        "status_code": record.status,
        "metadata": {
            "version": "1.3.0",
            "product": {"name": "Toolgate", "vendor_name": "Toolgate", "version": __version__},
            "uid": record.record_id,
            "log_name": "audit",
            "tenant_uid": record.project_id,
        },
        "actor": {"user": {"uid": record.caller_id}, "session": {"uid": record.conversation}},
        "api": {
            "operation": record.action,
            "service": {"name": record.server or "toolgate"},
            "request": {"uid": record.request_id},
            "response": response,
        },
        "src_endpoint": {"name": record.client or "unknown"},
        "unmapped": {
            name: value
            for name in _UNMAPPED
            if (value := getattr(record, name)) not in (None, "", {})
        },
    }
    if record.parent_id:
        event["metadata"]["correlation_uid"] = record.parent_id
    if record.target:
        event["resources"] = [{"name": record.target, "type": "tool", "uid": record.digest or ""}]
    if record.duration_ms is not None:
        event["duration"] = round(record.duration_ms)
    return event


_UNMAPPED: Final = (
    "phase",
    "query",
    "request_bytes",
    "response_bytes",
    "arguments_sha256",
    "response_sha256",
    "detail",
)


def _milliseconds(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0


EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[AuditRecord], str]]]] = {
    "jsonl": ("", as_json_line),
    "csv": (csv_head(), _as_csv),
    "ocsf": ("", lambda record: json.dumps(as_ocsf(record), separators=(",", ":")) + "\n"),
}
"""For each format: the head of the file, and the function that formats a record."""
