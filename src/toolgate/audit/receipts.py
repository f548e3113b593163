"""Records each discovery and call with hashes and sizes, without content."""

import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, cast

import anyio.to_thread

from toolgate.audit.aggregation import AggregatedEvent, EventAggregator
from toolgate.base import json_text
from toolgate.base.ids import new_id, utc_now
from toolgate.base.logs import REQUEST_ID
from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tracing import current_trace
from toolgate.errors import ApprovalError, GuardError, StoreError, ToolgateError
from toolgate.types import AuditRecord, Caller, Json, ServerSpec

_REMEMBERED = 1000
"""Conversations whose discoveries are remembered (chosen)."""
_DISCOVERIES = 20
"""Discoveries of a conversation that a call can be linked to (chosen)."""
# Recorded characters of a query (chosen).
_QUERY_CHARS = 2000
# Size in bytes from which a text is hashed in a thread (chosen).
_LARGE_BYTES = 2**18
# Recorded characters of a value (chosen).
_MOST_KEPT = 32_768
# Number of arguments whose shape is recorded (chosen).
_MOST_NAMES = 20
_LONGEST_NAME = 32
"""Recorded characters of an argument's name (chosen: fits a line of a terminal)."""

_LISTING = "tools/list"
_OTHER_CLIENTS = AggregatedEvent(action="list", target=_LISTING, client="other clients")


_PROGRAM: ContextVar[str] = ContextVar("program", default="")
"""Id of the record of the running program, whose calls are recorded as its children."""


@contextmanager
def calls_of(record_id: str) -> Generator[None]:
    """Make records written inside the block children of this record."""
    token = _PROGRAM.set(record_id)
    try:
        yield
    finally:
        _PROGRAM.reset(token)


class AuditSink(Protocol):
    """A destination of audit records."""

    def record(self, record: AuditRecord) -> None:
        """Queue a record; never waits, never fails."""
        ...

    async def record_durable(self, record: AuditRecord) -> None:
        """Queue a record and wait until it is stored.

        Raises:
            StoreError: It could not be stored now.
        """
        ...

    async def wait_written(self) -> None:
        """Wait until everything queued so far is stored.

        Raises:
            StoreError: It could not be stored now.
        """
        ...


class OutcomeReporter(Protocol):
    """Reports the result of a recorded action."""

    def __call__(self, answer: Json, detail: Json | None = None) -> None:
        """Set the result, with optional details for the record."""
        ...


