"""The search `trigram`: ranks tools by the three-character sequences they share with a request.

It needs no word lists and tolerates typing errors. Relevance is the share of the request's trigrams
that a tool has; a tool whose name is given exactly comes first.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import perf_counter

from toolgate.errors import OptionError
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

_MAX_QUERIES = 10
"""Queries of a request that are searched (chosen)."""

_MAX_CHARACTERS = 2_000
"""Characters of a query that are searched (chosen)."""

_BELOW_EXACT = 0.99
"""Relevance of a tool that has all trigrams, below the 1 of an exact name (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options.trigram]`."""

    minimum: float = 0.1
    """Lowest share of a request's trigrams that makes a hit, above 0 and at most 1."""

    weak: float = 0.3
    """Share below which the best hit, and so all of them, count as weak, 0 to 1."""

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            OptionError: One is out of range.
        """
        if not 0 < self.minimum <= 1:
            raise OptionError("minimum is out of range.", allowed="Allowed: above 0, at most 1.")
        if not 0 <= self.weak <= 1:
            raise OptionError("weak is out of range.", allowed="Allowed: 0 to 1.")


def build(options: Options) -> "TrigramSearch":
    """Return a search with an empty index."""
    return TrigramSearch(options)


@dataclass(frozen=True, kw_only=True)
class _IndexedTool:
    """The text of a tool that is searched."""

    tool: SearchableTool
    trigrams: frozenset[str]
    names: frozenset[str]


class TrigramSearch:
    """Ranks tools by shared trigrams. `update` replaces the whole index."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._index: tuple[_IndexedTool, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return tuple(entry.tool.key for entry in self._index)

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Replace the tools of the index; only new and changed ones are read."""
        before = {entry.tool: entry for entry in self._index}
        self._index = tuple(before.get(tool) or _indexed(tool) for tool in tools)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that fit best."""
        started = perf_counter()
        candidates, notices = _candidates(self._index, request)
        fitting: list[list[Hit]] = []
        weak: list[list[Hit]] = []
        queries = [query for query in request.queries if query.strip()][:_MAX_QUERIES]
        for query in queries if candidates else ():
            hits, notice = self._search_query(query.strip()[:_MAX_CHARACTERS], candidates, request)
            is_weak = bool(hits) and "weak" in hits[0].fields
            (weak if is_weak else fitting).append(hits)
            if notice:
                notices.append(f"{query[:60]!r}: {notice}" if len(queries) > 1 else notice)
        if not queries:
            notices.append("The query is empty. Say in a few words what the tool should do.")
        elif not candidates and not notices:
            notices.append("There is no tool to search.")
        hits = _merged([*_dealt(fitting), *_dealt(weak)])[: request.limit]
        return SearchAnswer(
            hits=tuple(hits),
            notices=tuple(dict.fromkeys(notices)),
            searched=len(candidates),
            duration_ms=(perf_counter() - started) * 1000,
        )

    def _search_query(
        self, query: str, candidates: Sequence[_IndexedTool], request: SearchRequest
    ) -> tuple[list[Hit], str]:
        """Return the hits of one query, best first, and notices for the reader."""
        trigrams, names = _trigrams(_query_words(query)), _names_in(query)
        hits: list[Hit] = []
        for entry in candidates:
            share = len(trigrams & entry.trigrams) / len(trigrams) if trigrams else 0.0
            if names & entry.names:
                hits.append(_exact_hit(entry.tool.key, query))
            elif share >= self._options.minimum:
                hits.append(_hit(entry.tool.key, query, share))
        if not hits:
            return [], "No tool has words like these. Use other words."
        hits.sort(key=lambda hit: (-hit.relevance, hit.key))
        above = [hit for hit in hits if hit.relevance >= request.threshold][: request.limit]
        if not above:
            return [], f"No tool reaches the relevance of {request.threshold:g}. Lower it."
        if above[0].relevance < self._options.weak:
            above = [replace(hit, fields={**hit.fields, "weak": True}) for hit in above]
            return above, "No tool fits well; these come nearest."
        return above, ""


def _indexed(tool: SearchableTool) -> _IndexedTool:
    parameters = (text for parameter in tool.parameters for text in parameter)
    texts = (tool.key, tool.name, tool.title, tool.description, *parameters)
    return _IndexedTool(
        tool=tool,
        trigrams=_trigrams(word for text in texts for word in _words(text[:_MAX_CHARACTERS])),
        names=frozenset(filter(None, (_normalized(tool.key), _normalized(tool.name)))),
    )


def _candidates(
    index: Sequence[_IndexedTool], request: SearchRequest
) -> tuple[list[_IndexedTool], list[str]]:
    """Return the tools that mask and `servers` allow, and notices for the reader."""
    if request.mask is not None and len(request.mask) != len(index):
        # A mask made for another state of the index does not apply to this one.
        return [], ["The tools changed during the search. Search again."]
    mask = [True] * len(index) if request.mask is None else request.mask
    allowed = [entry for entry, is_allowed in zip(index, mask, strict=True) if is_allowed]
    if not request.servers:
        return allowed, []
    names = {server.casefold(): server for server in request.servers}
    allowed = [entry for entry in allowed if entry.tool.server.casefold() in names]
    present = {entry.tool.server.casefold() for entry in allowed}
    return allowed, [
        f"Server {server[:64]!r} has no tool here."
        for folded, server in names.items()
        if folded not in present
    ]


def _exact_hit(key: str, query: str) -> Hit:
    return Hit(
        key=key,
        relevance=1.0,
        explanation="has exactly this name",
        fields={"query": query[:200]},
        source="exact",
    )


def _hit(key: str, query: str, share: float) -> Hit:
    return Hit(
        key=key,
        relevance=round(_BELOW_EXACT * share, 4),
        explanation=f"has {share:.0%} of the request's trigrams",
        fields={"query": query[:200]},
    )


def _dealt(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Interleave the hits of several queries: the best of each, then the second of each."""
    return [hit for turn in zip_longest(*lists) for hit in turn if hit is not None]


def _merged(hits: Iterable[Hit]) -> list[Hit]:
    """Keep each tool once, at its first place."""
    by_key: dict[str, Hit] = {}
    for hit in hits:
        by_key.setdefault(hit.key, hit)
    return list(by_key.values())


def _words(text: str) -> list[str]:
    """Words in lower case; `createIssue` and `create_issue` are two words each."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.findall(r"[^\W_]+", split.casefold())


def _query_words(query: str) -> list[str]:
    """The words of a query without short ones, such as `the`, unless there are no others."""
    words = _words(query)
    return [word for word in words if len(word) > 3 or not word.isascii()] or words


def _trigrams(words: Iterable[str]) -> frozenset[str]:
    """Three-character sequences; spaces around a word give its start and end more weight."""
    padded = (f"  {word} " for word in words)
    return frozenset(word[at : at + 3] for word in padded for at in range(len(word) - 2))


def _names_in(query: str) -> frozenset[str]:
    """Possible tool names: the whole query, and each part with a separator in it."""
    parts = [part.strip("\"'`“”.,;:!?()[]") for part in query.split()]
    spellings = [query, *(part for part in parts if not part.isalnum())]
    return frozenset(filter(None, map(_normalized, spellings)))


def _normalized(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


_: type[SearchStrategy] = TrigramSearch
