"""Runs models' programs; each of their calls is processed like any other call."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from toolgate.audit import calls_of
from toolgate.base import json_text
from toolgate.base.ids import new_id, utc_now
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    HandleError,
    ProgramError,
    ToolgateError,
    UnknownApprovalError,
)
from toolgate.gateway.calls import CallService
from toolgate.gateway.discovery import DiscoveryService
from toolgate.gateway.listing.program_offer import PROGRAM_TOOL, ProgramOffer
from toolgate.gateway.meta_tools import ProgramArguments, read_program
from toolgate.gateway.parts import GatewayContext, ResultParts
from toolgate.gateway.programs.answers import MAX_LOG_CHARS, answer_of, continued, result_of
from toolgate.gateway.programs.approval_list import continuation_of, parked_error, questions_of
from toolgate.gateway.programs.deadline import ProgramDeadline
from toolgate.gateway.programs.helpers import HELPER_FUNCTIONS, ProgramHelpers, is_helper
from toolgate.gateway.programs.preparation import ProgramPreparation
from toolgate.gateway.programs.run import Finished, Outcome, Parked, ParkedCall, ProgramRun
from toolgate.gateway.programs.saved import error_of_saved, ids_of_saved
from toolgate.gateway.programs.type_stubs import named_arguments
from toolgate.gateway.results.jq_filter import JqFilter
from toolgate.gateway.results.page_store import PagedResults
from toolgate.models.sandboxes import (
    CallFailure,
    CallValue,
    Execution,
    HostCall,
    Sandbox,
)
from toolgate.security.guards import CollectingPeer
from toolgate.settings import ProgramSettings
from toolgate.store import StoredProgram
from toolgate.types import Caller, Json, Peer, json_array, json_object

_WHOLE_RESULT_TOKENS = 1_000_000
"""So large that results are not cut here: the caller of the tool cuts them."""

_PURPOSE = "program"

_NESTED: ContextVar[bool] = ContextVar("toolgate_nested", default=False)
"""Whether a program runs: nested programs could use up all processes of the sandbox."""


PrepareArguments: TypeAlias = Callable[[str, Json], Json]
"""Changes the arguments of a program's call, given the tool's key and the arguments."""


def _unchanged(key: str, arguments: Json) -> Json:
    del key
    return arguments


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Shared data for the calls of one run."""

    caller: Caller
    program_id: str
    names: Mapping[str, str]
    peer: Peer | None
    continuations: Mapping[int, Json]
    """Parameters with which parked calls continue, by call."""

    prepare: PrepareArguments
    """Changes the arguments of a call, given its key, before they are checked."""

    n_calls: int = 0
    """Calls made before it was parked."""

    printed: str = ""
    """What it printed before it was parked."""

    resumed: StoredProgram | None = None
    """What was parked; None: the program has not been parked."""

    resumed_calls: frozenset[int] = frozenset()
    """The calls that it was parked for."""

    saved_ids: Sequence[str] = ()
    """The ids under which it may be parked if it is a tool, so that the same call resumes it."""


