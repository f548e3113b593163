"""Caches results of read-only tools, if a tool's settings ask for it."""

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
from toolgate.types import Caller, CallerScope, Json, ServerSpec, json_object

_LARGEST_SHARE: Final = 8
"""A result may take at most one part in this many of the cache (chosen), so that it cannot evict
all others."""

_OF_THE_REQUEST: Final = frozenset(
    {"progressToken", "traceparent", "tracestate", "baggage", "token", "projectId"}
)
_OF_THE_PROTOCOL: Final = ("io.modelcontextprotocol/", "toolgate/")
"""Prefixes of `_meta` members that do not affect the result."""

_State: TypeAlias = tuple[object, ...]
"""The state of a server when it answered."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    body: bytes
    state: _State
    at: float
    """When it was stored, by `monotonic`."""


@dataclass(frozen=True, kw_only=True)
class CacheSlot:
    """The cache slot of a call."""

    result: Json | None
    """The cached result; None if there is no valid one."""

    age_s: float
    """Seconds since the server returned it."""

    keep: Callable[[Json], None]
    """Stores a result, unless it is an error or a question."""


class ResultCache:
    """Results in memory by tool, scope of the caller and arguments; the oldest are evicted first.

    A result is valid until it expires, its server reconnects or offers other tools, or a tool of
    that server that may change something is run.
    """

    def __init__(self, catalog: Catalog, *, max_bytes: Callable[[], int]) -> None:
        self._catalog = catalog
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._size_bytes = 0
        self._writes: dict[str, int] = {}
        """Starts and ends of calls of tools that may change something, by server."""
        self._digests: dict[str, tuple[ServerEntries, int]] = {}

    def slot(
        self, caller: Caller, spec: ServerSpec | None, entry: CatalogEntry, params: Json
    ) -> CacheSlot | None:
        """The slot of a call; None if its results are not cached.

        Args:
            caller: The caller.
            spec: The configuration of the server; None if it does not exist.
            entry: The tool.
            params: Parameters as they are sent to the server.
        """
        rule = spec.tool_caches.get(str(params["name"])) if spec is not None else None
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
        """Run a call; if it may change something, invalidate the results of its server."""
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
        """A hash of all tools that a server offers."""
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
        # This call may have started the server, but nothing may have changed the server's data
        # meanwhile.
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
    """Who may get a result. In-process tools may read files of the caller's folder."""
    match scope:
        case "caller":
            return scope, caller.folder, caller.project_id, caller.caller_id
        case "project":
            return scope, caller.folder, caller.project_id
        case "all":
            return scope, caller.folder


def _meta(params: Json) -> Json:
    """Members of `_meta` that the server may use."""
    return {
        name: value
        for name, value in json_object(params.get("_meta")).items()
        if name not in _OF_THE_REQUEST and not name.startswith(_OF_THE_PROTOCOL)
    }


def _key(entry: CatalogEntry, *parts: object) -> bytes:
    # Hashed, because arguments and headers may contain secrets.
    text = json.dumps([entry.key, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
