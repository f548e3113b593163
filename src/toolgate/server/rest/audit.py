"""REST routes for audit records, page by page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from toolgate.base import json_text
from toolgate.base.ids import utc_text
from toolgate.errors import ArgumentError
from toolgate.server.rest.pagination import limit_of
from toolgate.store import AuditFilter, Store
from toolgate.types import Json

__all__ = ["AUDIT_QUERY", "audit_page"]

_MOST = 1_000
_USUAL = 50

AUDIT_QUERY = {
    "action": "What was done: call, discover, approval and so on.",
    "server": "Name of a server.",
    "status": "ok, tool_error, or the code of an error.",
    "failed": "true: only what did not end well.",
    "since": "UTC, ISO 8601, inclusive.",
    "until": "UTC, ISO 8601, exclusive.",
    "tool": "Key of a tool.",
    "caller": "Who asked.",
    "project": "Of a project.",
    "phase": "outcome (default), intent or all.",
    "limit": "At most this many records, 1 to 1,000; 50 by default.",
    "cursor": "next_cursor of the page before.",
}
"""What can be asked for, with a sentence each."""


async def audit_page(store: Store, query: Mapping[str, str]) -> Json:
    """Records that fit, newest first, with the cursor of the next page.

    Raises:
        ArgumentError: Something is asked for that there is not.
    """
    unknown = sorted(query.keys() - AUDIT_QUERY.keys())
    if unknown:
        raise ArgumentError(
            f"Unknown parameter {unknown[0]!r:.60}.", allowed=f"Allowed: {', '.join(AUDIT_QUERY)}."
        )
    phase = query.get("phase", "outcome")
    if phase not in {"outcome", "intent", "all"}:
        raise ArgumentError(f"phase is {phase[:40]!r}.", allowed="Allowed: outcome, intent, all.")
    limit = limit_of(query, max_limit=_MOST) or _USUAL
    records = await store.audit.select(
        AuditFilter(
            action=query.get("action"),
            server=query.get("server"),
            status=query.get("status"),
            failed=query.get("failed") == "true",
            since=_moment("since", query.get("since")),
            until=_moment("until", query.get("until")),
            target=query.get("tool"),
            caller_id=query.get("caller"),
            project_id=query.get("project"),
            phase=None if phase == "all" else phase,
            after=_decode_cursor(query.get("cursor")),
            limit=limit + 1,
        )
    )
    answer: Json = {"records": [asdict(record) for record in records[:limit]]}
    if len(records) > limit:
        last = records[limit - 1]
        text = json_text.dumps([last.at, last.record_id])
        answer["next_cursor"] = urlsafe_b64encode(text).rstrip(b"=").decode()
    return answer


def _moment(name: str, text: str | None) -> str | None:
    if not text:
        return None
    try:
        return utc_text(datetime.fromisoformat(text))
    except ValueError as error:
        raise ArgumentError(
            f"{name} is {text[:40]!r}.", allowed="Allowed: times such as 2026-07-28T09:30:00Z."
        ) from error


def _decode_cursor(cursor: str | None) -> tuple[str, str] | None:
    if not cursor:
        return None
    try:
        decoded = json_text.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        at, record_id = decoded
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"The cursor {cursor[:40]!r} is none.", hint="Begin again without it."
        ) from error
    return str(at), str(record_id)
