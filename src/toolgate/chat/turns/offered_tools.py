"""Which tools a model is offered in a turn, and what each name refers to."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from toolgate.base import json_text
from toolgate.catalog import CatalogEntry
from toolgate.chat.base import DOCUMENTS, SQL
from toolgate.errors import ToolgateError
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.listing.program_offer import PROGRAM_TOOL
from toolgate.gateway.meta_tools import DEFINITIONS, DiscoverRequest
from toolgate.intents.semantic import split_requests
from toolgate.search import DiscoveryResult
from toolgate.types import Caller, Json, json_array, json_object

log = logging.getLogger(__name__)

ENOUGH = 0.9
"""Total relevance from which no further tool is offered."""

META = ("tool_discovery", "tool_execute")
"""Meta-tools with which a model finds tools that it was not offered."""

_TOO_WEAK = 0.01
"""Relevance below which no further tool is offered. On the requests of `benchmarks/data`, chosen on
those for fitting (204) and the same on the others (140): no needed tool is lost, and the offered
definitions have 10 % fewer tokens."""

_FOUND_AT_MOST = 8
"""Most tools for a part of a question (chosen)."""
_WEAK_AT_MOST = 2
"""Most tools for a part of a question without good matches, if other parts have some."""

_WORTH_ADDING = 0.05
"""Relevance that one of the new tools needs in a thread that has tools already, where each new one
stays. On the requests of `benchmarks/data/phrases.jsonl`, some tool that fits was offered for 361
of 363 for which it is offered without this rule, and for 183 of 184 of those held out (chosen of
.05, .1 and .15)."""

_OFFERS = 512
"""Offers in memory (chosen): most turns offer the tools of earlier ones, whose definitions would
have to be parsed again."""

_FAMILIES: Mapping[str, str] = {"documents": DOCUMENTS, "sql": SQL, "sqlcl": SQL}
"""Kinds of the tools in bundled packs, by server name."""

KIND_MARK = "toolgate/kind"
"""Member of a tool's `_meta` for its kind, `Vector Search` or `NL2SQL`."""

INTERNAL_MARK = "toolgate/internal"
"""Member of a tool's `_meta`: true if it is never offered to a model."""

RETRIEVES_MARK = "toolgate/retrieves"
"""Member of a tool's `_meta`: true if a turn searches documents itself in place of a call."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A tool that a model may call."""

    name: str
    """Its name for the model."""

    definition: Json
    """Its definition in OpenAI's format."""

    key: str = ""
    """`server:tool`; empty for meta-tools and the client's tools."""

    source: Literal["server", "meta", "client"] = "server"
    """Who runs it."""

    family: str = ""
    """`Vector Search`, `NL2SQL`, or empty."""

    retrieves: bool = False
    """Whether the turn searches documents itself in place of a call."""

    injected: tuple[str, ...] = ()
    """Hidden parameters that the gateway sets."""

    required: tuple[str, ...] = ()
    """Required parameters of a call, without those that the gateway sets."""


@dataclass(frozen=True, kw_only=True)
class Offers:
    """All tools that a model is offered, by name, in the order of the request."""

    by_name: Mapping[str, Offer]
    """Offers by name."""

    fallback: str = ""
    """Why tools could not be searched; empty: they were."""

    fits: bool = True
    """Whether the search found a tool that fits."""

    def definitions(self, *, without_retrieval: bool = False) -> tuple[Json, ...]:
        """Return the definitions for a request."""
        return tuple(
            offer.definition
            for offer in self.by_name.values()
            if not (without_retrieval and offer.retrieves)
        )

    def families(self) -> set[str]:
        """Return the kinds of the offered tools."""
        return {offer.family for offer in self.by_name.values() if offer.family}


def family_of(entry: CatalogEntry) -> str:
    """Return `Vector Search`, `NL2SQL`, or empty, by mark, else by server."""
    if b'"toolgate/kind"' in entry.raw:
        return str(_meta(entry.definition).get(KIND_MARK, ""))
    return _FAMILIES.get(entry.server.partition("-")[0], "")  # sqlcl-NAME is for one database


