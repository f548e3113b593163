"""Approvals: calls that wait for a person's decision, as each caller may see and decide them."""

from collections.abc import Callable
from dataclasses import replace

from toolgate.errors import ForbiddenError, UnknownApprovalError
from toolgate.gateway.execution import check_arguments
from toolgate.gateway.parts import GatewayContext
from toolgate.store import ApprovalFilter, ApprovalState, StoredApproval
from toolgate.types import Caller, Json, json_object

_MAX_ID_CHARS = 64
"""Characters of an unknown approval id that an error or a record repeats (chosen)."""


class ApprovalService:
    """Lists and decides approvals."""

    def __init__(self, context: GatewayContext) -> None:
        self._catalog = context.catalog
        self._access = context.access
        self._approvals = context.guards.approvals
        self._receipts = context.receipts

    @property
    def page(self) -> str:
        """Where people decide: a URL, or a name if the gateway does not listen on one."""
        return self._approvals.page

    async def search(
        self,
        caller: Caller,
        *,
        state: ApprovalState | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[StoredApproval]:
        """List approvals, newest first.

        Callers see their own; with the right `approve`, those of the project; with `manage`,
        all.
        """
        criteria = ApprovalFilter(state=state, after=after, limit=limit)
        if not self._has_right(caller, "manage"):
            criteria = replace(criteria, project_id=caller.project_id)
            if not self._has_right(caller, "approve"):
                criteria = replace(criteria, caller_id=caller.caller_id)
        return await self._approvals.search(criteria)

    async def get(self, caller: Caller, approval_id: str) -> StoredApproval:
        """Return an approval.

        Raises:
            UnknownApprovalError: The caller can see no approval with this id.
        """
        approval = await self._approvals.get(approval_id)
        if not self._has_right(caller, "manage"):
            in_project = approval.project_id == caller.project_id
            is_requester = approval.caller_id == caller.caller_id
            if not in_project or not (is_requester or self._has_right(caller, "approve")):
                raise UnknownApprovalError(f"There is no approval {approval_id[:_MAX_ID_CHARS]!r}.")
        return approval

    async def decide(
        self,
        caller: Caller,
        approval_id: str,
        *,
        approve: bool,
        via: str,
        code: str = "",
        comment: str = "",
        arguments: Json | None = None,
    ) -> StoredApproval:
        """Approve or reject a waiting call; `arguments` replace the requested ones.

        Callers approve their own calls in the console, or elsewhere with the call's one-time
        `code`: otherwise an agent could approve its own requests.

        Raises:
            ForbiddenError: The caller may not approve, or may not approve its own calls, or the
                code is missing or wrong.
            UnknownApprovalError: The caller can see no approval with this id.
            DecidedError: It is already decided or has expired.
            ArgumentError: The arguments do not match the tool's schema.
        """
        with self._receipts.refusals(caller, "approval", approval_id[:_MAX_ID_CHARS]):
            approval = await self.get(caller, approval_id)
            self._check_may_decide(caller, approval)
            self._approvals.check_waiting(approval)
            if approve and via != "console" and _may_be_requester(caller, approval):
                self._approvals.codes.check(approval_id, code, page=self._approvals.page)
            if arguments is not None:
                self._check_arguments(approval, arguments)
        await self._receipts.wait_written(caller)
        decided = await self._approvals.decide(
            caller,
            approval_id,
            approve=approve,
            by=caller.identity.user or caller.identity.token or caller.caller_id,
            via=via,
            comment=comment,
            edited=arguments,
        )
        await self._receipts.wait_written(caller)
        return decided

    def code(self, caller: Caller, approval: StoredApproval, *, via: str) -> str:
        """The one-time code of a waiting approval; empty if the caller may not see it.

        The console shows it to everyone who may decide. All other channels show it only to
        approvers other than the caller whose call waits.
        """
        if approval.state != "waiting" or not self._may_approve(caller):
            return ""
        if via != "console" and _may_be_requester(caller, approval):
            return ""
        return self._approvals.codes.code_of(approval.approval_id)

    def on_change(self, listener: Callable[[StoredApproval], None]) -> Callable[[], None]:
        """Register a listener for new and decided approvals. Returns a function that removes it."""
        return self._approvals.on_change(listener)

    async def wait(self, approval_id: str, *, within_s: float) -> StoredApproval:
        """Wait up to `within_s` seconds for a decision, and return the approval as it is then."""
        return await self._approvals.wait(approval_id, within_s=within_s)

    def _check_may_decide(self, caller: Caller, approval: StoredApproval) -> None:
        if not self._may_approve(caller):
            raise ForbiddenError(
                f"{caller.caller_id!r} may not approve calls.",
                hint="Ask somebody who has the right approve, or an administrator.",
            )
        is_requester = approval.caller_id == caller.caller_id and caller.identity.kind != "local"
        if approval.approver == "admin" and is_requester:
            raise ForbiddenError(
                "You may not approve your own calls.", hint="Ask another administrator."
            )

    def _may_approve(self, caller: Caller) -> bool:
        return self._has_right(caller, "approve") or self._has_right(caller, "manage")

    def _check_arguments(self, approval: StoredApproval, arguments: Json) -> None:
        entry = self._catalog.snapshot.tool(approval.tool)
        if entry is not None:
            # Approvers see what is sent, including the values that an override hides from callers.
            schema = json_object(entry.listed_definition.get("inputSchema"))
            digest = f"{entry.digest} as listed" if entry.listed else entry.digest
            check_arguments(schema, arguments, digest=digest, tool=entry.key)

    def _has_right(self, caller: Caller, right: str) -> bool:
        return self._access.decide(caller, "right", right).allowed


def _may_be_requester(caller: Caller, approval: StoredApproval) -> bool:
    """Whether a caller may be the one who made the call: the same caller, or any local program."""
    return caller.caller_id == approval.caller_id or caller.identity.kind == "local"
