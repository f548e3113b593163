"""Cloud search: a service selects among the tools that the caller may use.

The request goes to `POST …/catalog/search` with the names and descriptions of those tools;
requests and descriptions leave this machine. After any failure, a local search answers instead
and says so. For the format and for running such a service, see `docs/cloud-search.md`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter

import anyio
import numpy as np

from toolgate.base.validation import check_ranges
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search.lexical.query import QUERIES, QUERY_CHARS
from toolgate.search.strategies._catalog_search_json import read_answer, request_body, tool_body
from toolgate.search.strategies._http_service import (
    SUSPENDED,
    CircuitBreaker,
    JsonService,
    ServiceOptions,
)
from toolgate.search.strategies._lifecycle import end, ready
from toolgate.search.strategies._selected_hits import answered
from toolgate.search.strategies._service_error import ServiceError
from toolgate.search.tokenizer import fold
from toolgate.types import Json

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(ServiceOptions):
    """Table `[search.options.cloud]`; `/catalog/search` is added to the address."""

    token: str = field(default="", repr=False)
    """Bearer token; write `${env:NAME}` instead of the token itself."""

    project_id: str = ""
    """The project in the service; empty: not sent, the token decides."""

    max_tools: int = 2_000
    """Most tools that are sent: those that the local search ranks first. 1 to 100,000."""

    description_chars: int = 1_000
    """Most characters of a description that are sent; 0 to 100,000."""

    max_answer_bytes: int = 4 * 2**20
    """Largest answer in bytes that is read; 1,024 to 1,073,741,824."""

    def __post_init__(self) -> None:
        self.check("cloud")
        ranges: dict[str, tuple[float, float]] = {
            "max_tools": (1, 100_000),
            "description_chars": (0, 100_000),
            "max_answer_bytes": (1_024, 2**30),
        }
        check_ranges(self, ranges)


def build(options: Options, *, make_search: Callable[[str], SearchStrategy]) -> "CloudSearch":
    """Create a cloud search with an empty index; nothing is sent before the first request."""
    return CloudSearch(options, make_search(options.local))


class CloudSearch:
    """Lets a service select among the allowed tools, with a local search as the fallback.

    Exactly named tools are found even if the service leaves them out. Tools in its answer that
    it was not sent are ignored.
    """

    def __init__(self, options: Options, local: SearchStrategy) -> None:
        self._options = options
        self._local = local
        self._tools: dict[str, SearchableTool] = {}
        self._sent: dict[str, tuple[str, Json]] = {}
        """Digest and JSON of sent tools, by key."""
        self._updating = anyio.Lock()
        self._service = JsonService(
            f"{options.url.rstrip('/')}/catalog/search",
            token=options.token,
            timeout_s=options.timeout_s,
            max_bytes=options.max_answer_bytes,
        )
        self._breaker = CircuitBreaker(failures=options.failures, cooldown_s=options.cooldown_s)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return self._local.keys

    @property
    def inner(self) -> SearchStrategy:
        """The local search, which may have vectors."""
        return self._local

    @property
    def is_suspended(self) -> bool:
        """Whether the service failed several times, and has not answered since."""
        return self._breaker.is_open

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of the index."""
        new_tools = tuple(tools)
        async with self._updating:
            await self._local.update(new_tools)
            self._tools = {tool.key: tool for tool in new_tools}

    async def ready(self) -> None:
        """Wait until the local search has everything that it needs."""
        await ready(self._local)

    async def aclose(self) -> None:
        """Close the connections and the local search."""
        await self._service.aclose()
        await end(self._local)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that fit best, selected by the service if it answers."""
        started = perf_counter()
        limit = self._options.max_tools
        # One more than the limit shows that there are too many, without listing them all.
        tools = list(islice(self._allowed(request), limit + 1))
        # Always searched: it knows exact names, and is the answer if the service fails.
        local = await self._local.search(request)
        if not tools or not any(query.strip() for query in request.queries):
            return local
        if not self._breaker.allows():
            return _fallen_back(local, SUSPENDED)
        if len(tools) > limit:
            tools = await self._nearest(request, tools)
        try:
            chosen, notices = await self._ask(request, tools)
        except ServiceError as error:
            log.warning("cloud search failed", extra={"reason": str(error)})
            self._breaker.failed()
            duration_ms = (perf_counter() - started) * 1000
            return replace(_fallen_back(local, str(error)), duration_ms=duration_ms)
        self._breaker.succeeded()
        hits, below = answered(chosen, local.hits, request)
        if not chosen and not hits and not notices:
            notices = ["The search service found no tool that fits. Say it in other words."]
        return replace(
            local,
            hits=hits,
            notices=(*notices, *below),
            searched=len(tools),
            fallback="",
            duration_ms=(perf_counter() - started) * 1000,
        )

    def _allowed(self, request: SearchRequest) -> Iterator[SearchableTool]:
        """Yield the allowed tools; none if the mask is for another state of the index."""
        keys, tools, mask = self._local.keys, self._tools, request.mask
        if mask is not None and len(mask) != len(keys):
            return
        servers = {fold(server) for server in request.servers}
        slots = range(len(keys)) if mask is None else np.flatnonzero(mask).tolist()
        for slot in slots:
            tool = tools.get(keys[slot])
            if tool is not None and (not servers or fold(tool.server) in servers):
                yield tool

    async def _nearest(
        self, request: SearchRequest, tools: list[SearchableTool]
    ) -> list[SearchableTool]:
        """Return as many tools as may be sent: the best by the local search, then others."""
        limit, tools_by_key = self._options.max_tools, self._tools
        near = await self._local.search(replace(request, limit=limit, threshold=0.0))
        first = {hit.key: tools_by_key[hit.key] for hit in near.hits if hit.key in tools_by_key}
        return list((first | {tool.key: tool for tool in tools}).values())[:limit]

    async def _ask(
        self, request: SearchRequest, tools: Sequence[SearchableTool]
    ) -> tuple[list[Hit], list[str]]:
        body = request_body(
            request,
            [self._sent_form(tool) for tool in tools],
            project_id=self._options.project_id,
            queries=QUERIES,
            query_chars=QUERY_CHARS,
        )
        answer = await self._service.post(body)
        return read_answer(answer, {tool.key for tool in tools}, query=request.queries[0])

    def _sent_form(self, tool: SearchableTool) -> Json:
        """Return a tool as it is sent; cached, since reading its definition is slow."""
        cached = self._sent.get(tool.key)
        if cached is None or cached[0] != tool.digest:
            # Nothing reports removed tools; clearing a large cache is simpler than tracking them.
            if len(self._sent) >= 2 * self._options.max_tools:
                self._sent.clear()
            cached = (tool.digest, tool_body(tool, self._options.description_chars))
            self._sent[tool.key] = cached
        return cached[1]


def _fallen_back(local: SearchAnswer, reason: str) -> SearchAnswer:
    """Return the local answer, marked as a fallback."""
    hits = (hit if hit.source == "exact" else replace(hit, source="fallback") for hit in local.hits)
    notice = f"Cloud search is not there ({reason}); this is the local search."
    fallback = "; ".join(filter(None, (f"cloud: {reason}", local.fallback)))
    return replace(local, hits=tuple(hits), notices=(notice, *local.notices), fallback=fallback)


_: type[SearchStrategy] = CloudSearch
