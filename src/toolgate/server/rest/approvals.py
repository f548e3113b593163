"""REST routes for calls that await approval."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from toolgate.errors import ArgumentError
from toolgate.gateway.gateway import Gateway
from toolgate.server.rest.pagination import limit_of
from toolgate.store import ApprovalState, StoredApproval
from toolgate.types import DEFAULT_PROJECT, Caller, Json

__all__ = ["approval", "approval_json", "approval_list", "approve", "reject"]

_STATES = get_args(ApprovalState)
_MOST = 1_000


async def approval_list(gateway: Gateway, caller: Caller, query: Mapping[str, str]) -> Any:
    """`GET approvals`: calls that wait, newest first; `?state=all` shows those of before too."""
    state = query.get("state", "waiting")
    if state not in {*_STATES, "all"}:
        raise ArgumentError(
            f"state is {state[:40]!r}.", allowed=f"Allowed: {', '.join(_STATES)}, all."
        )
    limit = limit_of(query, max_limit=_MOST) or 100
    rows = await gateway.approvals.search(
        caller,
        state=None if state == "all" else cast("ApprovalState", state),
        after=query.get("cursor") or None,
        limit=limit + 1,
    )
    answer: Json = {"approvals": [approval_json(row) for row in rows[:limit]]}
    if len(rows) > limit:
        answer["next_cursor"] = rows[limit - 1].approval_id
    return 200, answer


async def approval(gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET approvals/ID`: with the `code`, if the caller may decide and is not who waits."""
    row = await gateway.approvals.get(caller, names[0])
    code = gateway.approvals.code(caller, row, via="rest")
    return 200, {**approval_json(row), "code": code or None}


async def approve(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST approvals/ID/approve`: let it run once, with other `arguments` if wanted.

    Who approves a call of their own gives its one-time `code`, which the console shows.
    """
    arguments = body.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise ArgumentError("Member 'arguments' must be an object.")
    return await _decide(
        gateway, caller, names, body, approve=True, arguments=cast("Json | None", arguments)
    )


async def reject(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST approvals/ID/reject`."""
    return await _decide(gateway, caller, names, body, approve=False, arguments=None)


async def _decide(
    gateway: Gateway,
    caller: Caller,
    names: tuple[str, ...],
    body: Json,
    *,
    approve: bool,
    arguments: Json | None,
) -> Any:
    allowed = ("code", "comment", "arguments") if approve else ("comment",)
    unknown = sorted(body.keys() - set(allowed))
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.", allowed=f"Allowed: {', '.join(allowed)}."
        )
    comment = body.get("comment") or ""
    if not isinstance(comment, str):
        raise ArgumentError("Member 'comment' must be a text.")
    code = body.get("code") or ""
    if not isinstance(code, str):
        raise ArgumentError("Member 'code' must be a text.")
    decided = await gateway.approvals.decide(
        caller,
        names[0],
        approve=approve,
        via="rest",
        code=code,
        comment=comment,
        arguments=arguments,
    )
    return 200, approval_json(decided)


def approval_json(row: StoredApproval) -> Json:
    """An approval as REST, commands and console show it."""
    return {
        "id": row.approval_id,
        "state": row.state,
        "toolKey": row.tool,
        "arguments": row.arguments,
        "arguments_sha256": row.arguments_sha256,
        "reason": row.reason,
        "who": row.who,
        "caller": row.caller_id,
        "project": None if row.project_id == DEFAULT_PROJECT else row.project_id,
        "client": row.client,
        "approver": row.approver,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "decided_at": row.decided_at,
        "decided_by": row.decided_by or None,
        "decided_via": row.decided_via or None,
        "comment": row.comment,
        "edited": row.edited,
        "used_at": row.used_at,
    }
