"""Calls that wait for a person, in the REST door."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from toolgate.errors import ArgumentError
from toolgate.gateway.gateway import Gateway
from toolgate.server.rest.pagination import limit_of
from toolgate.store import ApprovalState, StoredApproval
from toolgate.types import DEFAULT_PROJECT, Caller, Json

__all__ = ["approval_list", "approval_one", "approve", "reject", "shown_approval"]

_STATES = get_args(ApprovalState)
_MOST = 1_000


async def approval_list(gateway: Gateway, caller: Caller, query: Mapping[str, str]) -> Any:
    """`GET approvals`: calls that wait, newest first; `?state=all` shows those of before too."""
    state = query.get("state", "waiting")
    if state not in {*_STATES, "all"}:
        raise ArgumentError(
            f"state is {state[:40]!r}.", allowed=f"Allowed: {', '.join(_STATES)}, all."
        )
    limit = limit_of(query, most=_MOST) or 100
    found = await gateway.manage.approvals(
        caller,
        state=None if state == "all" else cast("ApprovalState", state),
        after=query.get("cursor") or None,
        limit=limit + 1,
    )
    answer: Json = {"approvals": [shown_approval(one) for one in found[:limit]]}
    if len(found) > limit:
        answer["next_cursor"] = found[limit - 1].approval_id
    return 200, answer


async def approval_one(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json
) -> Any:
    """`GET approvals/ID`."""
    return 200, shown_approval(await gateway.manage.approval(caller, names[0]))


async def approve(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST approvals/ID/approve`: let it run once, with other `arguments` if wanted."""
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
    allowed = ("comment", "arguments") if approve else ("comment",)
    unknown = sorted(body.keys() - set(allowed))
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.", allowed=f"Allowed: {', '.join(allowed)}."
        )
    comment = body.get("comment") or ""
    if not isinstance(comment, str):
        raise ArgumentError("Member 'comment' must be a text.")
    decided = await gateway.manage.decide_approval(
        caller, names[0], approve=approve, via="rest", comment=comment, arguments=arguments
    )
    return 200, shown_approval(decided)


def shown_approval(one: StoredApproval) -> Json:
    """An approval as REST, commands and console show it."""
    return {
        "id": one.approval_id,
        "state": one.state,
        "toolKey": one.tool,
        "arguments": one.arguments,
        "arguments_sha256": one.arguments_sha256,
        "reason": one.reason,
        "who": one.who,
        "caller": one.caller_id,
        "project": None if one.project_id == DEFAULT_PROJECT else one.project_id,
        "client": one.client,
        "approver": one.approver,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "decided_at": one.decided_at,
        "decided_by": one.decided_by or None,
        "decided_via": one.decided_via or None,
        "comment": one.comment,
        "edited": one.edited,
        "used_at": one.used_at,
    }
