"""Approvals: calls that wait for a person's yes, beside the last one of their tool."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.store import StoredApproval
from toolgate.types import Json, json_object

__all__ = ["ROUTES"]

_LATELY = 200


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A call that waits, as it is shown."""

    approval: StoredApproval
    """What is kept of it."""

    arguments: str
    """Its arguments, a line each."""

    before: StoredApproval | None
    """The last call of the tool that was approved."""

    lines: tuple[str, ...]
    """What is different from that one."""


async def _show(visit: Visit) -> Response:
    every = await visit.gateway.manage.approvals(visit.caller, limit=_LATELY)
    decided = [one for one in every if one.state != "waiting"]
    waiting = [_waiting(one, decided) for one in every if one.state == "waiting"]
    return visit.page("approvals.html", waiting=waiting, decided=decided[:40])


def _waiting(approval: StoredApproval, decided: Sequence[StoredApproval]) -> Waiting:
    before = next(
        (one for one in decided if one.tool == approval.tool and one.state in {"approved", "used"}),
        None,
    )
    now = _lines(approval.arguments)
    lines: list[str] = []
    if before is not None:
        compared = difflib.ndiff(_lines(before.edited or before.arguments), now)
        lines = [line for line in compared if line[:2] in {"- ", "+ "}]
    return Waiting(
        approval=approval, arguments="\n".join(now), before=before, lines=tuple(lines[:200])
    )


def _lines(text: str) -> list[str]:
    """Arguments, a line each."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:  # long ones are cut
        return text.splitlines()


async def _act(visit: Visit) -> Response:
    word = visit.typed("do")
    if word not in {"approve", "edit", "reject"}:
        raise ArgumentError(f"Nothing is called {word[:40]!r} here.")
    decided = await visit.gateway.manage.decide_approval(
        visit.caller,
        visit.typed("id"),
        approve=word != "reject",
        via="console",
        comment=visit.typed("comment").strip(),
        arguments=_edited(visit.typed("arguments")) if word == "edit" else None,
    )
    said = "was rejected" if word == "reject" else "may run once now"
    return visit.go("approvals", said=f"The call of {decided.tool} {said}.")


def _edited(text: str) -> Json:
    try:
        value = cast("object", json.loads(text))
    except ValueError as error:
        raise ArgumentError(f"The arguments are no JSON: {error}.") from error
    arguments = json_object(value)
    if value != arguments:
        raise ArgumentError("The arguments are no JSON object.")
    return arguments


ROUTES = (Route(path="approvals", show=_show, act=_act),)
