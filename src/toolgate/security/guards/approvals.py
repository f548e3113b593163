"""Calls that need approval: held back, decided once, run once.

An approval applies to one project, caller, tool, definition and set of arguments, for a limited
time. The first such call is stored and answered with its id, or its client is asked. When the
same call is repeated after somebody has approved it, it uses up the approval and runs. The store
lets only one process use up an approval, and the change is on disk before anything is sent: no
call runs twice, whatever is killed and when.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import time
from typing import Any, Protocol

import anyio
import orjson

from toolgate.base.ids import new_id, utc_now
from toolgate.base.signing import Signer
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    CannotAskError,
    DecidedError,
    HandleError,
    LimitError,
    RpcError,
    UnknownApprovalError,
)
from toolgate.security.guards.approval_codes import ApprovalCodes
from toolgate.security.guards.call_guard import CallGuard, GuardedTool
from toolgate.security.guards.guarded_peer import CollectingPeer
from toolgate.security.guards.secret_detection import secret_scanner
from toolgate.settings import ApprovalSettings
from toolgate.store import ApprovalFilter, ApprovalRepository, StoredApproval
from toolgate.types import Caller, Json, Peer, json_object

_PURPOSE = "approval"
APPROVAL_QUESTION = "approval"
# Seconds between checks whether another process has decided. Chosen.
_LOOK_S = 1.0
# Characters of arguments that are shown to people. Chosen.
_SHOWN_CHARS = 4_000
_MOST_COMMENT = 1_000
"""Characters of a comment; chosen: a paragraph."""
_ASKED_CHARS = 1_500
"""Characters of the arguments in a question to a person at a client; chosen: one screen."""


class ApprovalRecorder(Protocol):
    """Writes audit records about approvals and returns their ids."""

    def __call__(
        self, caller: Caller, target: str, detail: Json, *, parent: str = "", record_id: str = ""
    ) -> str:
        """Record one step, under the given id if there is one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Clearance:
    """The permission for a call to run, once it has been used up by `consume`."""

    approval: StoredApproval
    """The approval that it is based on."""

    step: int
    """0: the call begins; else it continues after a question of the tool."""

    params: Json
    """Parameters of the call as sent to the server."""


