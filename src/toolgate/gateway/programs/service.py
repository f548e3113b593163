"""Runs models' programs; each of their calls is processed like any other call."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import anyio

from toolgate.audit import calls_of
from toolgate.base import json_text
from toolgate.base.ids import new_id, utc_now
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    HandleError,
    ProgramError,
    ToolgateError,
)
from toolgate.gateway.calls import CallService
from toolgate.gateway.discovery import DiscoveryService
from toolgate.gateway.listing.program_offer import PROGRAM_TOOL, ProgramOffer
from toolgate.gateway.meta_tools import DEFINITIONS, ProgramArguments, read_program
from toolgate.gateway.parts import GatewayContext, ResultParts
from toolgate.gateway.programs.answers import answer_of, result_of
from toolgate.gateway.programs.approval_list import continuation_of, parked_error, questions_of
from toolgate.gateway.programs.helpers import HELPER_FUNCTIONS, ProgramHelpers, is_helper
from toolgate.gateway.programs.names import (
    advice_on,
    function_names,
    module_name,
    named_functions,
    without_fence,
    words_of,
)
from toolgate.gateway.programs.run import Finished, Outcome, Parked, ParkedCall, ProgramRun
from toolgate.gateway.programs.saved import check_inputs, main_of
from toolgate.gateway.programs.type_stubs import host_function, named_arguments
from toolgate.gateway.results.jq_filter import JqFilter
from toolgate.gateway.results.page_store import PagedResults
from toolgate.models.sandboxes import (
    CallFailure,
    CallValue,
    Execution,
    HostCall,
    HostFunction,
    HostModule,
    Program,
    ProgramLimits,
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

    resumed: StoredProgram | None = None
    """What was parked; None: the program has not been parked."""

    resumed_calls: frozenset[int] = frozenset()
    """The calls that it was parked for."""

    is_saved: bool = False
    """Whether it is a tool, so that the same call resumes it."""


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
        self._names: tuple[int, Mapping[str, str]] = (-1, {})

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
        saved_id: str = "",
    ) -> Json:
        """Run a program, or resume one that waited.

        Args:
            caller: The caller that owns the program.
            request: The program.
            params: Parameters of the request, including the client's answers to questions.
            peer: The client; None if it can be neither asked nor notified.
            prepare: Changes the arguments of the program's calls.
            saved_id: Id under which a program that is a tool is parked; empty for others.

        Returns:
            The `tools/call` result: the program's result and printed output; with
            `input_required`, questions to the person at the client.

        Raises:
            ProgramError: It cannot be run or failed, or waits for a person.
            HandleError: The caller has no such program.
        """
        if not self._offer.is_callable():
            raise ProgramError(
                "Code mode is switched off.",
                hint="Run tools with tool_execute."
                if self._offer.is_installed()
                else 'Install the extra "programs", or run tools with tool_execute.',
            )
        if _NESTED.get():
            raise ProgramError(
                "A program cannot run another one.", hint="Call the tools of that one in it."
            )
        if peer is not None and peer.era == "handshake":
            peer = CollectingPeer(peer)
        token = _NESTED.set(True)
        try:
            return await self._run(caller, request, params, peer, prepare, saved_id)
        finally:
            _NESTED.reset(token)

    async def run_saved(self, caller: Caller, code: str, inputs: Json) -> Json:
        """Run a program that is a tool; an object becomes structured content, as for other tools.

        If the same call parked it, it is resumed.

        Raises:
            ProgramError: As `run`.
        """
        program_id = _saved_id(caller, code, inputs)
        stored = await self._store.approvals.programs.get(program_id)
        is_kept = stored is not None and stored.expires_at > utc_now()
        if stored is not None and is_kept and stored.state == "waiting":
            whole: Json = {"resume": program_id}
        else:
            whole = {"code": code, "inputs": inputs}
            # One that runs, or whose process was killed, keeps its own entry.
            program_id = new_id() if is_kept else program_id
        request = read_program({**whole, "maxResultTokens": _WHOLE_RESULT_TOKENS})
        result = await self.run(caller, request, {}, None, saved_id=program_id)
        answer = answer_of(result)
        value = json_object(answer.value) if isinstance(answer, CallValue) else {}
        return {**result, "structuredContent": value} if value else result

    async def _run(
        self,
        caller: Caller,
        request: ProgramArguments,
        params: Json,
        peer: Peer | None,
        prepare: PrepareArguments,
        saved_id: str,
    ) -> Json:
        state = params.get("requestState")
        program_id = request.resume
        if state is not None:
            program_id = str(self._signer.check(_PURPOSE, str(state)).get("id"))
        if program_id:
            return await self._resume(
                caller, request, program_id, params, peer, prepare, is_saved=bool(saved_id)
            )
        program = self._program(caller, request)
        if request.dry_run:
            return self._dry_run(caller, program)
        run = _Run(
            caller=caller,
            program_id=saved_id or new_id(),
            names=self._all_names(),
            peer=peer,
            continuations={},
            prepare=prepare,
            is_saved=bool(saved_id),
        )
        detail: Json = {"code_sha256": hashlib.sha256(request.code.encode()).hexdigest()}
        receipt = self._receipts.around(
            caller, "program", "", PROGRAM_TOOL, arguments={"code": request.code}, detail=detail
        )
        async with receipt as done:
            with calls_of(receipt.record_id), self._deadline(request.timeout_s):
                try:
                    async with self._opened().start(program) as execution:
                        result = await self._finish(run, request, execution, {}, receipt.record_id)
                except ProgramError as error:
                    raise self._advised(caller, request.code, error) from error.__cause__
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
        *,
        is_saved: bool,
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
        # If several requests resume it, in any process, only one succeeds.
        if not await self._store.approvals.programs.claim(program_id, now=now):
            raise ProgramError(
                f"The program {program_id} is being run, or its process ended while it ran.",
                hint="The audit log has the calls that it made. Run what is left as a new program.",
            )
        parked = [ParkedCall(**call) for call in json_array(body["calls"])]
        responses = json_object(params.get("inputResponses"))
        run = _Run(
            caller=caller,
            program_id=program_id,
            names=self._all_names(),
            peer=peer,
            continuations=_continuations(parked, responses),
            n_calls=int(body["n_calls"]),
            resumed=stored,
            resumed_calls=frozenset(call.call_id for call in parked),
            is_saved=is_saved,
            prepare=prepare,
        )
        again = _repeated(parked)
        parent = str(body["record"])
        receipt = self._receipts.around(
            caller, "program", "", PROGRAM_TOOL, detail={"resumed": program_id, "began_as": parent}
        )
        try:
            async with receipt as done:
                with calls_of(parent), self._deadline(request.timeout_s):
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
        if isinstance(outcome, Finished):
            result = result_of(outcome, execution.output, run.program_id, program.n_calls)
            return await self._pages.first_page(
                run.caller, result, page_tokens=request.max_result_tokens
            )
        return await self._park(run, outcome, record_id)

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

    # Preparation

    def _program(self, caller: Caller, request: ProgramArguments) -> Program:
        """The program, with the modules and functions that its source may refer to."""
        words = words_of(request.code)
        modules: dict[str, list[HostFunction]] = {}
        for name, key in self._all_names().items():
            module, _, function = name.partition(".")
            if module not in words:
                continue
            functions = modules.setdefault(module, [])
            entry = self._visible.tool_or_none(caller, key) if function in words else None
            if entry is not None:
                functions.append(host_function(name, entry.definition, entry.digest))
        rules = self._rules
        code = without_fence(request.code)
        main = main_of(code)
        if main is not None:
            check_inputs(main, request.inputs)
        return Program(
            code=f"{code}\nreturn await main(**inputs)" if main is not None else code,
            inputs=request.inputs,
            modules=tuple(HostModule(name=n, functions=tuple(f)) for n, f in modules.items()),
            functions=HELPER_FUNCTIONS,
            # Without tools nothing can be left half done, so type errors may surface at run time.
            is_checked=bool(modules),
            limits=ProgramLimits(
                run_s=rules.run_s, memory_mb=rules.memory_mb, steps=4 * rules.max_calls + 100
            ),
        )

    def _advised(self, caller: Caller, code: str, error: ProgramError) -> ProgramError:
        """The error of a program, with what to do about a name that it does not have."""
        servers = self._visible.servers(caller, self._catalog.snapshot)
        modules = [module_name(server) for server in servers]
        problem = f"{error.failed} {error.allowed}"
        names = self._all_names().items()
        advice = advice_on(
            problem,
            code,
            modules,
            DEFINITIONS,
            lambda: (name for name, key in names if self._visible.tool_or_none(caller, key)),
        )
        if not advice or error.is_waiting:
            return error
        failed = error.failed if error.failed.endswith(".") else f"{error.failed}."
        hint = f"{advice} {error.hint}".rstrip()
        return ProgramError(failed, detail=error.detail, allowed=error.allowed, hint=hint)

    def _all_names(self) -> Mapping[str, str]:
        snapshot = self._catalog.snapshot
        if self._names[0] != snapshot.version:
            names = function_names(tool.shown_key for tool in snapshot.tools)
            self._names = (snapshot.version, names)
        return self._names[1]

    def _dry_run(self, caller: Caller, program: Program) -> Json:
        """List the tools that a program names, without running anything."""
        lines: list[str] = []
        named = named_functions(program.code)
        for module in program.modules:
            for function in module.functions:
                if named is not None and not named.may_call(module.name, function.name):
                    continue
                key = self._all_names()[f"{module.name}.{function.name}"]
                entry = self._visible.tool_or_none(caller, key)
                if entry is None:
                    continue
                writes = "may destroy" if entry.destructive else "writes"
                kind = "reads" if entry.read_only else writes
                lines.append(f"{module.name}.{function.name} ({kind})")
        text = "\n".join(lines) or "The program names no tool."
        return {"content": [{"type": "text", "text": text}], "structuredContent": {"tools": lines}}

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = self._open_sandbox()
        return self._sandbox

    def _deadline(self, asked_s: float) -> _Deadline:
        return _Deadline(min(asked_s or self._rules.timeout_s, self._rules.timeout_s))

    # Waiting programs

    async def _park(self, run: _Run, parked: Parked, record_id: str) -> Json:
        body: Json = {
            "calls": [asdict(call) for call in parked.calls],
            "record": record_id,
            "n_calls": parked.n_calls,
            "snapshot": b64encode(parked.snapshot).decode(),
        }
        body["signature"] = self._signer.sign(
            _PURPOSE, {"id": run.program_id, "sha256": _digest_of(body, parked.snapshot)}
        )
        # Resuming too early does not begin another wait; a new call that has to wait does.
        is_same_wait = all(call.call_id in run.resumed_calls for call in parked.calls)
        before = run.resumed if is_same_wait else None
        await self._store.approvals.programs.save(
            StoredProgram(
                program_id=run.program_id,
                project_id=run.caller.project_id,
                caller_id=run.caller.caller_id,
                state="waiting",
                body=json_text.dumps(body),
                created_at=before.created_at if before else utc_now(),
                expires_at=before.expires_at if before else utc_now(plus_s=self._rules.keep_s),
            )
        )
        if questions := questions_of(parked.calls):
            return {
                "resultType": "input_required",
                "inputRequests": questions,
                "requestState": self._signer.sign(_PURPOSE, {"id": run.program_id}),
            }
        raise parked_error(
            run.program_id, parked.calls, page=self._approvals.page, is_saved=run.is_saved
        )

    def _check_genuine(self, program_id: str, body: Json, snapshot: bytes) -> None:
        """Refuse snapshots that this gateway did not write: sandboxes trust their snapshots."""
        payload = self._signer.check(_PURPOSE, str(body.get("signature")))
        unsigned = {name: value for name, value in body.items() if name != "signature"}
        expected = {"id": program_id, "sha256": _digest_of(unsigned, snapshot)}
        if payload != expected:
            raise HandleError(f"The program {program_id!r} was altered in the store.")


def _saved_id(caller: Caller, code: str, inputs: Json) -> str:
    """The id under which a saved program is parked: the same call of the same caller has it."""
    text = json.dumps([caller.project_id, caller.caller_id, code, inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


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


class _Deadline:
    """Stops a program that takes too long, with an error that says so."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._scope = anyio.fail_after(timeout_s)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        try:
            return self._scope.__exit__(*error)
        except TimeoutError:
            raise ProgramError(
                f"The program and its calls took longer than {self._timeout_s:g} seconds.",
                hint="The audit log has the calls that it made. Make it do less.",
            ) from None


def _digest_of(body: Json, snapshot: bytes) -> str:
    plain = {name: value for name, value in body.items() if name != "snapshot"}
    return hashlib.sha256(json_text.dumps(plain) + snapshot).hexdigest()
