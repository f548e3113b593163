"""The Approvals page: waiting calls, next to the last approved call of the same tool."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from starlette.responses import Response

from toolgate.console.pages._bulk_actions import for_each
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, ForbiddenError
from toolgate.store import StoredApproval
from toolgate.types import Json, json_object

_LATELY = 200
"""Approvals that are listed (chosen)."""


@dataclass(frozen=True, kw_only=True)
class WaitingApproval:
    """A waiting call on the page."""

    approval: StoredApproval
    """The stored approval."""

    arguments: str
    """Arguments, one per line."""

    code: str
    """One-time code for a terminal; empty if the caller may not decide."""

    before: StoredApproval | None
    """The last approved call of the tool."""

    lines: tuple[str, ...]
    """Differences from that call."""


async def _show(request: PageRequest) -> Response:
    every = await request.gateway.approvals.search(request.caller, limit=_LATELY)
    decided = [approval for approval in every if approval.state != "waiting"]
    may_decide = is_person(request)
    waiting = [
        _waiting(
            approval,
            decided,
            code=request.gateway.approvals.code(request.caller, approval, via="console"),
        )
        for approval in every
        if approval.state == "waiting"
    ]
    kept = request.gateway.kept_programs
    return request.page(
        "approvals.html",
        waiting=waiting if may_decide else (),
        withheld=0 if may_decide else len(waiting),
        decided=decided[:40],
        parked=await kept.programs(request.caller),
        stored=await kept.values(request.caller),
    )


def is_person(request: PageRequest) -> bool:
    """Whether the request comes from a browser; only checked if no login is required.

    An agent with a shell could otherwise decide with one `curl` request. Browsers also send the
    header to loopback addresses: https://www.w3.org/TR/fetch-metadata/
    """
    is_open = request.caller.identity.kind == "local"
    return not is_open or "sec-fetch-site" in request.http.headers


def _waiting(
    approval: StoredApproval, decided: Sequence[StoredApproval], *, code: str
) -> WaitingApproval:
    before = next(
        (
            earlier
            for earlier in decided
            if earlier.tool == approval.tool and earlier.state in {"approved", "used"}
        ),
        None,
    )
    current_lines = _lines(approval.arguments)
    lines: list[str] = []
    if before is not None:
        compared = difflib.ndiff(_lines(before.edited or before.arguments), current_lines)
        lines = [line for line in compared if line[:2] in {"- ", "+ "}]
    return WaitingApproval(
        approval=approval,
        arguments="\n".join(current_lines),
        code=code,
        before=before,
        lines=tuple(lines[:200]),
    )


def _lines(text: str) -> list[str]:
    """Return the arguments, one per line."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:  # long arguments are cut off and thus not valid JSON
        return text.splitlines()


async def _act(request: PageRequest) -> Response:
    word = request.value("do")
    if word == "forget":
        await request.gateway.kept_programs.forget(request.caller, request.value("id"))
        return request.go("approvals", message="Deleted.")
    if word not in {"approve", "edit", "reject"}:
        raise ArgumentError(f"Unknown action {word[:40]!r}.")
    if not is_person(request):
        raise ForbiddenError(
            "Calls are approved in a browser.", hint="Open this page in a browser."
        )
    ids = request.form_values("id")
    if not ids:
        raise ArgumentError("No call selected.", hint="Select calls first.")
    arguments = _edited(request.value("arguments")) if word == "edit" else None

    async def decide(approval_id: str) -> str:
        decided = await request.gateway.approvals.decide(
            request.caller,
            approval_id,
            approve=word != "reject",
            via="console",
            comment=request.value("comment").strip(),
            arguments=arguments,
        )
        return decided.tool

    decided = await for_each(ids, decide)
    outcome = "rejected" if word == "reject" else "approved for one run"
    done = decided.done
    who = f"The call of {done[0]} was" if len(done) == 1 else f"{len(done)} calls were"
    return request.go("approvals", message=f"{who} {outcome}.{decided.failures}")


def _edited(text: str) -> Json:
    try:
        value = cast("object", json.loads(text))
    except ValueError as error:
        raise ArgumentError(f"The arguments are not valid JSON: {error}.") from error
    arguments = json_object(value)
    if value != arguments:
        raise ArgumentError("The arguments are not a JSON object.")
    return arguments


ROUTES = (Route(path="approvals", show=_show, act=_act),)
