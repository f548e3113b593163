"""`tool_discovery` and `tool_describe`: tool search, composition of the answer, full schemas."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from toolgate.base import json_text
from toolgate.base.tracing import observe
from toolgate.catalog import (
    Snapshot,
)
from toolgate.errors import (
    ArgumentError,
    ToolgateError,
)
from toolgate.gateway.execution import (
    nearest,
)
from toolgate.gateway.intents import IntentRequests
from toolgate.gateway.listing import NOTHING, ContentService, ListingPolicy
from toolgate.gateway.meta_tools import (
    DiscoverRequest,
)
from toolgate.gateway.parts import GatewayContext
from toolgate.search import (
    Description,
    Discovery,
    DiscoveryResult,
    Hit,
    SearchAnswer,
    SearchedQuery,
    SearchRequest,
    Variant,
    compose,
    describe_tools,
    with_contents,
)
from toolgate.types import (
    Caller,
    Json,
    json_object,
)

_HITS_PER_STEP = 2
"""Number of hits for each of several queries in an answer of no requested length; chosen."""


class DiscoveryService:
    """Finds and describes tools for a caller."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        listing: ListingPolicy,
        intents: IntentRequests,
        contents: ContentService,
    ) -> None:
        self._settings = context.settings
        self._catalog = context.catalog
        self._access = context.access
        self._visible = context.visible
        self._listing = listing
        self._index = context.search.index
        self._learning = context.search.learning
        self._relations = context.search.relations
        self._intents = intents
        self._contents = contents
        self._receipts = context.receipts

    async def discover(self, caller: Caller, request: DiscoverRequest) -> Discovery:
        """Find matching tools within the token budget, and say what was withheld and why.

        Raises:
            UnknownServerError: `servers` names a server that does not exist.
        """
        began = perf_counter()
        snapshot = self._catalog.snapshot
        if request.servers:
            with self._receipts.refusals(caller, "discover", ",".join(request.servers)):
                self._visible.check_servers(caller, request.servers, snapshot)
        await self._index.update_to(snapshot.version, snapshot.tools)
        arm = self._listing.arm(caller)
        strategy = arm.strategy
        notices: list[str] = []
        self._relations.refresh(snapshot.version, self._index.tools, strategy)
        settings, project = self._settings.current, self._listing.project_of(caller)
        down = self._catalog.down()
        hidden = frozenset[str]() if settings.discovery.show_down else down
        group = None
        if request.group:
            with self._receipts.refusals(caller, "discover", request.group):
                group = await self._group(caller, request.group)
        keys = strategy.keys
        with observe("decision", tools=len(keys)):
            allowed = self._access.mask(caller, snapshot)
            mask = self._visible.mask(
                caller, keys, snapshot, allowed, request.servers, hidden, notices
            )
        servers = request.servers
        if group is not None:
            within = np.fromiter((key in group for key in keys), np.bool_)
            servers, outside = _in_group(request, group)
            notices += outside
            if request.servers and not servers:
                within[:] = False
            mask = within if mask is None else mask & within
        wanted = SearchRequest(
            queries=request.queries,
            context=request.context,
            limit=_limit(request, settings.discovery.max_results),
            servers=servers,
            mask=mask,
            threshold=request.threshold,
            project_id=caller.project_id,
            recent=self._learning.recent(caller),
            weights=request.weights,
            learned=await self._learning.learned(caller),
        )
        of_tools, answer = await self._found(caller, snapshot, request, wanted, hidden, arm)
        if settings.discovery.show_down:
            hits = sorted(answer.hits, key=lambda hit: hit.key.partition(":")[0] in down)
            answer = replace(answer, hits=tuple(hits))
        if request.include_core and arm.name != "off":
            core = self._core(caller, answer, request)
            answer = replace(answer, hits=(*answer.hits, *core)) if core else answer
        with observe("answer", hits=len(answer.hits)):
            found = compose(
                _as_shown(answer, snapshot),
                lambda key: self._definition(caller, snapshot, key),
                siblings=self._visible.siblings(snapshot, allowed, answer)
                if request.as_text
                else {},
                budget_tokens=request.budget_tokens
                or project.budget_tokens
                or settings.discovery.budget_tokens,
                down=down,
                notices=notices,
                meta_tools=self._listing.callable_meta_tools(caller),
                alternatives=_keys_as_shown(self._alternatives(caller, answer), snapshot)
                if settings.usage.alternatives
                else {},
                used_with=_keys_as_shown(self._used_with(caller, answer), snapshot),
                as_text=request.as_text,
            )
        results = [(snapshot.own_key(result.tool_key), result) for result in found.results]
        self._learn(caller, request, of_tools, dict(results), snapshot)
        self._receipts.discovery(
            caller,
            request.queries,
            [(key, result.relevance) for key, result in results],
            tokens=found.tokens,
            began=began,
            searched_by=arm.name,
            fallback=answer.fallback,
            withheld=self._visible.withheld(caller, snapshot, allowed, hidden),
        )
        await self._receipts.wait_written(caller)
        return found

    async def _found(
        self,
        caller: Caller,
        snapshot: Snapshot,
        request: DiscoverRequest,
        wanted: SearchRequest,
        hidden: Collection[str],
        arm: Variant,
    ) -> tuple[SearchAnswer, SearchAnswer]:
        """Return the tools found, and the same together with other contents found."""
        strategy, keys = arm.strategy, arm.strategy.keys
        answer = NOTHING
        if request.may_be_tool:
            with observe("search", queries=len(request.queries), tools=len(keys)):
                answer = await strategy.search(wanted)
                if arm.name != "off":
                    answer = await self._with_intents(caller, wanted, answer, keys)
        whole = answer
        if arm.name != "off" and not request.group:
            whole = await self._contents.search(caller, snapshot, wanted, request.kinds, hidden)
            if request.may_be_tool:
                whole = with_contents(answer, whole, wanted.limit)
        if request.max_results is None:
            close = tuple(hit for hit in whole.hits if not hit.is_far_behind)
            whole = replace(whole, hits=close)
        return answer, whole

    async def _with_intents(
        self, caller: Caller, wanted: SearchRequest, answer: SearchAnswer, keys: Sequence[str]
    ) -> SearchAnswer:
        """Rank the tools of the intents that packs detect in the request higher."""

        def could_be_found(key: str) -> bool:
            if wanted.servers and key.partition(":")[0] not in wanted.servers:
                return False
            return wanted.mask is None or (key in keys and bool(wanted.mask[keys.index(key)]))

        raised = await self._intents.search_boosts(caller, wanted.queries)
        if not raised:
            return answer
        for each in raised:
            answer = each.apply_to(answer, may_add=could_be_found)
        hits = [hit for hit in answer.hits if hit.relevance >= wanted.threshold]
        return replace(answer, hits=tuple(hits[: wanted.limit]))

    def _core(self, caller: Caller, answer: SearchAnswer, request: DiscoverRequest) -> list[Hit]:
        """The pinned tools that the search did not find."""
        found = {hit.key for hit in answer.hits}
        return [
            Hit(key=entry.key, relevance=0.0, explanation="is pinned", source="core")
            for key in sorted(self._listing.pinned(self._listing.project_of(caller)) - found)
            if (entry := self._catalog.snapshot.tool(key)) is not None
            if not request.servers or entry.server in request.servers
            if self._access.decide(caller, "list", entry.key).allowed
        ]

    async def _group(self, caller: Caller, name: str) -> Collection[str] | None:
        """Keys of the tools of a capability group; None if no group is requested.

        Raises:
            ArgumentError: The group does not exist.
        """
        if not name.strip():
            return None
        group = self._relations.groups.find(name)
        if group is None:
            await self._relations.wait_until_computed()
            group = self._relations.groups.find(name)
        if group is not None and self._sees_any(caller, group):
            return group
        known = self._relations.groups.keys
        groups = [one for one, keys in known.items() if self._sees_any(caller, keys)]
        near = nearest(name, groups)
        raise ArgumentError(
            f"There is no group {name[:60]!r}.",
            allowed=f"Groups: {', '.join(groups[:40]) or 'none'}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Leave `group` out.",
        )

    def _sees_any(self, caller: Caller, keys: Collection[str]) -> bool:
        """Whether a caller may see a group: one of its tools, or a group without tools."""
        return not keys or any(self._access.decide(caller, "list", key).allowed for key in keys)

    def _usable(self, caller: Caller, keys: Sequence[str]) -> list[str]:
        """The keys of tools that the caller may see and that can run now."""
        down, snapshot = self._catalog.down(), self._catalog.snapshot
        return [
            key
            for key in keys
            if (entry := snapshot.tool(key)) is not None
            if entry.server not in down and self._access.decide(caller, "list", key).allowed
        ]

    def _alternatives(self, caller: Caller, answer: SearchAnswer) -> Mapping[str, Sequence[str]]:
        known = self._relations.alternatives
        return {
            hit.key: usable
            for hit in answer.hits
            if hit.key in known and (usable := self._usable(caller, known[hit.key]))
        }

    def _used_with(self, caller: Caller, answer: SearchAnswer) -> Mapping[str, Sequence[str]]:
        found = self._learning.used_together(caller.project_id, [hit.key for hit in answer.hits])
        return {key: self._usable(caller, others) for key, others in found.items()}

    def _learn(
        self,
        caller: Caller,
        request: DiscoverRequest,
        answer: SearchAnswer,
        shown: Mapping[str, DiscoveryResult],
        snapshot: Snapshot,
    ) -> None:
        """Remember what an answer showed, by key, to link later calls to this search."""
        beside = {key for result in shown.values() for key in result.alternatives}
        beside |= {key for result in shown.values() for key, _ in result.used_with}
        beside = set(map(snapshot.own_key, beside))
        asked = answer.queries or tuple(SearchedQuery(query=query) for query in request.queries)
        hits = [hit for hit in answer.hits if hit.key in shown]
        self._learning.note_search(caller, asked, answer.model, hits, beside)

    def _definition(self, caller: Caller, snapshot: Snapshot, key: str) -> bytes:
        if (entry := snapshot.tool(key)) is not None:
            return entry.raw
        if (content := self._contents.find(caller, key)) is not None:
            return content.raw
        raise KeyError(key)

    async def groups(self, caller: Caller) -> list[Json]:
        """The capability groups: `name`, `servers`, `tools` that the caller may see, `derived`."""
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        strategy = self._listing.arm(caller).strategy
        self._relations.refresh(snapshot.version, self._index.tools, strategy)
        await self._relations.wait_until_computed()
        found: list[Json] = []
        for name, keys in self._relations.groups.keys.items():
            entries = [
                entry
                for key in sorted(keys)
                if (entry := snapshot.tool(key)) is not None
                if self._access.decide(caller, "list", key).allowed
            ]
            if keys and not entries and not self._sees_any(caller, keys):
                continue
            found.append(
                {
                    "name": name,
                    "servers": list(dict.fromkeys(entry.server for entry in entries)),
                    "tools": len(entries),
                    "derived": name in self._relations.groups.derived,
                }
            )
        return found

    async def describe(self, caller: Caller, keys: Sequence[str]) -> Description:
        """Return full tool schemas within the budget; whole tools are left out before any is cut.

        A notice names each unknown key; the other schemas are still returned.

        Raises:
            UnknownToolError: No key names a tool of this caller; the most similar ones are
                named.
        """
        began = perf_counter()
        definitions: list[tuple[str, Json]] = []
        problems: list[ToolgateError] = []
        for key in dict.fromkeys(keys):
            if (content := self._contents.find(caller, key)) is not None:
                definitions.append((key, json_object(json_text.loads(content.raw))))
                continue
            try:
                with self._receipts.refusals(caller, "describe", key):
                    entry = self._visible.tool(caller, key)
                    definitions.append((entry.shown_key, entry.definition))
            except ToolgateError as error:
                problems.append(error)
        if problems and not definitions:
            raise problems[0]
        shown = describe_tools(
            definitions,
            budget_tokens=self._settings.current.discovery.describe_budget_tokens,
            notices=[str(problem) for problem in problems[:3]],
        )
        detail: Json = {"keys": [key for key, _ in definitions], "tokens": shown.tokens}
        self._receipts.simple(caller, "describe", began=began, detail=detail)
        await self._receipts.wait_written(caller)
        return shown