def offer_of(entry: CatalogEntry, hidden: Collection[str]) -> Offer | None:
    """Return the offer of a tool; None if it is never offered.

    Args:
        entry: The tool.
        hidden: Parameters that are never shown and set by the gateway.
    """
    return _offer(entry.raw, entry.key, entry.exposed, family_of(entry), tuple(hidden))


@lru_cache(_OFFERS)
def _offer(
    raw: bytes,
    key: str,
    exposed: str,
    family: str,
    hidden: tuple[str, ...],
) -> Offer | None:
    definition = json_object(json_text.loads(raw))
    meta = _meta(definition)
    if meta.get(INTERNAL_MARK) is True:
        return None
    schema = json_object(definition.get("inputSchema")) or {"type": "object", "properties": {}}
    properties = json_object(schema.get("properties"))
    injected = tuple(name for name in hidden if name in properties)
    required = [str(name) for name in json_array(schema.get("required")) if name not in injected]
    if injected:
        visible = {name: schema for name, schema in properties.items() if name not in injected}
        schema = {**schema, "properties": visible, "required": required}
    function: Json = {
        "name": exposed,
        "description": str(definition.get("description") or definition.get("title") or ""),
        "parameters": schema,
    }
    return Offer(
        name=exposed,
        definition={"type": "function", "function": function},
        key=key,
        family=family,
        retrieves=meta.get(RETRIEVES_MARK) is True,
        injected=injected,
        required=tuple(required),
    )


async def find_tools(
    gateway: Gateway,
    caller: Caller,
    query: str,
    *,
    families: Collection[str],
    before: Sequence[str],
    client_tools: Sequence[Json],
    hidden: Collection[str],
    max_tools: int,
    thread_tools: int,
    with_meta: bool,
    raised: Sequence[str] = (),
) -> tuple[Offers, list[str]]:
    """Return the offers of a turn, and the keys that its thread has offered so far.

    The order is stable in a thread: earlier offers stay in front, so that the services' prompt
    caches stay valid. First come the meta-tools, then tools of enabled kinds, then pinned ones,
    then those found for each part of the question.

    Args:
        gateway: Searches and knows the tools.
        caller: The caller, whose permissions apply.
        query: The search query; empty: no search.
        families: Enabled kinds; empty: only the client's own tools are offered.
        before: Keys that the thread offered in earlier turns.
        client_tools: The client's own tools, which take precedence if names are the same.
        hidden: Parameters that are never shown.
        max_tools: Most tools from the search.
        thread_tools: Most tools of a thread, not counting pinned ones.
        with_meta: Whether to offer the meta-tools.
        raised: Keys of tools of the detected intent; they count as found.
    """
    theirs = {offer.name: offer for offer in map(_client_offer, client_tools)}
    if not families:
        return Offers(by_name=theirs), [*before]
    keys: list[str] = [*before]
    fallback, fits = "", True
    keys += [entry.key for entry in _of_families(gateway, caller)]
    pinned = gateway.listing.pinned(caller)
    queries = tuple(dict.fromkeys((query or " ", *split_requests(query))))
    try:
        discovery = await gateway.discovery.discover(
            caller,
            DiscoverRequest(
                queries=queries,
                max_results=_FOUND_AT_MOST * len(queries),
                kinds=("tool",),
                as_text=False,
            ),
        )
    except ToolgateError as error:
        # Without the search, a turn still has the permanent tools, and can search itself.
        fallback = error.code
        log.warning("turn without search", extra={"reason": error.code})
        chosen: list[str] = list(raised)
    else:
        best = _best_of_parts(discovery.results, queries)
        fits = bool(best)
        is_one_request = len(queries) == 1
        if before and with_meta and is_one_request and not set(raised) - set(keys):
            best = _worth_adding(best, discovery.results, known={*keys, *pinned})
        chosen = [*raised, *best]
    meta = (*META, PROGRAM_TOOL) if gateway.programs.is_offered() else META
    # A program takes the place of a tool: each offer costs tokens in every request.
    room = max_tools - (len(meta) - len(META))
    for key in dict.fromkeys(chosen):
        if key in keys or key in pinned:
            continue
        if room <= 0 or len(keys) >= thread_tools:
            break
        room -= 1
        keys.append(key)
    offers: dict[str, Offer] = {name: _meta_offer(name) for name in meta} if with_meta else {}
    within_limit: list[str] = []
    for key in dict.fromkeys([*before, *pinned, *keys]):
        entry = gateway.visible.tool_or_none(caller, key)
        if entry is None:
            continue
        within_limit.append(key)
        family = family_of(entry)
        if family and family not in families:
            continue
        offer = offer_of(entry, hidden)
        if offer is not None:
            offers[offer.name] = offer
    ours = {name: offer for name, offer in offers.items() if name not in theirs}
    return Offers(by_name={**ours, **theirs}, fallback=fallback, fits=fits), within_limit


