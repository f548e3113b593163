"""The Audit pages: records, single records, export, verification."""

from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import anyio
import orjson
from starlette.responses import Response, StreamingResponse

from toolgate.audit import AGGREGATED_ACTIONS, AuditVerification, verify_audit
from toolgate.base.ids import utc_text
from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.store import AuditFilter
from toolgate.types import AuditRecord, json_array

__all__ = ["ROUTES"]

_PER_PAGE = 50
_EXPORTED = 1000
_PERIODS = (("1h", 3_600), ("24h", 86_400), ("7d", 604_800), ("all", 0))
_ACTIONS = (
    "discover", "describe", "call", "approval", "enrich", "detect", "read", "prompt", "turn",
    "list", "login", "login_refused", "retrieve", "approve", "mark", "server_add",
    "server_remove", "token_create", "token_revoke", "permission_add", "permission_remove",
    "project_save", "guard_add", "db_restore",
)  # fmt: skip
_SUBJECTS = ("token", "project", "server", "collection", "guard", "tool", "who", "name", "file")
"""Fields that say what was changed, the first that there is."""


async def _list(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    criteria = _filter(visit)
    records = await visit.app.store.audit.select(criteria)
    last = records[-1] if len(records) == _PER_PAGE else None
    return visit.page(
        "audit.html",
        records=records,
        names=await visit.token_names(),
        about=_subject,
        older=f"{last.at} {last.record_id}" if last else "",
        actions=_ACTIONS,
        periods=[name for name, _ in _PERIODS],
        query={
            name: visit.asked(name)
            for name in ("action", "server", "status", "result", "period")
            if visit.asked(name)
        },
        servers=visit.gateway.servers.names(visit.caller),
        enabled=visit.app.settings.audit.enabled,
    )


def _subject(record: AuditRecord) -> str:
    """What a record is about."""
    subject = record.target or record.query or record.server
    if record.action in AGGREGATED_ACTIONS:
        return f"{subject} ({record.detail.get('count', 1)}×)"
    details = (record.detail.get(name) for name in _SUBJECTS)
    return subject or next(
        (str(detail) for detail in details if isinstance(detail, str) and detail), ""
    )


def _filter(visit: Visit) -> AuditFilter:
    seconds = dict(_PERIODS).get(visit.asked("period"), 86_400)
    since = utc_text(datetime.now(UTC) - timedelta(seconds=seconds)) if seconds else None
    at, _, record_id = visit.asked("older").partition(" ")
    return AuditFilter(
        action=visit.asked("action") or None,
        server=visit.asked("server") or None,
        status=visit.asked("status").strip() or None,
        failed=visit.asked("result") == "failed",
        phase="outcome",
        since=since,
        after=(at, record_id) if record_id else None,
        limit=_PER_PAGE,
    )


async def _chain(visit: Visit) -> Response:
    """A search with what was shown, chosen, called and answered."""
    visit.gateway.visible.must_manage(visit.caller)
    records = await visit.app.store.audit.related(visit.asked("id"))
    if not records:
        raise ArgumentError("No such record.", hint="Old records are removed after audit_days.")
    first = records[0]
    outcomes = {record.parent_id: record for record in records if record.phase == "outcome"}
    called = [record for record in records if record.phase == "intent"]
    discoveries = [
        (str(pair[0]), float(pair[1]))
        for pair in map(json_array, json_array(first.detail.get("shown")))
        if len(pair) == 2
    ]
    chosen = {call.target for call in called}
    return visit.page(
        "audit_chain.html",
        first=first,
        shown=discoveries,
        chosen=chosen,
        calls=[(call, outcomes.get(call.record_id)) for call in called],
        records=records,
        names=await visit.token_names(),
        about=_subject,
    )


async def _verify(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    done: AuditVerification | None = None
    if visit.was_sent:
        with anyio.fail_after(600):
            done = await verify_audit(visit.app.store, visit.app.sealer)
    return visit.page("audit_verify.html", done=done)


async def _export(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    criteria = replace(_filter(visit), oldest_first=True, phase=None, limit=_EXPORTED, after=None)
    return StreamingResponse(
        _lines(visit, criteria),
        media_type="application/x-ndjson",
        headers={"content-disposition": 'attachment; filename="audit.jsonl"'},
    )


async def _lines(visit: Visit, criteria: AuditFilter) -> AsyncGenerator[bytes]:
    while True:
        page: list[AuditRecord] = await visit.app.store.audit.select(criteria)
        yield b"".join(orjson.dumps(asdict(record)) + b"\n" for record in page)
        if len(page) < _EXPORTED:
            return
        criteria = replace(criteria, after=(page[-1].at, page[-1].record_id))


ROUTES = (
    Route(path="audit", show=_list),
    Route(path="audit/chain", show=_chain),
    Route(path="audit/verify", show=_verify, act=_verify, is_long=True),
    Route(path="audit/export", show=_export),
)
