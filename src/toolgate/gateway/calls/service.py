"""Runs tools: access, argument check, guards, limits, audit, request to the server."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from time import perf_counter

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tool_results import failed_result
from toolgate.base.tracing import observe, sent_requests
from toolgate.catalog import (
    CatalogEntry,
)
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    RpcError,
    ToolgateError,
)
from toolgate.gateway.calls.result_cache import ResultCache
from toolgate.gateway.execution import (
    Protections,
    Running,
    RunningCall,
    check_arguments,
    sent_arguments,
)
from toolgate.gateway.intents import IntentRequests
from toolgate.gateway.listing import ContentService
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.visible_catalog import Authorized
from toolgate.intents.service import Advice
from toolgate.search import (
    signature,
)
from toolgate.security.access import UsageLimits
from toolgate.security.guards import GuardedCall
from toolgate.types import (
    Caller,
    Json,
    Peer,
    json_array,
    json_object,
)

_INVALID_PARAMS = -32602
"""JSON-RPC error code: https://www.jsonrpc.org/specification#error_object."""


class CallService:
    """Runs tools. Access is decided before: the decision is passed as `Authorized`."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        limits: UsageLimits,
        intents: IntentRequests,
        contents: ContentService,
    ) -> None:
        self._catalog = context.catalog
        self._visible = context.visible
        self._receipts = context.receipts
        self._limits = limits
        self._guards = context.guards
        self._learning = context.search.learning
        self._intents = intents
        self._contents = contents
        self._cache = ResultCache(
            context.catalog, max_bytes=lambda: context.settings.current.results.cache_mb * 2**20
        )
        self._calls_in_progress = Running()
        self.protections = Protections()
        """Files that only the tools of a pack may change."""

    def running(self, caller: Caller) -> list[RunningCall]:
        """The running calls, longest first: all for administrators, otherwise the caller's own."""
        calls = self._calls_in_progress.calls()
        if self._visible.manages(caller):
            return calls
        return [call for call in calls if call.caller_id == caller.caller_id]

    def on_running(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for starts and ends of calls. Returns a function that removes it."""
        return self._calls_in_progress.on_change(listener)

    async def execute(
        self, caller: Caller, key: str, arguments: Json, *, peer: Peer | None = None
    ) -> Json:
        """Run a tool by key or exposed name, with its arguments checked; the result is never paged.

        A prompt, resource or skill is read in the same way.

        Raises:
            UnknownToolError: The caller has no such tool.
            ArgumentError: The arguments do not match its schema.
            UpstreamError: The server failed; the subclass says how.
        """
        await self._visible.wait_first_listing(caller, key)
        if (content := self._contents.find(caller, key)) is not None:
            return await self._contents.read(caller, content, arguments, peer)
        with self._receipts.refusals(caller, "call", key):
            call = self._visible.authorize(caller, key)
            await self.check_arguments(caller, call.entry, arguments)
        return await self.run(caller, call, {"arguments": arguments}, peer)

    def note_turn(self, caller: Caller, *, began: float, status: str, detail: Json) -> None:
        """Record how a chat turn ended, without any of its texts.

        Args:
            caller: The caller, with the conversation of the turn.
            began: Reading of `perf_counter` when it began.
            status: `ok`, or why it has no answer or none yet.
            detail: Its model, its cost, and the tools that ran.
        """
        self._receipts.simple(caller, "turn", began=began, status=status, detail=detail)

    async def run(self, caller: Caller, call: Authorized, params: Json, peer: Peer | None) -> Json:
        """Run a tool. Every call comes through here and is compared with the last user request."""
        entry = call.entry
        if entry.override is not None:
            given = json_object(params.get("arguments"))
            with self._receipts.refusals(caller, "call", entry.key):
                params = {**params, "arguments": sent_arguments(caller, entry, given)}
            call = replace(call, given=given)
        if not self.protections.is_empty and (
            refusal := self._protection_refusal(caller, entry, params)
        ):
            return failed_result(refusal)
        if "requestState" in params or "inputResponses" in params:
            return await self._send(caller, call, params, peer)  # it has begun already
        advice = await self._intents.advice_on_call(caller, entry)
        if advice is None:
            return await self._send(caller, call, params, peer)
        if advice.withheld:
            return failed_result(advice.text)
        return _with_advice(await self._send(caller, call, params, peer), advice)

    def _protection_refusal(self, caller: Caller, entry: CatalogEntry, params: Json) -> str:
        """Why a call is refused because it would change a pack's file; empty if it would not."""
        refusal = self.protections.refusal(
            entry.server,
            entry.own_name,
            params.get("arguments"),
            read_only=entry.read_only,
            folder=self._guards.guards.folder_of(entry.server),
        )
        if refusal:
            detail: Json = {"tool": entry.key, "reason": refusal}
            self._receipts.simple(caller, "protect", began=perf_counter(), detail=detail)
        return refusal

    async def run_unchecked(
        self, caller: Caller, call: Authorized, params: Json, peer: Peer | None
    ) -> Json:
        """Run a tool without checking its arguments; if they made it fail, the result says so."""
        entry = call.entry
        try:
            result = await self.run(caller, call, params, peer)
        except RpcError as error:
            if error.rpc_code != _INVALID_PARAMS:
                raise
            advice = await self._advice_on_failure(caller, entry, params)
            if advice is None:
                raise
            is_manager = self._visible.manages(caller)
            return _with_advice(error_result(error, is_manager=is_manager), advice)
        if result.get("isError") is not True:
            return result
        advice = await self._advice_on_failure(caller, entry, params)
        return result if advice is None else _with_advice(result, advice)

    async def check_arguments(self, caller: Caller, entry: CatalogEntry, arguments: Json) -> None:
        """Check arguments; within a topic, the error includes its rules and tools.

        Raises:
            ArgumentError: They do not match the schema.
        """
        try:
            self._check(entry, arguments)
        except ArgumentError as error:
            advice = await self._intents.advice_on_arguments(caller, entry)
            if advice is None:
                raise
            hint = f"{error.hint}\n\n{advice.text}".strip()
            raise ArgumentError(error.failed, allowed=error.allowed, hint=hint) from error

    async def _advice_on_failure(
        self, caller: Caller, entry: CatalogEntry, params: Json
    ) -> Advice | None:
        """Advice on a failed call whose arguments do not match the schema."""
        try:
            self._check(entry, json_object(params.get("arguments")))
        except ArgumentError:
            return await self._intents.advice_on_arguments(caller, entry)
        return None

    async def _send(
        self, caller: Caller, call: Authorized, params: Json, peer: Peer | None
    ) -> Json:
        """Run guards, limits, audit, server, audit and guards, in this order."""
        entry = call.entry
        async with AsyncExitStack() as held:
            with self._receipts.refusals(caller, "call", entry.key):
                passed = await self._guards.begin(caller, entry, params, peer)
                if not isinstance(passed, GuardedCall):
                    return passed
                charge, limits = None, self._limits.for_call(caller, entry.key)
                if limits is not None:
                    charge = await held.enter_async_context(self._limits.hold(limits))
            with self._calls_in_progress.call(caller, entry.key):
                result = await self._request(caller, call, passed, peer)
                if charge is not None:
                    charge(estimate_tokens(json_text.dumps(result)))
                return result

    async def _request(
        self, caller: Caller, call: Authorized, passed: GuardedCall, peer: Peer | None
    ) -> Json:
        entry, arguments = call.entry, passed.params.get("arguments")
        sent = {**passed.params, "name": entry.own_name}
        spec = self._catalog.spec(entry.server)
        detail = {"decision": call.rule, **passed.notes}
        if passed.clearance is not None:
            detail["approval"] = passed.clearance.approval.approval_id
        async with self._receipts.around(
            caller,
            "call",
            entry.server,
            entry.key,
            spec=spec,
            digest=entry.digest,
            arguments=arguments,
            given=call.given,
            detail=detail,
        ) as done:
            if passed.clearance is not None:
                # An approval stays good as long as nothing can be sent.
                await self._catalog.server(entry.server).ensure_up()
                self._recheck(caller, entry)
                await self._guards.approvals.consume(caller, passed.clearance)
            slot = None if passed.clearance else self._cache.slot(caller, spec, entry, sent)
            if slot is not None and slot.result is not None:
                result, notes = slot.result, {"cached_for_s": round(slot.age_s, 3)}
            else:
                result, notes = await self._ask_server(caller, entry, sent, peer, passed)
                if slot is not None:
                    slot.keep(result)
            done(result, notes)
            if passed.guard is not None:
                result, of_guard = await passed.result(entry.key, result)
                done(result, notes | of_guard)
        if passed.clearance is not None:
            result = self._guards.approvals.bind_continuation(passed.clearance, result)
        if result.get("resultType") != "input_required":
            self._learning.note_call(caller, entry.key, ok=result.get("isError") is not True)
        return result

    async def _ask_server(
        self,
        caller: Caller,
        entry: CatalogEntry,
        sent: Json,
        peer: Peer | None,
        passed: GuardedCall,
    ) -> tuple[Json, Json]:
        """Return the server's answer and what is recorded about it."""
        request_ids = sent_requests()
        arguments = sent.get("arguments")
        with (
            self._cache.noting_writes(entry),
            observe("server", tool=entry.key, arguments=arguments),
        ):
            result = await self._answer(caller, entry, sent, peer, passed)
        return result, {"upstream_request_id": request_ids[-1]} if request_ids else {}

    async def _answer(
        self,
        caller: Caller,
        entry: CatalogEntry,
        sent: Json,
        peer: Peer | None,
        passed: GuardedCall,
    ) -> Json:
        """Return the server's answer."""
        if passed.guard is not None:
            peer = passed.peer(entry.key, peer)
        try:
            return await self._catalog.server(entry.server).request(
                "tools/call",
                sent,
                caller=caller,
                peer=peer,
                repeatable=entry.repeatable,
                recheck=lambda: self._recheck(caller, entry),
            )
        except RpcError as error:
            raise passed.error(error) from None

    def _recheck(self, caller: Caller, entry: CatalogEntry) -> None:
        """Refuse a call if the server had to be started and now defines the tool differently.

        Raises:
            UnknownToolError: The tool is no longer offered, or is quarantined.
            ArgumentError: Guards and approvals checked another definition.
        """
        if self._visible.authorize(caller, entry.key).entry.digest != entry.digest:
            raise ArgumentError(
                f"The definition of {entry.key} has changed since its server ran last; nothing was"
                " sent.",
                hint="Look at the tool again with tool_describe, and call it as it is now.",
            )

    @staticmethod
    def _check(entry: CatalogEntry, arguments: Json) -> None:
        schema = json_object(entry.definition.get("inputSchema"))
        with observe("arguments", tool=entry.key):
            try:
                check_arguments(schema, arguments, digest=entry.digest, tool=entry.shown_key)
            except ArgumentError:
                expected = signature(entry.name, schema)
                check_arguments(schema, arguments, digest=entry.digest, signature=expected)
                raise


def _with_advice(result: Json, advice: Advice) -> Json:
    """Append advice about a call to its result."""
    if result.get("resultType") == "input_required":
        return result
    content = [*json_array(result.get("content")), {"type": "text", "text": advice.text}]
    return {**result, "content": content}


def error_result(error: ToolgateError, *, is_manager: bool) -> Json:
    """A result that tells the model what went wrong and what it can do."""
    text = error.full_text if is_manager else str(error)
    return failed_result(text) | {"_meta": _error_meta(error)}


def _error_meta(error: ToolgateError) -> Json:
    """An error for programs, as the `_meta` of a result."""
    meta: Json = {"toolgate/error": {"code": error.code, "retryable": error.retryable}}
    if isinstance(error, ApprovalError):
        meta["toolgate/approval"] = {
            "id": error.approval_id,
            "state": error.state,
            "expires_at": error.expires_at,
        }
    return meta
