"""Receipts: what was found, what was about to run, how it ended. Hashes and sizes, no content."""

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol

import anyio.to_thread

from toolgate import jsontext
from toolgate.errors import ToolgateError
from toolgate.ids import new_id, utc_now
from toolgate.logs import REQUEST_ID
from toolgate.types import AuditRecord, Caller, Json

__all__ = ["AuditSink", "Receipts"]

_REMEMBERED = 1000
_QUERY_CHARS = 2000
_LARGE_BYTES = 2**18


class AuditSink(Protocol):
    """Where records go; never waits, never fails."""

    def record(self, record: AuditRecord) -> None:
        """Take a record."""
        ...


class Receipts:
    """Writes the records of a gateway: a call points to the discovery that showed its tool."""

    def __init__(self, sink: AuditSink, *, keep_queries: Callable[[], bool]) -> None:
        self._sink = sink
        self._keep_queries = keep_queries
        self._last: dict[tuple[str, str, str], tuple[str, frozenset[str]]] = {}

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
    ) -> None:
        """Record an answered search: which tools were shown, how relevant, what searched.

        Args:
            caller: Who asked.
            queries: What for; kept where the settings allow it.
            shown: Keys of the tools and their relevance.
            tokens: Estimated tokens of the answer.
            began: Reading of `perf_counter` when the request came.
            searched_by: The search that the conversation gets.
            fallback: Why another one answered in its place; empty when none did.
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
            },
        )
        self._last.pop(caller.thread, None)
        self._last[caller.thread] = (number, frozenset(key for key, _ in shown))
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    def simple(
        self,
        caller: Caller,
        action: str,
        *,
        began: float,
        query: str | None = None,
        detail: Json | None = None,
    ) -> str:
        """Record something that reached no server; gives the id of the record."""
        record = AuditRecord(
            **_of(caller, action),
            query=query,
            duration_ms=_elapsed_ms(began),
            detail=detail or {},
        )
        self._sink.record(record)
        return record.record_id

    @contextmanager
    def refusals(self, caller: Caller, action: str, target: str) -> Generator[None]:
        """Record what ends in an error inside the block: it reached no server."""
        began = perf_counter()
        try:
            yield
        except ToolgateError as error:
            record = AuditRecord(
                **_of(caller, action),
                target=target[:_QUERY_CHARS],
                status=error.code,
                duration_ms=_elapsed_ms(began),
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
        digest: str | None = None,
        arguments: object = None,
    ) -> "_Receipt":
        """Record the intention before the block and the outcome after, whatever it is.

        `async with` gives a function that takes the result; without it the outcome says how the
        block ended.
        """
        parent, shown = self._last.get(caller.thread, (None, frozenset[str]()))
        fields = _of(caller, action) | {
            "phase": "intent",
            "parent_id": parent if target in shown else None,
            "server": server,
            "target": target,
            "digest": digest,
        }
        return _Receipt(self._sink, fields, arguments)


class _Receipt:
    """One intention and its outcome."""

    def __init__(self, sink: AuditSink, fields: dict[str, Any], arguments: object) -> None:
        self._sink = sink
        self._fields = fields
        self._arguments = arguments
        self._began = perf_counter()
        self._answer: Json | None = None

    async def __aenter__(self) -> Callable[[Json], None]:
        if self._arguments is not None:
            body = jsontext.dumps(self._arguments)
            self._fields["request_bytes"] = len(body)
            self._fields["arguments_sha256"] = await _hash(body)
        self._sink.record(AuditRecord(**self._fields))
        return self._take

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        answer = self._answer
        fields: dict[str, Any] = self._fields | {
            "record_id": new_id(),
            "at": utc_now(),
            "phase": "outcome",
            "parent_id": self._fields["record_id"],
            "status": _ended(error) if error is not None else _status(answer),
            "duration_ms": _elapsed_ms(self._began),
        }
        try:
            if answer is not None:
                body = jsontext.dumps(answer)
                fields["response_bytes"] = len(body)
                fields["response_sha256"] = await _hash(body)
        finally:  # who is cancelled meanwhile loses the hash, not the record
            self._sink.record(AuditRecord(**fields))

    def _take(self, answer: Json) -> None:
        self._answer = answer


def _of(caller: Caller, action: str) -> dict[str, Any]:
    """The fields that every record has."""
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


def _elapsed_ms(began: float) -> float:
    return round((perf_counter() - began) * 1000, 3)


async def _hash(body: bytes) -> str:
    """SHA-256 in hex; of a large text in a thread, so that other calls go on."""
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
