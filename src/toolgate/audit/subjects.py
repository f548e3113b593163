"""What audit records are about, in a few words for people."""

from toolgate.audit.aggregation import AGGREGATED_ACTIONS
from toolgate.types import AuditRecord, json_array

_SUBJECTS = (
    "token", "project", "server", "key", "keys", "collection", "guard", "tool", "who", "name",
    "file", "ids", "id",
)  # fmt: skip
"""Fields that name what was changed, in order of preference."""


def subject_of(record: AuditRecord) -> str:
    """Return what a record is about: a tool, a query, or what was changed; empty if nothing."""
    if record.action == "permission_add":  # a rule has no name, so it is shown as it reads
        detail = record.detail
        patterns, subjects = (
            ", ".join(map(str, json_array(detail.get(name)))) for name in ("patterns", "to")
        )
        return f"{detail.get('effect', '')} {patterns} to {subjects}"
    # Administrative actions have no target: their details name what was changed.
    subject = record.target or record.query or record.server
    if record.action in AGGREGATED_ACTIONS:
        count = record.detail.get("count", 1)
        return f"{subject} ({count} time{'' if count == 1 else 's'})"
    details = (record.detail.get(name) for name in _SUBJECTS)
    words = (
        detail if isinstance(detail, str) else ", ".join(map(str, json_array(detail)))
        for detail in details
    )
    named = next((word for word in words if word), "")
    changed = {"server_enable": "enabled", "switch_tool": "allowed"}.get(record.action)
    if named and changed:
        named += " on" if record.detail.get(changed) else " off"
    return subject or named