def _limit(request: DiscoverRequest, default: int) -> int:
    """The most hits of a request; if it does not say, enough for each of several steps."""
    steps = len(request.queries)
    return request.max_results or (max(default, _HITS_PER_STEP * steps) if steps > 1 else default)


def _as_shown(answer: SearchAnswer, snapshot: Snapshot) -> SearchAnswer:
    """Replace keys with the names that clients see, if tools are renamed."""
    if not snapshot.has_renamed:
        return answer
    hits = tuple(replace(hit, key=snapshot.shown_key(hit.key)) for hit in answer.hits)
    return replace(answer, hits=hits)


def _keys_as_shown(
    keys: Mapping[str, Sequence[str]], snapshot: Snapshot
) -> Mapping[str, Sequence[str]]:
    if not snapshot.has_renamed:
        return keys
    return {
        snapshot.shown_key(key): [snapshot.shown_key(other) for other in others]
        for key, others in keys.items()
    }


def _in_group(
    request: DiscoverRequest, group: Collection[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The requested servers with tools in a group, and notices about the others."""
    name = request.group.strip()[:60]
    if not group:
        return (), [f"Group {name!r} has no tool: nothing here fits what [groups] names."]
    has = {key.partition(":")[0] for key in group}
    outside = [server for server in request.servers if server not in has]
    inside = tuple(server for server in request.servers if server in has)
    return inside, [f"Group {name!r} has no tool of server {server!r}." for server in outside]