class ProgramService:
    """Runs programs, parks those that wait for a person, and resumes them."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        offer: ProgramOffer,
        calls: CallService,
        discovery: DiscoveryService,
        jq: JqFilter,
        pages: PagedResults,
        parts: ResultParts,
    ) -> None:
        self._offer = offer
        self._catalog = context.catalog
        self._visible = context.visible
        self._calls = calls
        self._helpers = ProgramHelpers(context, discovery=discovery, jq=jq, store=parts.store)
        self._pages = pages
        self._receipts = context.receipts
        self._approvals = context.guards.approvals
        self._store = parts.store
        self._signer = parts.signer
        self._open_sandbox = parts.open_sandbox
        self._sandbox: Sandbox | None = None
        self._preparation = ProgramPreparation(context, offer)

    @property
    def _rules(self) -> ProgramSettings:
        return self._offer.rules

    def is_offered(self) -> bool:
        """Whether models that find tools by searching are also offered programs."""
        tools = len(self._catalog.snapshot.tools)
        return self._offer.is_listed(lists_all=False, tools=tools)

    async def aclose(self) -> None:
        """Stop the processes of the sandbox."""
        if self._sandbox is not None:
            await self._sandbox.aclose()

    async def run(
        self,
        caller: Caller,
        request: ProgramArguments,
        params: Json,
        peer: Peer | None,
        *,
        prepare: PrepareArguments = _unchanged,
        saved_ids: Sequence[str] = (),
    ) -> Json:
        """Run a program, or resume one that waited.

        Args:
            caller: The caller that owns the program.
            request: The program.
            params: Parameters of the request, including the client's answers to questions.
            peer: The client; None if it can be neither asked nor notified.
            prepare: Changes the arguments of the program's calls.
            saved_ids: Ids under which a program that is a tool may be parked; empty for others.

        Returns:
            The `tools/call` result: the program's result and printed output; with
            `input_required`, questions to the person at the client.

        Raises:
            ProgramError: It cannot be run or failed, or waits for a person.
            HandleError: The caller has no such program.
        """
        if not self._offer.is_callable():
            if not self._offer.is_installed():
                hint = 'Install the extra "programs", or run tools with tool_execute.'
            elif saved_ids:
                hint = "This tool is a program: an administrator can set programs.offer."
            else:
                hint = "Run tools with tool_execute."
            raise ProgramError("Code mode is switched off.", hint=hint)
        if _NESTED.get():
            raise ProgramError(
                "A program cannot run another one.", hint="Call the tools of that one in it."
            )
        longest_s = self._rules.timeout_s
        deadline = ProgramDeadline(min(request.timeout_s or longest_s, longest_s))
        if peer is not None and peer.era == "handshake":
            peer = CollectingPeer(peer, asking=deadline.paused)
        token = _NESTED.set(True)
        try:
            return await self._run(caller, request, params, peer, prepare, saved_ids, deadline)
        finally:
            _NESTED.reset(token)

    async def run_saved(
        self, caller: Caller, code: str, inputs: Json, continuation: Json, peer: Peer | None
    ) -> Json:
        """Run a program that is a tool; an object becomes structured content, as for other tools.

        If the same call parked it, it is resumed. Of several that the same call parked, since they
        ran at the same time, the one that has waited longest is resumed.

        Args:
            caller: The caller.
            code: The program.
            inputs: The arguments of the tool.
            continuation: The client's answers to questions, with their state; empty for a new call.
            peer: The client; None if it can be neither asked nor notified.

        Raises:
            ProgramError: As `run`.
            HandleError: The state belongs to another call.
        """
        ids = ids_of_saved(caller, code, inputs)
        state = continuation.get("requestState")
        if state is not None and self._id_in(state) not in ids:
            raise HandleError(
                "The request claims to continue a call, but its state is of another call.",
                hint="Call the tool again without requestState and inputResponses.",
            )
        programs = self._store.approvals.programs
        waiting = await programs.first_waiting(ids, now=utc_now())
        parked = None if waiting is None else await programs.get(waiting)
        whole: Json = {"code": code, "inputs": inputs} if waiting is None else {"resume": waiting}
        request = read_program({**whole, "maxResultTokens": _WHOLE_RESULT_TOKENS})
        try:
            result = await self.run(caller, request, continuation, peer, saved_ids=ids)
        except ProgramError as error:
            raise error_of_saved(error, code) from error.__cause__
        answer = answer_of(result)
        value = json_object(answer.value) if isinstance(answer, CallValue) else {}
        if value:
            result = {**result, "structuredContent": value}
        return result if parked is None or state is not None else continued(result, parked, caller)

    async def _run(
        self,
        caller: Caller,
        request: ProgramArguments,
        params: Json,
        peer: Peer | None,
        prepare: PrepareArguments,
        saved_ids: Sequence[str],
        deadline: ProgramDeadline,
    ) -> Json:
        state = params.get("requestState")
        program_id = request.resume
        if state is not None:
            program_id = self._id_in(state)
        if program_id:
            return await self._resume(
                caller, request, program_id, params, peer, prepare, saved_ids, deadline
            )
        program = self._preparation.program(caller, request)
        if request.dry_run:
            with deadline, self._advising(caller, request.code):
                await self._opened().check(program)
            return self._preparation.tools_named(caller, program)
        run = _Run(
            caller=caller,
            program_id=new_id(),
            names=self._preparation.names,
            peer=peer,
            continuations={},
            prepare=prepare,
            saved_ids=saved_ids,
        )
        detail: Json = {"code_sha256": hashlib.sha256(request.code.encode()).hexdigest()}
        receipt = self._receipts.around(
            caller, "program", "", PROGRAM_TOOL, arguments={"code": request.code}, detail=detail
        )
        async with receipt as done:
            with (
                calls_of(receipt.record_id),
                deadline,
                self._advising(caller, request.code),
            ):
                async with self._opened().start(program) as execution:
                    result = await self._finish(run, request, execution, {}, receipt.record_id)
            done(result)
        return result

    async def _resume(
        self,
        caller: Caller,
        request: ProgramArguments,
        program_id: str,
        params: Json,
        peer: Peer | None,
        prepare: PrepareArguments,
        saved_ids: Sequence[str],
        deadline: ProgramDeadline,
    ) -> Json:
        stored = await self._store.approvals.programs.get(program_id)
        is_own = stored is not None and (stored.project_id, stored.caller_id) == (
            caller.project_id,
            caller.caller_id,
        )
        now = utc_now()
        if stored is None or not is_own or stored.expires_at <= now:
            raise HandleError(
                f"There is no program {program_id[:64]!r} that is parked: it has ended, was"
                f" deleted, or waited for more than {self._rules.keep_s:g} seconds.",
                hint="Before you run it again, look at what its calls changed.",
            )
        body = json_object(json_text.loads(stored.body))
        snapshot = b64decode(str(body.get("snapshot")))
        self._check_genuine(program_id, body, snapshot)
        parked = [ParkedCall(**call) for call in json_array(body["calls"])]
        await self._check_tools(caller, program_id, parked, params, is_saved=bool(saved_ids))
        if "requestState" not in params and _can_answer(peer) and _has_open_question(parked):
            return self._question(program_id, parked)
        # If several requests resume it, in any process, only one succeeds.
        if not await self._store.approvals.programs.claim(program_id, now=now):
            raise ProgramError(
                f"The program {program_id} is being run, or its process ended while it ran.",
                hint="The audit log has the calls that it made. Run what is left as a new program.",
            )
        responses = json_object(params.get("inputResponses"))
        run = _Run(
            caller=caller,
            program_id=program_id,
            names=self._preparation.names,
            peer=peer,
            continuations=_continuations(parked, responses),
            n_calls=int(body["n_calls"]),
            printed=str(body.get("printed", "")),
            resumed=stored,
            resumed_calls=frozenset(call.call_id for call in parked),
            saved_ids=saved_ids,
            prepare=prepare,
        )
        again = _repeated(parked)
        parent = str(body["record"])
        receipt = self._receipts.around(
            caller, "program", "", PROGRAM_TOOL, detail={"resumed": program_id, "began_as": parent}
        )
        try:
            async with receipt as done:
                with calls_of(parent), deadline:
                    async with self._opened().restore(snapshot, HELPER_FUNCTIONS) as execution:
                        result = await self._finish(run, request, execution, again, parent)
                done(result)
        except ProgramError as error:
            if not error.is_waiting:
                await self._store.approvals.programs.remove(program_id)
            raise
        if result.get("resultType") != "input_required":
            await self._store.approvals.programs.remove(program_id)
        return result

    async def _may_run(self, call: ParkedCall) -> bool:
        """Whether no approval of a parked call is still open or refused."""
        if not call.approval_id:
            return True
        try:
            return (await self._approvals.get(call.approval_id)).state == "approved"
        except UnknownApprovalError:
            return False

    async def _check_tools(
        self,
        caller: Caller,
        program_id: str,
        calls: Iterable[ParkedCall],
        params: Json,
        *,
        is_saved: bool,
    ) -> None:
        """Leave a program parked while it cannot make the calls that it waits to make.

        A server may be starting or down, or the tool may be quarantined: continued, the program
        would fail, and what it has done so far would be lost.
        """
        for call in calls:
            await self._visible.wait_first_listing(caller, call.key)
            try:
                entry = self._visible.authorize(caller, call.key).entry
                if "requestState" in params or await self._may_run(call):
                    await self._catalog.server(entry.server).ensure_up()
            except ToolgateError as error:
                again = "Make the same call again" if is_saved else "Resume it"
                stays_parked = ProgramError(
                    f"The program {program_id} stays parked, since it cannot make its call of"
                    f" {call.function}: {error.failed}",
                    detail=error.detail,
                    allowed=error.allowed,
                    hint=f"{again} when that has changed. {error.hint}".rstrip(),
                )
                stays_parked.retryable = True
                raise stays_parked from error

    async def _finish(
        self,
        run: _Run,
        request: ProgramArguments,
        execution: Execution,
        again: Mapping[int, HostCall],
        record_id: str,
    ) -> Json:
        async def call_tool(call: HostCall) -> Outcome:
            return await self._call(run, call)

        program = ProgramRun(
            execution, call_tool, max_calls=self._rules.max_calls, n_calls=run.n_calls
        )
        outcome = await program.run(again)
        while isinstance(outcome, Parked) and isinstance(run.peer, CollectingPeer):
            if not (questions := questions_of(outcome.calls)):
                break
            approvals = [call.approval_id for call in outcome.calls if call.asks_approval]
            answers = await self._approvals.ask_together(run.peer, questions, approvals)
            run = replace(run, continuations=_continuations(outcome.calls, answers))
            outcome = await program.run(_repeated(outcome.calls))
        printed = (run.printed + execution.output)[:MAX_LOG_CHARS]
        if isinstance(outcome, Finished):
            result = result_of(outcome, printed, run.program_id, program.n_calls)
            return await self._pages.first_page(
                run.caller, result, page_tokens=request.max_result_tokens
            )
        return await self._park(replace(run, printed=printed), outcome, record_id)

    # Calls

    async def _call(self, run: _Run, call: HostCall) -> Outcome:
        """Return a call's outcome; errors that a program can handle become exceptions in it."""
        module, _, _ = call.function.rpartition(".")
        try:
            if not module and is_helper(call.function):
                value = await self._helpers.answer(
                    run.caller, call, run.names, keep_s=self._rules.keep_s
                )
                return CallValue(value=value)
            key = run.names.get(call.function)
            if key is None:
                return CallFailure(
                    kind="RuntimeError", message=f"there is no function {call.function!r}"
                )
            return await self._call_tool(run, call, key)
        except ApprovalError as error:
            if error.state != "waiting":
                return CallFailure(kind="RuntimeError", message=str(error))
            return ParkedCall(
                call_id=call.call_id,
                function=call.function,
                key=run.names[call.function],
                arguments=self._named(run, call),
                approval_id=error.approval_id,
            )
        except (ArgumentError, TypeError, ValueError) as error:
            return CallFailure(kind="ValueError", message=str(error))
        except ToolgateError as error:
            return CallFailure(kind="RuntimeError", message=str(error))

    async def _call_tool(self, run: _Run, call: HostCall, key: str) -> Outcome:
        continuation = run.continuations.get(call.call_id, {})
        with self._receipts.refusals(run.caller, "call", key):
            authorized = self._visible.authorize(run.caller, key)
            arguments = run.prepare(authorized.entry.key, self._named(run, call))
            if not continuation:
                await self._calls.check_arguments(run.caller, authorized.entry, arguments)
        params: Json = {**continuation, "arguments": arguments}
        result = await self._calls.run(run.caller, authorized, params, run.peer)
        if result.get("resultType") == "input_required":
            return ParkedCall(
                call_id=call.call_id,
                function=call.function,
                key=key,
                arguments=arguments,
                request_state=result.get("requestState"),
                questions=json_object(result.get("inputRequests")),
                approval_id=self._approvals.asked_about(result.get("requestState")),
            )
        return answer_of(result)

    def _named(self, run: _Run, call: HostCall) -> Json:
        if not call.args:
            return call.kwargs
        entry = self._catalog.snapshot.tool(run.names[call.function])
        schema = json_object(entry.definition.get("inputSchema")) if entry is not None else {}
        return named_arguments(schema, call.args, call.kwargs)

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = self._open_sandbox()
        return self._sandbox

    @contextmanager
    def _advising(self, caller: Caller, code: str) -> Generator[None]:
        """Add advice to the errors of a program."""
        try:
            yield
        except ProgramError as error:
            raise self._preparation.advised(caller, code, error) from error.__cause__

    # Waiting programs

    async def _park(self, run: _Run, parked: Parked, record_id: str) -> Json:
        body: Json = {
            "calls": [asdict(call) for call in parked.calls],
            "record": record_id,
            "n_calls": parked.n_calls,
            "printed": run.printed,
            "conversation": run.caller.conversation,
            "snapshot": b64encode(parked.snapshot).decode(),
        }
        digest = _digest_of(body, parked.snapshot)

        def stored(program_id: str) -> StoredProgram:
            signature = self._signer.sign(_PURPOSE, {"id": program_id, "sha256": digest})
            # Resuming too early does not begin another wait; a new call that has to wait does.
            is_same_wait = all(call.call_id in run.resumed_calls for call in parked.calls)
            before = run.resumed if is_same_wait else None
            return StoredProgram(
                program_id=program_id,
                project_id=run.caller.project_id,
                caller_id=run.caller.caller_id,
                state="waiting",
                body=json_text.dumps({**body, "signature": signature}),
                created_at=before.created_at if before else utc_now(),
                expires_at=before.expires_at if before else utc_now(plus_s=self._rules.keep_s),
            )

        program_id = run.program_id
        if run.saved_ids and run.resumed is None:
            program_id = await self._add(map(stored, run.saved_ids))
        else:
            await self._store.approvals.programs.save(stored(program_id))
        if questions_of(parked.calls):
            return self._question(program_id, parked.calls)
        raise parked_error(
            program_id, parked.calls, page=self._approvals.page, is_saved=bool(run.saved_ids)
        )

    async def _add(self, programs: Iterable[StoredProgram]) -> str:
        """Park a program under the first id that is free; the same call may run several times.

        Raises:
            ProgramError: None is free.
        """
        for program in programs:
            if await self._store.approvals.programs.add(program, now=utc_now()):
                return program.program_id
        raise ProgramError(
            "The program has to wait for a person, and too many programs of the same call do.",
            hint="Look at what its calls changed, and have the waiting calls decided.",
        )

    def _question(self, program_id: str, calls: Sequence[ParkedCall]) -> Json:
        """The result that asks the person at the client for what a parked program waits for."""
        return {
            "resultType": "input_required",
            "inputRequests": questions_of(calls),
            "requestState": self._signer.sign(_PURPOSE, {"id": program_id}),
        }

    def _id_in(self, state: object) -> str:
        """The id of the program that a client's state is about."""
        return str(self._signer.check(_PURPOSE, str(state)).get("id"))

    def _check_genuine(self, program_id: str, body: Json, snapshot: bytes) -> None:
        """Refuse snapshots that this gateway did not write: sandboxes trust their snapshots."""
        payload = self._signer.check(_PURPOSE, str(body.get("signature")))
        unsigned = {name: value for name, value in body.items() if name != "signature"}
        expected = {"id": program_id, "sha256": _digest_of(unsigned, snapshot)}
        if payload != expected:
            raise HandleError(f"The program {program_id!r} was altered in the store.")


def _can_answer(peer: Peer | None) -> bool:
    """Whether a client answers questions that are results."""
    return peer is not None and peer.era == "modern" and "elicitation" in peer.capabilities


def _has_open_question(calls: Iterable[ParkedCall]) -> bool:
    """Whether a server waits for an answer, which only a client can give."""
    return any(call.questions and not call.asks_approval for call in calls)


def _continuations(calls: Iterable[ParkedCall], responses: Json) -> Mapping[int, Json]:
    return {call.call_id: continuation_of(call, responses) for call in calls}


def _repeated(calls: Iterable[ParkedCall]) -> Mapping[int, HostCall]:
    """The calls to make again once somebody has decided or answered."""
    return {
        call.call_id: HostCall(
            call_id=call.call_id, function=call.function, args=(), kwargs=call.arguments
        )
        for call in calls
    }


def _digest_of(body: Json, snapshot: bytes) -> str:
    plain = {name: value for name, value in body.items() if name != "snapshot"}
    return hashlib.sha256(json_text.dumps(plain) + snapshot).hexdigest()