def _of_families(gateway: Gateway, caller: Caller) -> list[CatalogEntry]:
    """Return the tools of the packs `documents` and `sql`, which are always offered."""
    entries: list[CatalogEntry] = []
    for server in _FAMILIES:
        entries += gateway.visible.tools_of(caller, server)
    return [
        entry
        for entry in entries
        if b'"toolgate/internal"' not in entry.raw
        or _meta(entry.definition).get(INTERNAL_MARK) is not True
    ]


def _best_of_parts(results: Iterable[DiscoveryResult], queries: Sequence[str]) -> list[str]:
    """Return the best tools for the parts of a question, sorted by rank; empty: none fits.

    If one part has a good match, the others get their best tools even if these are weak: a part
    is often too short to say for sure what it needs, and the model sees which of them help.
    """
    results = list(results)
    of_parts = [
        [hit for hit in results if hit.reasons.get("query", queries[0]) == query[:200]]
        for query in queries
    ]
    fitting = [_fitting(hits) for hits in of_parts]
    if any(fitting):
        fitting = [
            keys or [hit.tool_key for hit in hits[:_WEAK_AT_MOST]]
            for keys, hits in zip(fitting, of_parts, strict=True)
        ]
    # Parts are more precise than the whole question.
    ranks = zip_longest(*fitting[1:], *fitting[:1])
    return list(dict.fromkeys(key for rank in ranks for key in rank if key is not None))


def _fitting(results: Sequence[DiscoveryResult]) -> list[str]:
    """Return the best results until they probably include the needed tool."""
    keys: list[str] = []
    summed = 0.0
    for hit in results:
        if hit.weak or summed >= ENOUGH or (keys and hit.relevance < _TOO_WEAK):
            break
        keys.append(hit.tool_key)
        summed += hit.relevance
    return keys


def _worth_adding(
    keys: Sequence[str], results: Iterable[DiscoveryResult], *, known: Collection[str]
) -> list[str]:
    """Return the found tools without new ones, if none of these is relevant enough.

    If one is, the others cost little more. The model can find those left out by itself.
    """
    relevances = [hit.relevance for hit in results if hit.tool_key in set(keys) - set(known)]
    if max(relevances, default=1.0) >= _WORTH_ADDING:
        return [*keys]
    return [key for key in keys if key in known]


def _meta_offer(name: str) -> Offer:
    definition = DEFINITIONS[name]
    function = {
        "name": name,
        "description": definition["description"],
        "parameters": definition["inputSchema"],
    }
    return Offer(name=name, definition={"type": "function", "function": function}, source="meta")


def _client_offer(tool: Json) -> Offer:
    function = json_object(tool.get("function"))
    return Offer(name=str(function.get("name", "")), definition=tool, source="client")


def _meta(definition: Json) -> Json:
    return json_object(definition.get("_meta"))