class Receipts:
    """Writes a gateway's records; links each call to the discovery that showed its tool."""

    def __init__(
        self,
        sink: AuditSink,
        *,
        keep_queries: Callable[[], bool],
        is_closed: Callable[[str], bool] = lambda _: False,
        mask: Callable[[object], object] = lambda value: value,
        process: str = "",
    ) -> None:
        """Create the writer.

        Args:
            sink: Receives the records.
            keep_queries: Whether the queries of discoveries are recorded.
            is_closed: Whether a project allows no unrecorded actions.
            mask: Removes secrets from a value.
            process: Id of this process, written into intents so that they can be closed after a
                kill.
        """
        self._sink = sink
        self._keep_queries = keep_queries
        self._is_closed = is_closed
        self._mask = mask
        self._process: Json = {"process": process} if process else {}
        self._aggregator = EventAggregator(sink.record)
        self._discoveries: dict[tuple[str, str, str], deque[tuple[str, frozenset[str]]]] = {}

    def discovery(
        self,
        caller: Caller,
        queries: Sequence[str],
        shown: Sequence[tuple[str, float]],
        *,
        tokens: int,
        began: float,
        searched_by: str,
        fallback: str = "",
        withheld: Json | None = None,
    ) -> None:
        """Record an answered search: which tools were shown, how relevant they were, what searched.

        Args:
            caller: Who searched.
            queries: The queries; recorded only if the settings allow it.
            shown: Keys of the tools and their relevance.
            tokens: Estimated tokens of the answer.
            began: Value of `perf_counter` when the request arrived.
            searched_by: The strategy assigned to the conversation.
            fallback: Why another strategy answered instead; empty if none did.
            withheld: What the caller did not get and why: counts by reason, and the first items.
        """
        number = self.simple(
            caller,
            "discover",
            began=began,
            query="\n".join(queries)[:_QUERY_CHARS] if self._keep_queries() else None,
            detail={
                "shown": [[key, round(relevance, 3)] for key, relevance in shown],
                "tokens": tokens,
                "search": searched_by,
                **({"fallback": fallback} if fallback else {}),
                **({"withheld": withheld} if withheld else {}),
            },
        )
        recent = self._discoveries.pop(caller.thread, None) or deque(maxlen=_DISCOVERIES)
        recent.appendleft((number, frozenset(key for key, _ in shown)))
        self._discoveries[caller.thread] = recent
        # Dicts keep insertion order and pop() above re-adds: the first is the least recent.
        if len(self._discoveries) > _REMEMBERED:
            del self._discoveries[next(iter(self._discoveries))]

    def tools_listed(self, caller: Caller) -> None:
        """Count a `tools/list`: one record per client and minute."""
        event = AggregatedEvent(
            action="list",
            target=_LISTING,
            project_id=caller.project_id,
            caller_id=caller.caller_id,
            client=caller.client,
        )
        self._aggregator.add(event, overflow=_OTHER_CLIENTS)

    def login_refused(self, reason: str, *, address: str, caller_id: str, entry_point: str) -> None:
        """Count a refused login: one record per reason, address and minute.

        Args:
            reason: `no_token`, `wrong_token` or `wrong_project`.
            address: IP address of the client.
            caller_id: Owner of the token; empty if unknown.
            entry_point: Such as `mcp` or `console`.
        """
        event = AggregatedEvent(
            action="login_refused", target=address, status=reason, caller_id=caller_id
        )
        overflow = AggregatedEvent(action="login_refused", target="other addresses", status=reason)
        self._aggregator.add(event, overflow=overflow, source=entry_point)

    def flush(self) -> None:
        """Record everything that was counted so far."""
        self._aggregator.flush()

    def simple(
        self,
        caller: Caller,
        action: str,
        *,
        began: float,
        query: str | None = None,
        target: str | None = None,
        detail: Json | None = None,
        parent: str = "",
        record_id: str = "",
        status: str = "ok",
    ) -> str:
        """Record an action that reached no server. Returns the id of the record."""
        fields = _of(caller, action)
        if record_id:
            fields["record_id"] = record_id
        record = AuditRecord(
            **fields,
            query=query,
            target=target,
            parent_id=parent or self._parent_of(caller, target),
            status=status,
            duration_ms=_elapsed_ms(began),
            detail=_described(caller, detail or {}),
        )
        self._sink.record(record)
        return record.record_id

    @asynccontextmanager
    async def change(self, caller: Caller, action: str, detail: Json) -> AsyncGenerator[None]:
        """Record an administrative change made in the block.

        In a project that allows no unrecorded actions, the intent is stored before the block
        starts, and the outcome becomes a second record.

        Raises:
            StoreError: The intent could not be stored, so the block did not start.
        """
        if not self._is_closed(caller.project_id):
            began = perf_counter()
            yield
            self.simple(caller, action, began=began, detail=detail)
            return
        # The intent is written first: a crash in the block leaves a trace of the attempt.
        fields = _of(caller, action) | {
            "phase": "intent",
            "detail": _described(caller, detail) | self._process,
        }
        async with _Receipt(
            self._sink,
            fields,
            None,
            given=None,
            must_be_kept=True,
            keeps=None,
            common=_described(caller, {}),
        ):
            yield

    async def note(
        self, caller: Caller, action: str, detail: Json, *, began: float | None = None
    ) -> None:
        """Record a completed change, and wait for it in projects that allow no unrecorded actions.

        Raises:
            StoreError: It could not be stored, so the change must not be confirmed.
        """
        self.simple(caller, action, began=perf_counter() if began is None else began, detail=detail)
        await self.wait_written(caller)

    def approval(
        self, caller: Caller, target: str, detail: Json, *, parent: str = "", record_id: str = ""
    ) -> str:
        """Record a step of an approval. Returns the id of the record."""
        return self.simple(
            caller,
            "approval",
            began=perf_counter(),
            target=target,
            detail=detail,
            parent=parent,
            record_id=record_id,
        )

    @contextmanager
    def refusals(self, caller: Caller, action: str, target: str) -> Generator[None]:
        """Record an error raised inside the block as a refusal: it reached no server."""
        began = perf_counter()
        try:
            yield
        except ToolgateError as error:
            record = AuditRecord(
                **_of(caller, action),
                target=target[:_QUERY_CHARS],
                parent_id=self._parent_of(caller, target),
                status=error.code,
                duration_ms=_elapsed_ms(began),
                detail=_described(caller, _why(error)),
            )
            self._sink.record(record)
            raise

    def around(
        self,
        caller: Caller,
        action: str,
        server: str,
        target: str,
        *,
        spec: ServerSpec | None = None,
        digest: str | None = None,
        arguments: object = None,
        given: Json | None = None,
        detail: Json | None = None,
    ) -> "_Receipt":
        """Record the intent before the block and the outcome after it, whatever it is.

        `async with` returns a function that takes the result; if it is not called, the outcome says
        how the block ended.

        Args:
            caller: Who acts.
            action: The action.
            server: The name of the server.
            target: The tool, prompt or resource.
            spec: The configuration of the server; None if it does not exist.
            digest: Hash of its definition.
            arguments: The arguments that are sent.
            given: The arguments of the caller, if they differ from those that are sent.
            detail: Further details.
        """
        fields = _of(caller, action) | {
            "phase": "intent",
            "parent_id": self._parent_of(caller, target),
            "server": server,
            "target": target,
            "digest": digest,
        }
        common = _described(caller, {})
        details = fields["detail"] = {**(detail or {}), **common, **self._process}
        # Names can be reused after a server is removed; the id cannot.
        if spec is not None and spec.server_id:
            details["server_id"] = spec.server_id
        # Never their values.
        if spec is not None and (names := sorted(spec.forwarded(caller))):
            details["forwarded_headers"] = names
        is_full = spec is not None and spec.audit == "full"
        return _Receipt(
            self._sink,
            fields,
            arguments,
            given=given,
            must_be_kept=self._is_closed(caller.project_id),
            keeps=self._mask if is_full else None,
            common=common,
        )

    async def wait_written(self, caller: Caller) -> None:
        """Wait for the records written so far, in projects that allow no unrecorded actions.

        Raises:
            StoreError: They could not be stored, so the result must not be returned.
        """
        if self._is_closed(caller.project_id):
            await self._sink.wait_written()

    def _parent_of(self, caller: Caller, target: str | None) -> str | None:
        """The calling program, or the conversation's last discovery that showed this tool."""
        if program := _PROGRAM.get():
            return program
        recent = self._discoveries.get(caller.thread, ())
        return next((number for number, tools in recent if target in tools), None)


