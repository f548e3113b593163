"""Runs a call's guards: before it is sent, and on its result."""

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

__all__ = ["CallGuardChain", "GuardedCall"]

# Characters of a value that are inspected in the loop; larger ones go to a thread. Chosen.
_SMALL: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class GuardedCall:
    """A call that passed its guards."""

    params: Json
    """As they go to the server."""

    guard: CallGuard | None = None
    """What looks at the result; None: nothing does."""

    clearance: Clearance | None = None
    """What has to be taken before the call is made; None: nobody had to approve it."""

    notes: Json = field(default_factory=dict[str, Any])
    """What is to be recorded of it."""

    async def arguments(self, key: str, arguments: Json, kind: ArgumentKind) -> tuple[Json, Json]:
        """Arguments as they go on, and what is to be recorded of them.

        Raises:
            GuardError: They may not go on.
        """
        if self.guard is None:
            return arguments, {}
        check = partial(self.guard.arguments, kind=kind)
        if self.guard.reads_files:
            return await anyio.to_thread.run_sync(check, key, arguments)
        return await _aside(check, key, arguments)

    async def answers(self, key: str, answers: Json) -> tuple[Json, Json]:
        """Answers of a person to questions of the server, as `arguments`.

        Raises:
            GuardError: They may not go on.
        """
        return (
            (answers, {}) if self.guard is None else await _aside(self.guard.answers, key, answers)
        )

    async def result(self, key: str, result: Json) -> tuple[Json, Json]:
        """A result as it goes on, and what is to be recorded of it.

        Raises:
            GuardError: It may not go on.
        """
        if self.guard is None or not self.guard.looks_at_results:
            return result, {}
        return await _aside(self.guard.result, key, result)

    def peer(self, key: str, peer: Peer | None) -> Peer | None:
        """The way back to whoever made the call, as the server may use it."""
        if peer is None or self.guard is None or not self.guard.looks_for_secrets:
            return peer
        return GuardedPeer(peer, self.guard, key, _aside)

    def error(self, error: RpcError) -> RpcError:
        """An error of the server as it goes on."""
        return error if self.guard is None else self.guard.error(error)


class CallGuardChain:
    """The guards and the approvals of a gateway."""

    def __init__(self, guards: CallGuards, approvals: Approvals) -> None:
        self.guards = guards
        """What the configuration says."""
        self.approvals = approvals
        """Calls that wait for a person."""

    async def begin(
        self, caller: Caller, tool: GuardedTool, params: Json, peer: Peer | None
    ) -> GuardedCall | Json:
        """The guarded call, or the result by which its client is asked for approval.

        Raises:
            GuardError: It may not go on; an `ApprovalError` where a person has to say yes.
            HandleError: It claims to go on with a call that it does not.
        """
        guard = self.guards.for_tool(caller.project_id, tool)
        if guard is None:
            return GuardedCall(params=params)
        passed = GuardedCall(params=params, guard=guard)
        if guard.approver:
            # Nobody is asked about a call that would not go on anyway.
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
        """A request for a resource or a prompt of a server."""
        return GuardedCall(params={}, guard=self.guards.for_server(caller.project_id, server))


async def _aside(
    inspect: Callable[[str, Json], tuple[Json, Json]], key: str, value: Json
) -> tuple[Json, Json]:
    """Look at a value; at a large one in a thread, so that other calls go on."""
    if _is_small(value):
        return inspect(key, value)
    return await anyio.to_thread.run_sync(inspect, key, value)


def _is_small(value: object) -> bool:
    """Whether looking at a value takes a moment; stops counting as soon as it does not."""
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
