"""Routes for audit records."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo

from toolgate.audit import AuditRestore, ChainFault, verify_audit
from toolgate.base import json_text
from toolgate.base.ids import utc_text
from toolgate.errors import ArgumentError
from toolgate.server.rest.models import MAX_PAGE, Answer, PageOf, Query
from toolgate.server.rest.routing import Call, Routes
from toolgate.store import AuditFilter
from toolgate.types import AuditRecord

routes = Routes()


def _utc(text: str, info: ValidationInfo) -> str:
    if not text:
        return ""
    try:
        return utc_text(datetime.fromisoformat(text))
    except ValueError as error:
        raise ArgumentError(
            f"Parameter {info.field_name!r} is {text[:40]!r}.",
            allowed="Allowed: times such as 2026-07-28T09:30:00Z.",
        ) from error


Moment = Annotated[str, AfterValidator(_utc)]
"""An ISO 8601 time, converted to UTC."""


class AuditQuery(Query):
    """Which records."""

    model_config = ConfigDict(extra="forbid")

    action: str | None = Field(None, description="What was done: call, discover, approval ...")
    server: str | None = Field(None, description="Name of a server.")
    status: str | None = Field(None, description="ok, tool_error, or the code of an error.")
    failed: bool = Field(False, description="true: only what did not end well.")
    since: Moment = Field("", description="UTC, ISO 8601, inclusive.")
    until: Moment = Field("", description="UTC, ISO 8601, exclusive.")
    tool: str | None = Field(None, description="Key of a tool.")
    caller: str | None = Field(None, description="Who asked.")
    project: str | None = Field(None, description="Of a project.")
    phase: Literal["outcome", "intent", "all"] = "outcome"
    limit: int = Field(50, ge=1, le=MAX_PAGE, description="At most this many records.")
    cursor: str = Field("", description="next_cursor of the page before.")


class AuditPage(PageOf):
    """Audit records, newest first."""

    records: list[AuditRecord]


@routes.get("audit")
async def audit(call: Call, query: AuditQuery) -> AuditPage:
    """List audit records, newest first."""
    call.must_manage()
    records = await call.app.store.audit.select(
        AuditFilter(
            action=query.action,
            server=query.server,
            status=query.status,
            failed=query.failed,
            since=query.since or None,
            until=query.until or None,
            target=query.tool,
            caller_id=query.caller,
            project_id=query.project,
            phase=None if query.phase == "all" else query.phase,
            after=_decode_cursor(query.cursor) if query.cursor else None,
            limit=query.limit + 1,
        )
    )
    page = records[: query.limit]
    if len(records) > query.limit:
        cursor = urlsafe_b64encode(json_text.dumps([page[-1].at, page[-1].record_id]))
        return AuditPage(records=page, next_cursor=cursor.rstrip(b"=").decode())
    return AuditPage(records=page)


def _decode_cursor(cursor: str) -> tuple[str, str]:
    try:
        at, record_id = json_text.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"The cursor {cursor[:40]!r} is not valid.", hint="Start again without it."
        ) from error
    return str(at), str(record_id)


class Verification(Answer):
    """Whether the audit is whole."""

    records: int
    first: int
    last: int
    unchained: int
    signed: int
    signed_through: int
    foreign: int
    restores: list[AuditRestore]
    faults: list[ChainFault]
    verifiable: bool = Field(validation_alias="is_verifiable")
    whole: bool = Field(validation_alias="is_whole")


@routes.get("audit/verify")
async def verify(call: Call) -> Verification:
    """Check whether any record was changed, removed or moved."""
    call.must_manage()
    return Verification.model_validate(await verify_audit(call.app.store, call.app.sealer))
