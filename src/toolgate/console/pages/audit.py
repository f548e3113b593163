"""The Audit pages: records, single records, export, verification."""

from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

import anyio
import orjson
from starlette.responses import Response, StreamingResponse

from toolgate.audit import ACTIONS, AuditVerification, subject_of, verify_audit
from toolgate.base.ids import utc_text
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.store import AuditFilter
from toolgate.types import AuditRecord, json_array, json_object

_PER_PAGE = 50
"""Records per page (chosen)."""
_TIMELINE = 300
"""Records in a timeline (chosen: nobody reads more)."""
_EXPORTED = 1000
"""Records that are read at a time for a download (chosen)."""
_PERIODS = (("1h", 3_600), ("24h", 86_400), ("7d", 604_800), ("30d", 2_592_000), ("all", 0))

_SAVED = "toolgate_filters"
"""Cookie with the filters that were saved in this browser."""

_MOST_SAVED = 8
"""Filters that can be saved (chosen: they fit one row and a small cookie)."""

_NAME_CHARS = 40
"""Characters of a saved filter's name (chosen: fits the list)."""
_AROUND = timedelta(days=1)
"""Time before and after a record in which its conversation is searched (chosen)."""

_FILTERS = ("q", "action", "server", "status", "result", "period")


async def _list(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    criteria = _filter(request)
    records = await request.app.store.audit.select(criteria)
    last = records[-1] if len(records) == _PER_PAGE else None
    return request.page(
        "audit.html",
        records=records,
        names=await request.token_names(),
        about=subject_of,
        older=f"{last.at} {last.record_id}" if last else "",
        actions=tuple(ACTIONS),
        periods=[name for name, _ in _PERIODS],
        query=_query(request),
        saved=_saved_filters(request),
        is_live=request.query_value("live") == "1",
        servers=request.gateway.servers.names(request.caller),
        enabled=request.app.settings.audit.enabled,
    )


def _query(request: PageRequest) -> dict[str, str]:
    """Return the filter in the URL."""
    return {name: request.query_value(name) for name in _FILTERS if request.query_value(name)}


def _saved_filters(request: PageRequest) -> dict[str, dict[str, str]]:
    """Return the filters that were saved in this browser, by name."""
    try:
        saved = json_object(orjson.loads(unquote(request.http.cookies.get(_SAVED, "{}"))))
    except ValueError:
        return {}
    return {
        name[:_NAME_CHARS]: {
            key: str(value)[:200] for key, value in json_object(query).items() if key in _FILTERS
        }
        for name, query in list(saved.items())[:_MOST_SAVED]
    }


async def _save_filter(request: PageRequest) -> Response:
    """Save the filter in the URL under a name, or delete a saved one."""
    request.gateway.visible.must_manage(request.caller)
    saved, name = _saved_filters(request), request.value("name").strip()[:_NAME_CHARS]
    if not name:
        raise ArgumentError("The filter has no name.", allowed="1 to 40 characters.")
    saved.pop(name, None)
    if request.value("do") == "forget":
        message = f"The filter {name} was removed."
    else:
        saved = {name: _query(request), **saved}
        message = f"The filter {name} was saved in this browser."
    response = request.go("audit", message=message, **_query(request))
    response.set_cookie(
        _SAVED,
        quote(orjson.dumps(dict(list(saved.items())[:_MOST_SAVED])).decode()),
        max_age=365 * 86_400,
        path=request.base,
        httponly=True,
        samesite="lax",
        secure=request.http.url.scheme == "https",
    )
    return response


def _filter(request: PageRequest) -> AuditFilter:
    seconds = dict(_PERIODS).get(request.query_value("period"), 86_400)
    since = utc_text(datetime.now(UTC) - timedelta(seconds=seconds)) if seconds else None
    at, _, record_id = request.query_value("older").partition(" ")
    return AuditFilter(
        action=request.query_value("action") or None,
        server=request.query_value("server") or None,
        status=request.query_value("status").strip() or None,
        failed=request.query_value("result") == "failed",
        text=request.query_value("q").strip()[:200],
        phase="outcome",
        since=since,
        after=(at, record_id) if record_id else None,
        limit=_PER_PAGE,
    )


async def _chain(request: PageRequest) -> Response:
    """Show a search with its results, the calls that followed, and their outcomes."""
    request.gateway.visible.must_manage(request.caller)
    records = await request.app.store.audit.related(request.query_value("id"))
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
    return request.page(
        "audit_chain.html",
        first=first,
        shown=discoveries,
        chosen=chosen,
        calls=[(call, outcomes.get(call.record_id)) for call in called],
        records=records,
        names=await request.token_names(),
        about=subject_of,
    )


async def _conversation(request: PageRequest) -> Response:
    """Show all records of a conversation around a time, oldest first."""
    request.gateway.visible.must_manage(request.caller)
    try:
        around = datetime.fromisoformat(request.query_value("at"))
    except ValueError as error:
        raise ArgumentError("No such conversation.", hint="Open it from a record.") from error
    criteria = AuditFilter(
        conversation=request.query_value("id"),
        phase="outcome",
        since=utc_text(around - _AROUND),
        until=utc_text(around + _AROUND),
        oldest_first=True,
        limit=_TIMELINE,
    )
    records = await request.app.store.audit.select(criteria)
    if not records:
        raise ArgumentError("No such conversation.", hint="Old records are removed.")
    return request.page(
        "audit_conversation.html",
        records=records,
        names=await request.token_names(),
        about=subject_of,
        at=request.query_value("at"),
    )


async def _verify(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    done: AuditVerification | None = None
    if request.was_sent:
        with anyio.fail_after(600):
            done = await verify_audit(request.app.store, request.app.sealer)
    return request.page("audit_verify.html", done=done)


async def _export(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    criteria = replace(_filter(request), oldest_first=True, phase=None, limit=_EXPORTED, after=None)
    return StreamingResponse(
        _lines(request, criteria),
        media_type="application/x-ndjson",
        headers={"content-disposition": 'attachment; filename="audit.jsonl"'},
    )


async def _lines(request: PageRequest, criteria: AuditFilter) -> AsyncGenerator[bytes]:
    while True:
        page: list[AuditRecord] = await request.app.store.audit.select(criteria)
        yield b"".join(orjson.dumps(asdict(record)) + b"\n" for record in page)
        if len(page) < _EXPORTED:
            return
        criteria = replace(criteria, after=(page[-1].at, page[-1].record_id))


ROUTES = (
    Route(path="audit", show=_list, act=_save_filter),
    Route(path="audit/conversation", show=_conversation),
    Route(path="audit/chain", show=_chain),
    Route(path="audit/verify", show=_verify, act=_verify, is_long=True),
    Route(path="audit/export", show=_export),
)
