"""Keeps results of read-only tools for a while, where the settings of a tool ask for it."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeAlias

from toolgate.base import json_text
from toolgate.catalog import Catalog, CatalogEntry, ServerEntries
from toolgate.types import Caller, CallerScope, Json, json_object

__all__ = ["CacheSlot", "ResultCache"]

_LARGEST_SHARE: Final = 8
"""One result may take this part of the room (chosen), so that it does not push out all others."""

_OF_THE_REQUEST: Final = frozenset(
    {"progressToken", "traceparent", "tracestate", "baggage", "token", "projectId"}
)
_OF_THE_PROTOCOL: Final = ("io.modelcontextprotocol/", "toolgate/")
"""Members of `_meta` that say nothing about what is asked."""

_State: TypeAlias = tuple[object, ...]
"""What a server was like when it answered."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    body: bytes
    state: _State
    at: float
    """Reading of `monotonic`."""


@dataclass(frozen=True, kw_only=True)
class CacheSlot:
    """The place of the result of a call."""

    result: Json | None
    """What is there; None: nothing that still counts."""

    age_s: float
    """Seconds since the server gave it."""

    keep: Callable[[Json], None]
    """Puts a result there, unless it is an error or a question."""


class ResultCache:
    """Results by tool, scope of the caller, and arguments; in memory, the oldest go first.

    A result counts until its time is over, its server connects anew or offers other tools, or a
    tool of that server that may write is run.
    """

    def __init__(self, catalog: Catalog, *, max_bytes: Callable[[], int]) -> None:
        self._catalog = catalog
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._size_bytes = 0
        self._writes: dict[str, int] = {}
        """How often a tool that may write was begun or ended, by server."""
        self._digests: dict[str, tuple[ServerEntries, int]] = {}

    def slot(self, caller: Caller, entry: CatalogEntry, params: Json) -> CacheSlot | None:
        """The place of a call; None: its results are not kept.

        Args:
            caller: Who asks.
            entry: The tool.
            params: As they go to the server.
        """
        spec = self._catalog.spec(entry.server)
        rule = spec.tool_caches.get(entry.own_name) if spec is not None else None
        if spec is None or rule is None or not (entry.read_only and spec.trust):
            return None
        if "requestState" in params or "inputResponses" in params:
            return None
        key = _key(
            entry,
            _scope(caller, rule.scope),
            params.get("arguments"),
            _meta(params),
            sorted(spec.forwarded(caller).items()),
        )
        state = self._state(entry)
        kept = self._kept.get(key)
        age_s = monotonic() - kept.at if kept is not None else 0.0
        if kept is not None and (kept.state != state or age_s >= rule.ttl_s):
            self._drop(key)
            kept = None
        return CacheSlot(
            result=json_object(json_text.loads(kept.body)) if kept is not None else None,
            age_s=age_s,
            keep=lambda result: self._keep(key, state, entry, result),
        )

    @contextmanager
    def noting_writes(self, entry: CatalogEntry) -> Generator[None]:
        """Run a call; if it may write, no earlier result of its server counts any more."""
        if entry.read_only:
            yield
            return
        self._writes[entry.server] = self._writes.get(entry.server, 0) + 1
        try:
            yield
        finally:
            self._writes[entry.server] += 1

    def _state(self, entry: CatalogEntry) -> _State:
        status = self._catalog.status(entry.server)
        started_at = status.started_at if status is not None else None
        writes = self._writes.get(entry.server, 0)
        return started_at, writes, self._digest(entry.server), entry.digest

    def _digest(self, server: str) -> int:
        """Of all that a server offers as tools."""
        entries = self._catalog.snapshot.servers.get(server)
        if entries is None:
            return 0
        known = self._digests.get(server)
        if known is None or known[0] is not entries:
            known = entries, hash(tuple(tool.digest for tool in entries.tools))
            self._digests[server] = known
        return known[1]

    def _keep(self, key: bytes, state: _State, entry: CatalogEntry, result: Json) -> None:
        if result.get("isError") is True or result.get("resultType") == "input_required":
            return
        # The server may have been started by this very call, but nobody may have written meanwhile.
        now = self._state(entry)
        if now[1:] != state[1:]:
            return
        body = json_text.dumps_to_keep(result)
        room = self._max_bytes()
        if len(body) > room // _LARGEST_SHARE:
            return
        self._drop(key)
        self._kept[key] = _Kept(body=body, state=now, at=monotonic())
        self._size_bytes += len(body)
        while self._size_bytes > room:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size_bytes -= len(kept.body)


def _scope(caller: Caller, scope: CallerScope) -> tuple[str, ...]:
    """Whom a result is for. Tools in this process may read files of the caller's folder."""
    match scope:
        case "caller":
            return scope, caller.folder, caller.project_id, caller.caller_id
        case "project":
            return scope, caller.folder, caller.project_id
        case "all":
            return scope, caller.folder


def _meta(params: Json) -> Json:
    """What a client says about the call that its server may look at."""
    return {
        name: value
        for name, value in json_object(params.get("_meta")).items()
        if name not in _OF_THE_REQUEST and not name.startswith(_OF_THE_PROTOCOL)
    }


def _key(entry: CatalogEntry, *parts: object) -> bytes:
    # Not the texts themselves: arguments and headers may hold secrets.
    text = json.dumps([entry.key, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