class Approvals:
    """The approvals of a gateway."""

    def __init__(
        self,
        store: ApprovalRepository,
        signer: Signer,
        *,
        settings: Callable[[], ApprovalSettings],
        note: ApprovalRecorder,
        page: Callable[[], str],
    ) -> None:
        self._store = store
        self._signer = signer
        self._settings = settings
        self._note = note
        self._page = page
        self.codes = ApprovalCodes(signer)
        """Codes that confirm a decision."""
        self._waiting: dict[str, set[anyio.Event]] = {}
        self._listeners: list[Callable[[StoredApproval], None]] = []

    def on_change(self, listener: Callable[[StoredApproval], None]) -> Callable[[], None]:
        """Register a listener for held and decided calls. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def page(self) -> str:
        """Where people decide, for messages: a URL, or a description if the gateway has none."""
        return self._page() or "the Approvals page of Toolgate's console"

    # Calls

    async def request(
        self, caller: Caller, tool: GuardedTool, guard: CallGuard, params: Json, peer: Peer | None
    ) -> Clearance | Json:
        """Return the clearance of a call, or an `input_required` result that asks its client.

        Raises:
            ApprovalError: The call is not approved yet, or was rejected.
            HandleError: The call claims to continue one that it does not belong to.
            LimitError: Too many calls of the caller are waiting.
        """
        arguments = json_object(params.get("arguments"))
        binding = _binding(caller, tool, guard.approver, arguments)
        state = self._state(params, binding)
        plain = {k: v for k, v in params.items() if k not in {"requestState", "inputResponses"}}
        if state.get("kind") == "run":
            return await self._going_on(state, params, plain)
        if state.get("kind") == "ask":
            answer = json_object(json_object(params.get("inputResponses")).get(APPROVAL_QUESTION))
            # The signed state names the approval, so a client cannot answer for another call.
            await self._take_answer(caller, str(state.get("id")), answer)
        approval = await self._parked(caller, tool, guard, arguments, binding)
        if approval.state == "waiting" and guard.approver == "user" and _can_be_asked(peer):
            assert peer is not None
            if peer.era == "modern" or isinstance(peer, CollectingPeer):
                if state.get("kind") != "ask":
                    return self._question(approval, arguments)
            else:
                approval = await self._ask(caller, approval, arguments, peer)
        if approval.state == "waiting" and (wait_s := self._settings().wait_s):
            approval = await self.wait(approval.approval_id, within_s=wait_s)
        if approval.state != "approved":
            raise _not_yet(approval, self.page)
        if approval.edited is not None:
            plain = {**plain, "arguments": json.loads(approval.edited)}
        return Clearance(approval=approval, step=0, params=plain)

    def asked_about(self, request_state: str | None) -> str:
        """Return the id of the approval that an `input_required` result of `request` is about.

        Args:
            request_state: The state of the result; empty is returned for one of a server.
        """
        if request_state is None:
            return ""
        try:
            state = self._signer.check(_PURPOSE, request_state)
        except HandleError:
            return ""
        return str(state.get("id")) if state.get("kind") == "ask" else ""

    async def consume(self, caller: Caller, clearance: Clearance) -> str:
        """Use up the permission to run or continue a call; return the id of its audit record.

        Raises:
            ApprovalError: Another process was faster, or the approval has expired.
            StoreError: The use could not be saved; the call must not run.
        """
        approval = clearance.approval
        taken_at = utc_now()
        # Compare-and-set in the store: exactly one of several callers and processes wins.
        if not await self._store.claim(approval.approval_id, step=clearance.step, now=taken_at):
            raise ApprovalError(
                f"The approval {approval.approval_id} was used already, or is too old.",
                approval_id=approval.approval_id,
                state="used",
                expires_at=approval.expires_at,
                hint="Each approval is good for one call. Call the tool again to ask for a"
                " new approval.",
            )
        # The first step has already recorded the use.
        if clearance.step:
            return approval.record_id
        detail = self._detail(approval, "used") | {"by": approval.decided_by}
        return self._note(caller, approval.tool, detail, parent=approval.record_id)

    def bind_continuation(self, clearance: Clearance, result: Json) -> Json:
        """Bind a question of the tool to its call, so that no other call can answer it."""
        if result.get("resultType") != "input_required":
            return result
        approval = clearance.approval
        wrapped = self._signer.sign(
            _PURPOSE,
            {
                "kind": "run",
                "id": approval.approval_id,
                "b": approval.binding,
                "n": clearance.step + 1,
                "s": result.get("requestState"),
                "exp": int(time() + self._settings().expire_s),
            },
        )
        return {**result, "requestState": wrapped}

    async def wait(self, approval_id: str, *, within_s: float) -> StoredApproval:
        """Return an approval when it is decided, or in its current state after a timeout.

        Raises:
            UnknownApprovalError: No approval has this id.
        """
        event = anyio.Event()
        self._waiting.setdefault(approval_id, set()).add(event)
        try:
            with anyio.move_on_after(within_s):
                while (await self._existing(approval_id)).state == "waiting":
                    # Another process may decide, which sends no notification.
                    with anyio.move_on_after(_LOOK_S):
                        await event.wait()
            return await self._existing(approval_id)
        finally:
            events = self._waiting.get(approval_id, set())
            events.discard(event)
            if not events:
                self._waiting.pop(approval_id, None)

    # People

    async def search(self, filters: ApprovalFilter) -> list[StoredApproval]:
        """Return the approvals that match, newest first."""
        return await self._store.select(filters, now=utc_now())

    async def get(self, approval_id: str) -> StoredApproval:
        """Return an approval.

        Raises:
            UnknownApprovalError: No approval has this id.
        """
        return await self._existing(approval_id)

    def check_waiting(self, approval: StoredApproval) -> None:
        """Refuse an approval that can no longer be decided.

        Raises:
            DecidedError: It has been decided, or has expired.
        """
        if approval.state != "waiting":
            raise _decided(approval)

    async def decide(
        self,
        caller: Caller,
        approval_id: str,
        *,
        approve: bool,
        by: str,
        via: str,
        comment: str = "",
        edited: Json | None = None,
    ) -> StoredApproval:
        """Approve or reject a waiting call; with `edited`, it runs with other arguments.

        Raises:
            UnknownApprovalError: No approval has this id.
            DecidedError: It has been decided, or has expired.
        """
        approval = await self._existing(approval_id)
        if len(comment) > _MOST_COMMENT:
            raise ArgumentError(
                f"The comment has {len(comment):,} characters.",
                allowed=f"Allowed: {_MOST_COMMENT:,}.",
            )
        if edited is not None and not approve:
            raise ArgumentError(
                "A rejected call cannot get new arguments.",
                hint="Approve it, or leave the arguments out.",
            )
        decided = await self._store.decide(
            approval_id,
            state="approved" if approve else "rejected",
            by=by,
            via=via,
            comment=comment,
            edited=None if edited is None else orjson.dumps(edited).decode(),
            now=utc_now(),
        )
        if not decided:
            raise _decided(await self._existing(approval_id))
        approval = await self._existing(approval_id)
        detail = self._detail(approval, approval.state) | {"by": by, "via": via}
        if comment:
            detail["comment"] = comment
        if edited is not None:
            detail["edited_sha256"] = hash_of(edited)
        self._note(caller, approval.tool, detail, parent=approval.record_id)
        self._tell(approval)
        return approval

    # Internals

    async def _existing(self, approval_id: str) -> StoredApproval:
        approval = await self._store.get(approval_id, now=utc_now())
        if approval is None:
            raise UnknownApprovalError(
                f"There is no approval {approval_id[:64]!r}.", hint="See: toolgate approvals list"
            )
        return approval

    def _state(self, params: Json, binding: str) -> Json:
        """Return the state that a call brings back; empty: the call begins."""
        state_token = params.get("requestState")
        if state_token is None and "inputResponses" not in params:
            return {}
        try:
            payload = self._signer.check(_PURPOSE, str(state_token))
        except HandleError:
            payload = {}
        is_late = int(payload.get("exp") or 0) < time()
        # The binding covers caller, tool, definition and arguments: a changed call starts over.
        if payload.get("b") != binding or is_late:
            raise HandleError(
                "The request claims to go on with a call that was not approved, or to which other"
                " arguments belong.",
                hint="Call the tool again without requestState and inputResponses.",
            )
        return payload

    async def _going_on(self, state: Json, params: Json, plain: Json) -> Clearance:
        approval = await self._existing(str(state.get("id")))
        if approval.edited is not None:
            plain = {**plain, "arguments": json.loads(approval.edited)}
        if state.get("s") is not None:
            plain["requestState"] = state["s"]
        if "inputResponses" in params:
            plain["inputResponses"] = params["inputResponses"]
        return Clearance(approval=approval, step=int(state.get("n") or 1), params=plain)

    async def _parked(
        self, caller: Caller, tool: GuardedTool, guard: CallGuard, arguments: Json, binding: str
    ) -> StoredApproval:
        rules = self._settings()
        approval_id = new_id()
        draft = StoredApproval(
            approval_id=approval_id,
            binding=binding,
            project_id=caller.project_id,
            caller_id=caller.caller_id,
            who=_name(caller),
            client=caller.client,
            conversation=caller.conversation,
            tool=tool.key,
            digest=tool.digest,
            arguments=_display_text(arguments),
            arguments_sha256=hash_of(arguments),
            reason=guard.reason,
            approver=guard.approver or "user",
            created_at=utc_now(),
            expires_at=utc_now(plus_s=rules.expire_s),
            record_id=new_id(),
        )
        # A repeated call finds the waiting one, so impatient clients do not fill the queue.
        approval = await self._store.add_or_get(draft)
        if approval.approval_id != approval_id:
            return approval
        caller_filter = ApprovalFilter(
            state="waiting",
            project_id=caller.project_id,
            caller_id=caller.caller_id,
            limit=rules.max_waiting + 1,
        )
        # Counted after adding, or parallel calls could all pass the check.
        if len(await self.search(caller_filter)) > rules.max_waiting:
            await self._store.decide(
                approval_id,
                state="rejected",
                by="toolgate",
                via="limit",
                comment="Too many calls wait already.",
                edited=None,
                now=utc_now(),
            )
            raise LimitError(
                f"{rules.max_waiting} calls of yours wait for approval already.",
                hint="Wait until some of them are decided.",
            )
        detail = self._detail(approval, "waiting")
        self._note(caller, tool.key, detail, record_id=approval.record_id)
        self._tell(approval)
        return approval

    async def _take_answer(self, caller: Caller, approval_id: str, answer: Json) -> None:
        """Apply the answer of the person at the client, unless they left the question open."""
        approve = _approved_in(answer)
        if approve is None:
            return
        content = json_object(answer.get("content"))
        comment = str(content.get("comment") or "")[:_MOST_COMMENT]
        with suppress(DecidedError):  # an earlier decision counts
            await self.decide(
                caller,
                approval_id,
                approve=approve,
                by=_name(caller),
                via="client",
                comment=comment,
            )

    async def ask_together(self, peer: Peer, questions: Json, approval_ids: Sequence[str]) -> Json:
        """Ask the person at a client of the handshake era, until all approvals are decided.

        Without approvals, until everything is answered.

        Args:
            peer: The client.
            questions: The questions, by key, as in an `input_required` result.
            approval_ids: The approvals that they are about.

        Returns:
            The answers by key, without those that the client could not give.
        """
        answers: Json = {}
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                for key, question in questions.items():
                    asked = json_object(question)
                    with suppress(CannotAskError, RpcError):
                        answers[key] = await peer.ask(
                            str(asked["method"]), json_object(asked["params"])
                        )
                tasks.cancel_scope.cancel()

            tasks.start_soon(ask)
            for approval_id in approval_ids:
                await self.wait(approval_id, within_s=self._settings().expire_s)
            if approval_ids:
                tasks.cancel_scope.cancel()
        return answers

    async def _ask(
        self, caller: Caller, approval: StoredApproval, arguments: Json, peer: Peer
    ) -> StoredApproval:
        """Ask the person at a client of the handshake era, until somebody has decided."""
        questions = {APPROVAL_QUESTION: _form_question(approval, arguments)}
        answers = await self.ask_together(peer, questions, [approval.approval_id])
        answer = json_object(answers.get(APPROVAL_QUESTION))
        await self._take_answer(caller, approval.approval_id, answer)
        return await self._existing(approval.approval_id)

    def _question(self, approval: StoredApproval, arguments: Json) -> Json:
        state = {
            "kind": "ask",
            "id": approval.approval_id,
            "b": approval.binding,
            "exp": int(time() + self._settings().expire_s),
        }
        return {
            "resultType": "input_required",
            "inputRequests": {APPROVAL_QUESTION: _form_question(approval, arguments)},
            "requestState": self._signer.sign(_PURPOSE, state),
        }

    def _detail(self, approval: StoredApproval, state: str) -> Json:
        return {
            "approval": approval.approval_id,
            "state": state,
            "arguments_sha256": approval.arguments_sha256,
            "approver": approval.approver,
        }

    def _tell(self, approval: StoredApproval) -> None:
        for event in self._waiting.get(approval.approval_id, set()):
            if approval.state != "waiting":
                event.set()
        for listener in list(self._listeners):
            listener(approval)


def hash_of(arguments: Mapping[str, Any]) -> str:
    """Return the SHA-256 of arguments in hex, whatever the order of their keys."""
    try:
        # Sorted, since clients may repeat a call with its keys in another order.
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # numbers beyond 64 bits, half of a surrogate pair
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest()


def _binding(caller: Caller, tool: GuardedTool, approver: str, arguments: Json) -> str:
    who = (caller.project_id, caller.caller_id, approver)
    parts = (*who, tool.key, tool.digest, hash_of(arguments))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _name(caller: Caller) -> str:
    """Return the name of a caller for display."""
    identity = caller.identity
    return identity.user or identity.token or caller.caller_id


def _display_text(arguments: Json) -> str:
    """Format arguments for display: shortened and without secrets."""
    # Masked, since the text is stored and shown to people who must not see the secrets.
    masked: Any = secret_scanner().mask_json(arguments, Counter())
    text = json.dumps(masked, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _can_be_asked(peer: Peer | None) -> bool:
    """Return whether the client can show a form to a person."""
    if peer is None or peer.capabilities.get("elicitation") is None:
        return False
    # An empty object means form mode, as in revisions before URL mode.
    modes = json_object(peer.capabilities["elicitation"])
    return "form" in modes or "url" not in modes


def _form_question(approval: StoredApproval, arguments: Json) -> Json:
    return {"method": "elicitation/create", "params": _form(approval, arguments)}


def _form(approval: StoredApproval, arguments: Json) -> Json:
    display = _display_text(arguments)
    if len(display) > _ASKED_CHARS:
        display = f"{display[: _ASKED_CHARS - 1]}…"
    why = f"\n{approval.reason}" if approval.reason else ""
    return {
        "message": f"Run {approval.tool} with {display}?{why}\n"
        f"(Toolgate, approval {approval.approval_id})",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "approve": {
                    "type": "boolean",
                    "title": "Run it",
                    "description": "Whether the call is made, once, with these arguments.",
                    "default": True,
                },
                "comment": {"type": "string", "title": "Comment", "maxLength": _MOST_COMMENT},
            },
        },
    }


def _approved_in(answer: Json) -> bool | None:
    """Return whether an answer approves; None: the question was left open."""
    match answer.get("action"):
        case "accept":
            return json_object(answer.get("content")).get("approve") is not False
        case "decline":
            return False
        case _:
            return None


def _not_yet(approval: StoredApproval, page: str) -> ApprovalError:
    if approval.state == "rejected":
        said = approval.comment.rstrip()
        end = "" if said.endswith((".", "!", "?")) else "."
        comment = f' They said: "{said}{end}"' if said else ""
        return ApprovalError(
            f"{approval.decided_by} has rejected this call of {approval.tool}.{comment}",
            approval_id=approval.approval_id,
            state="rejected",
            expires_at=approval.expires_at,
            hint="Do not call it again with the same arguments.",
        )
    if approval.state == "waiting":
        why = f" {approval.reason}" if approval.reason else ""
        return ApprovalError(
            f"A person has to approve this call of {approval.tool} first.{why} It waits as"
            f" approval {approval.approval_id}, until {approval.expires_at}.",
            approval_id=approval.approval_id,
            state="waiting",
            expires_at=approval.expires_at,
            # No command: a model with a shell would run it.
            hint=f"Ask the user to decide on {page}. Once the call is approved, make it again with"
            " the same arguments: it runs once.",
        )
    return ApprovalError(
        f"The approval {approval.approval_id} is {approval.state}.",
        approval_id=approval.approval_id,
        state=approval.state,
        expires_at=approval.expires_at,
        hint="Call the tool again to ask for a new approval.",
    )


def _decided(approval: StoredApproval) -> DecidedError:
    if approval.state == "expired":
        return DecidedError(
            f"The approval {approval.approval_id} expired at {approval.expires_at}.",
            hint="If the call is still wanted, its caller has to repeat it.",
        )
    return DecidedError(
        f"{approval.decided_by} has decided about {approval.approval_id} at {approval.decided_at}:"
        f" it is {approval.state}.",
        hint="See: toolgate approvals list",
    )