class _Receipt:
    """An intent and its outcome."""

    def __init__(
        self,
        sink: AuditSink,
        fields: dict[str, Any],
        arguments: object,
        *,
        given: Json | None,
        must_be_kept: bool,
        keeps: Callable[[object], object] | None,
        common: Json,
    ) -> None:
        self._sink = sink
        self._common = common
        self._fields = fields
        self._arguments = arguments
        self._given = given
        self._must_be_kept = must_be_kept
        self._keeps = keeps
        self._began = perf_counter()
        self._answer: Json | None = None
        self._detail: Json = {}

    @property
    def record_id(self) -> str:
        """Id of the record of the intent."""
        return str(self._fields["record_id"])

    async def __aenter__(self) -> OutcomeReporter:
        if self._arguments is not None:
            body = json_text.dumps(self._arguments)
            self._fields["request_bytes"] = len(body)
            self._fields["arguments_sha256"] = await _hash(body)
            # The shape helps to understand a call without storing its content.
            self._fields["detail"]["shape"] = _shape(self._arguments)
            if self._keeps is not None:
                self._fields["detail"]["arguments"] = _recorded(self._keeps(self._arguments))
        if self._given is not None:
            self._fields["detail"]["given"] = await self._given_form(self._given)
        record = AuditRecord(**self._fields)
        if not self._must_be_kept:
            self._sink.record(record)
            return self._take
        try:
            await self._sink.record_durable(record)
        except StoreError as error:  # written once the store works again: it was not begun
            self._sink.record(AuditRecord(**self._outcome(error)))
            raise
        return self._take

    async def _given_form(self, given: Json) -> Json:
        """The recorded form of the caller's arguments, like that of the sent ones."""
        body = json_text.dumps(given)
        form: Json = {"bytes": len(body), "sha256": await _hash(body), "shape": _shape(given)}
        if self._keeps is not None:
            form["arguments"] = _recorded(self._keeps(given))
        return form

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        answer = self._answer
        fields = self._outcome(error)
        try:
            if answer is not None:
                body = json_text.dumps(answer)
                fields["response_bytes"] = len(body)
                fields["response_sha256"] = await _hash(body)
                fields["detail"]["tokens"] = estimate_tokens(body)
                if self._keeps is not None:
                    fields["detail"]["result"] = _recorded(self._keeps(answer))
        finally:  # who is cancelled meanwhile loses the hash, not the record
            self._sink.record(AuditRecord(**fields))

    def _outcome(self, error: BaseException | None) -> dict[str, Any]:
        return self._fields | {
            "record_id": new_id(),
            "at": utc_now(),
            "phase": "outcome",
            "parent_id": self._fields["record_id"],
            "status": _ended(error) if error is not None else _status(self._answer),
            "duration_ms": _elapsed_ms(self._began),
            "detail": {**self._detail, **self._common},
        }

    def _take(self, answer: Json, detail: Json | None = None) -> None:
        self._answer = answer
        self._detail = detail or {}


