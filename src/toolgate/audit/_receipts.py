"""Receipts: what was found, what was about to run, how it ended. Hashes and sizes, no content."""

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import Protocol

from toolgate import jsontext
from toolgate.errors import ToolgateError
from toolgate.ids import new_id, utc_now
from toolgate.logs import REQUEST_ID
from toolgate.types import AuditRecord, Caller, Json

__all__ = ["AuditSink", "Receipts"]

_REMEMBERED = 1000
_QUERY_CHARS = 2000


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
    ) -> None:
        """Record an answered search: which tools were shown, how relevant they were."""
        number = self.simple(
            caller,
            "discover",
            began=began,
            query="\n".join(queries)[:_QUERY_CHARS] if self._keep_queries() else None,
            detail={
                "shown": [[key, round(relevance, 3)] for key, relevance in shown],
                "tokens": tokens,
            },
        )
        self._last.pop(_conversation(caller), None)
        self._last[_conversation(caller)] = (number, frozenset(key for key, _ in shown))
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
        record = replace(
            _of(caller, action),
            query=query,
            duration_ms=_elapsed_ms(began),
            detail=detail or {},
        )
        self._sink.record(record)
        return record.record_id

    @asynccontextmanager
    async def around(
        self,
        caller: Caller,
        action: str,
        server: str,
        target: str,
        *,
        digest: str | None = None,
        arguments: object = None,
    ) -> AsyncGenerator[Callable[[Json], None]]:
        """Record the intention before the block and the outcome after, whatever it is.

        Gives:
            A function that takes the result; without it the outcome says how the block ended.
        """
        began = perf_counter()
        size, hashed = (None, None) if arguments is None else _measured(arguments)
        parent, shown = self._last.get(_conversation(caller), (None, frozenset[str]()))
        intent = replace(
            _of(caller, action),
            phase="intent",
            parent_id=parent if target in shown else None,
            server=server,
            target=target,
            digest=digest,
            request_bytes=size,
            arguments_sha256=hashed,
        )
        self._sink.record(intent)
        answered: list[Json] = []
        status = "cancelled"
        try:
            yield answered.append
            status = _status(answered[0]) if answered else "ok"
        except ToolgateError as error:
            status = error.code
            raise
        except Exception:
            status = "internal"
            raise
        finally:
            size, hashed = _measured(answered[0]) if answered else (None, None)
            outcome = replace(
                intent,
                record_id=new_id(),
                at=utc_now(),
                phase="outcome",
                parent_id=intent.record_id,
                status=status,
                duration_ms=_elapsed_ms(began),
                response_bytes=size,
                response_sha256=hashed,
            )
            self._sink.record(outcome)


def _of(caller: Caller, action: str) -> AuditRecord:
    return AuditRecord(
        record_id=new_id(),
        at=utc_now(),
        action=action,
        project_id=caller.project_id,
        caller_id=caller.caller_id,
        client=caller.client,
        conversation=caller.conversation,
        request_id=REQUEST_ID.get(),
    )


def _conversation(caller: Caller) -> tuple[str, str, str]:
    return caller.project_id, caller.caller_id, caller.conversation


def _elapsed_ms(began: float) -> float:
    return round((perf_counter() - began) * 1000, 3)


def _measured(value: object) -> tuple[int, str]:
    body = jsontext.dumps(value)
    return len(body), hashlib.sha256(body).hexdigest()


def _status(result: Json) -> str:
    if result.get("resultType") == "input_required":
        return "input_required"
    return "tool_error" if result.get("isError") is True else "ok"
