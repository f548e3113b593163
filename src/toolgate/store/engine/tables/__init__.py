"""The tables of the current schema, the same in every database.

Times are text in UTC (`2026-07-28T09:30:00.123Z`), so that they sort and read the same
everywhere. The row converters know the format of texts and JSON. A change here needs a new file
in `migrations/versions` and a new last entry of `REVISIONS`; a test compares both.
"""

from toolgate.store.engine.tables._access import (
    access_state,
    approvals,
    credential_keys,
    credentials,
    guards,
    limit_days,
    limit_minutes,
    limit_slots,
    permissions,
    secrets,
    sessions,
    tokens,
)
from toolgate.store.engine.tables._audit import (
    AUDIT_COMMON,
    audit,
    audit_anchors,
    audit_failed,
    audit_outcome,
    audit_rest,
    audit_state,
    audit_writers,
    schema_versions,
    statements,
)
from toolgate.store.engine.tables._base import REVISIONS, VERSION_TABLE, metadata, versions
from toolgate.store.engine.tables._documents import (
    document_collections,
    document_failures,
    documents,
    passages,
)
from toolgate.store.engine.tables._search import (
    detections,
    usage_searches,
    usage_uses,
    vector_models,
    vectors,
)
from toolgate.store.engine.tables._servers import (
    programs,
    projects,
    results,
    seen_entries,
    servers,
    snapshots,
    tool_texts,
    tool_versions,
)
from toolgate.store.engine.tables._threads import (
    prompt_versions,
    thread_artifacts,
    thread_messages,
    thread_spending,
    threads,
)

__all__ = [
    "AUDIT_COMMON",
    "REVISIONS",
    "VERSION_TABLE",
    "access_state",
    "approvals",
    "audit",
    "audit_anchors",
    "audit_failed",
    "audit_outcome",
    "audit_rest",
    "audit_state",
    "audit_writers",
    "credential_keys",
    "credentials",
    "detections",
    "document_collections",
    "document_failures",
    "documents",
    "guards",
    "limit_days",
    "limit_minutes",
    "limit_slots",
    "metadata",
    "passages",
    "permissions",
    "programs",
    "projects",
    "prompt_versions",
    "results",
    "schema_versions",
    "secrets",
    "seen_entries",
    "servers",
    "sessions",
    "snapshots",
    "statements",
    "thread_artifacts",
    "thread_messages",
    "thread_spending",
    "threads",
    "tokens",
    "tool_texts",
    "tool_versions",
    "usage_searches",
    "usage_uses",
    "vector_models",
    "vectors",
    "versions",
]