def _shape(arguments: object) -> Json:
    """The shape of arguments without their content: kind and size by name."""
    shape: Json = {}
    if not isinstance(arguments, dict):
        return shape
    for name, value in cast("Json", arguments).items():
        if len(shape) == _MOST_NAMES:
            break
        shape[name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"] = (
            f"text {len(value)}"
            if isinstance(value, str)
            else f"list {len(cast('list[object]', value))}"
            if isinstance(value, list)
            else f"object {len(cast('Json', value))}"
            if isinstance(value, dict)
            else "null"
            if value is None
            else "truth"
            if isinstance(value, bool)
            else "number"
        )
    return shape


def _recorded(value: object) -> object:
    """The recorded form of a value: complete if short, otherwise the start of its text."""
    body = json_text.dumps(value)
    if len(body) <= _MOST_KEPT:
        return value
    return {"cut": body[:_MOST_KEPT].decode("utf-8", "replace"), "bytes": len(body)}


def _of(caller: Caller, action: str) -> dict[str, Any]:
    """The fields of every record."""
    return {
        "record_id": new_id(),
        "at": utc_now(),
        "action": action,
        "project_id": caller.project_id,
        "caller_id": caller.caller_id,
        "client": caller.client,
        "conversation": caller.conversation,
        "request_id": REQUEST_ID.get(),
    }


def _described(caller: Caller, detail: Json) -> Json:
    """The details, with the entry point and the trace id."""
    trace = current_trace()
    traced: Json = {} if trace is None else {"trace_id": trace.trace_id}
    return {**detail, "entry_point": caller.entry_point, **traced}


def _why(error: ToolgateError) -> Json:
    """The recorded part of a guard's refusal, which contains nothing of the arguments."""
    if isinstance(error, ApprovalError):
        return {"approval": error.approval_id, "state": error.state}
    return {"reason": error.failed} if isinstance(error, GuardError) else {}


def _elapsed_ms(began: float) -> float:
    return round((perf_counter() - began) * 1000, 3)


async def _hash(body: bytes) -> str:
    """SHA-256 in hex; large texts are hashed in a thread to keep the event loop free."""
    if len(body) < _LARGE_BYTES:
        return hashlib.sha256(body).hexdigest()
    digest = await anyio.to_thread.run_sync(hashlib.sha256, body)
    return digest.hexdigest()


def _ended(error: BaseException) -> str:
    if isinstance(error, ToolgateError):
        return error.code
    return "internal" if isinstance(error, Exception) else "cancelled"


def _status(result: Json | None) -> str:
    if result is None:
        return "ok"
    if result.get("resultType") == "input_required":
        return "input_required"
    return "tool_error" if result.get("isError") is True else "ok"
