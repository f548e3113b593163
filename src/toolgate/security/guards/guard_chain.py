"""Runs the guards of a call: before it is sent, and on its result."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio.to_thread

from toolgate.errors import RpcError
from toolgate.security.guards.approvals import Approvals, Clearance
from toolgate.security.guards.call_guard import ArgumentKind, CallGuard, CallGuards, GuardedTool
from toolgate.security.guards.guarded_peer import GuardedPeer
from toolgate.types import Caller, Json, Peer, json_array, json_object

# Characters of a value that are inspected in the event loop; larger ones go to a thread. Chosen.
_SMALL: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class GuardedCall:
    """A call that passed its guards."""

    params: Json
    """The parameters as sent to the server."""

    guard: CallGuard | None = None
    """The guard that checks the result; None: it is not checked."""

    clearance: Clearance | None = None
    """The clearance to use up before the call is sent; None: it needs no approval."""

    notes: Json = field(default_factory=dict[str, Any])
    """Notes for the audit."""

    async def arguments(self, key: str, arguments: Json, kind: ArgumentKind) -> tuple[Json, Json]:
        """Check arguments; return them as passed on, and notes for the audit.

        Raises:
            GuardError: The arguments are not allowed.
        """
        if self.guard is None:
            return arguments, {}
        check = partial(self.guard.arguments, kind=kind)
        if self.guard.reads_files:
            return await anyio.to_thread.run_sync(check, key, arguments)
        return await _aside(check, key, arguments)

    async def answers(self, key: str, answers: Json) -> tuple[Json, Json]:
        """Check a person's answers to questions of the server, like `arguments`.

        Raises:
            GuardError: The answers are not allowed.
        """
        return (
            (answers, {}) if self.guard is None else await _aside(self.guard.answers, key, answers)
        )

    async def result(self, key: str, result: Json) -> tuple[Json, Json]:
        """Check a result; return it as passed on, and notes for the audit.

        Raises:
            GuardError: The result is not allowed.
        """
        if self.guard is None or not self.guard.looks_at_results:
            return result, {}
        return await _aside(self.guard.result, key, result)

    def peer(self, key: str, peer: Peer | None) -> Peer | None:
        """Return the channel back to the client, guarded for use by the server."""
        if peer is None or self.guard is None or not self.guard.looks_for_secrets:
            return peer
        return GuardedPeer(peer, self.guard, key, _aside)

    def error(self, error: RpcError) -> RpcError:
        """Return an error of the server as passed on."""
        return error if self.guard is None else self.guard.error(error)


class CallGuardChain:
    """The guards and approvals of a gateway."""

    def __init__(self, guards: CallGuards, approvals: Approvals) -> None:
        self.guards = guards
        """The configured guards."""
        self.approvals = approvals
        """Calls that wait for a decision by a person."""

    async def begin(
        self, caller: Caller, tool: GuardedTool, params: Json, peer: Peer | None
    ) -> GuardedCall | Json:
        """Return the guarded call, or a result that asks its client for approval.

        Raises:
            GuardError: The call is not allowed; an `ApprovalError` if it needs approval.
            HandleError: The call claims to continue one that it does not belong to.
        """
        guard = self.guards.for_tool(caller.project_id, tool)
        if guard is None:
            return GuardedCall(params=params)
        passed = GuardedCall(params=params, guard=guard)
        if guard.approver:
            # Nobody is asked about a call that would be refused anyway.
            await passed.arguments(tool.key, json_object(params.get("arguments")), "call")
            clearance = await self.approvals.request(caller, tool, guard, params, peer)
            if not isinstance(clearance, Clearance):
                return clearance
            passed = replace(passed, params=clearance.params, clearance=clearance)
        approved_arguments = json_object(passed.params.get("arguments"))
        arguments, notes = await passed.arguments(tool.key, approved_arguments, "call")
        if arguments is not approved_arguments:
            passed = replace(passed, params={**passed.params, "arguments": arguments})
        if answers := json_object(passed.params.get("inputResponses")):
            masked, more = await passed.answers(tool.key, answers)
            passed = replace(passed, params={**passed.params, "inputResponses": masked})
            notes = {**more, **notes}
        return replace(passed, notes=notes)

    def for_server(self, caller: Caller, server: str) -> GuardedCall:
        """Return the guarded request for a resource or prompt of a server."""
        return GuardedCall(params={}, guard=self.guards.for_server(caller.project_id, server))


async def _aside(
    inspect: Callable[[str, Json], tuple[Json, Json]], key: str, value: Json
) -> tuple[Json, Json]:
    """Inspect a value; a large one in a thread, so that it does not block other calls."""
    if _is_small(value):
        return inspect(key, value)
    return await anyio.to_thread.run_sync(inspect, key, value)


def _is_small(value: object) -> bool:
    """Return whether a value is quick to inspect; stops counting once it is not."""
    left = _SMALL
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        left -= len(item) if isinstance(item, str) else 8
        if left < 0:
            return False
        waiting += json_object(item).values()
        waiting += json_array(item)
    return True
