"""Routes for calls that wait for approval."""

from typing import Any, Literal

from pydantic import Field

from toolgate.server.rest.models import (
    MAX_PAGE,
    Answer,
    Body,
    NamedProject,
    PageOf,
    Query,
    TextOrNull,
)
from toolgate.server.rest.routing import Call, Routes
from toolgate.store import ApprovalState

routes = Routes()


class Approval(Answer):
    """A call that awaits approval, or awaited it."""

    id: str = Field(validation_alias="approval_id")
    state: ApprovalState
    toolKey: str = Field(validation_alias="tool")  # noqa: N815 - its name on the wire
    arguments: str = Field(description="JSON; secrets are masked, long ones are cut.")
    arguments_sha256: str
    reason: str
    who: str
    caller: str = Field(validation_alias="caller_id")
    project: NamedProject = Field(validation_alias="project_id")
    client: str
    approver: Literal["user", "admin"]
    created_at: str
    expires_at: str
    decided_at: str | None
    decided_by: TextOrNull
    decided_via: TextOrNull
    comment: str
    edited: str | None
    used_at: str | None


class DecidableApproval(Approval):
    """An approval with the one-time code, if the caller may decide and is not who waits."""

    code: str | None = None


class ApprovalList(PageOf):
    """Approvals, newest first."""

    approvals: list[Approval]


class ApprovalQuery(Query):
    """Which approvals."""

    state: ApprovalState | Literal["all"] = "waiting"
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="At most this many.")
    cursor: str = Field("", description="next_cursor of the page before.")


@routes.get("approvals")
async def approvals(call: Call, query: ApprovalQuery) -> ApprovalList:
    """List calls that await approval; `state=all` shows those of before too."""
    rows = await call.gateway.approvals.search(
        call.caller,
        state=None if query.state == "all" else query.state,
        after=query.cursor or None,
        limit=query.limit + 1,
    )
    page = [Approval.model_validate(row) for row in rows[: query.limit]]
    if len(rows) > query.limit:
        return ApprovalList(approvals=page, next_cursor=page[-1].id)
    return ApprovalList(approvals=page)


@routes.get("approvals/{name}")
async def approval(call: Call, name: str) -> DecidableApproval:
    """Show an approval with its code, if the caller may decide and is not who waits."""
    row = await call.gateway.approvals.get(call.caller, name)
    code = call.gateway.approvals.code(call.caller, row, via="rest")
    return DecidableApproval.model_validate(row).model_copy(update={"code": code or None})


class Approve(Body):
    """How a call is approved."""

    code: str = Field("", description="The one-time code that the console shows.")
    comment: str = ""
    arguments: dict[str, Any] | None = Field(None, description="Other arguments to run with.")


@routes.post("approvals/{name}/approve", example={"comment": "Fine."})
async def approve(call: Call, name: str, body: Approve) -> Approval:
    """Let a call run once, with other `arguments` if wanted.

    Who approves a call of their own gives its one-time `code`, which the console shows.
    """
    decided = await call.gateway.approvals.decide(
        call.caller, name, approve=True, via="rest", **dict(body)
    )
    return Approval.model_validate(decided)


class Reject(Body):
    """How a call is rejected."""

    comment: str = ""


@routes.post("approvals/{name}/reject", example={"comment": "Use the test shop."})
async def reject(call: Call, name: str, body: Reject) -> Approval:
    """Reject a call."""
    decided = await call.gateway.approvals.decide(
        call.caller, name, approve=False, via="rest", comment=body.comment
    )
    return Approval.model_validate(decided)
