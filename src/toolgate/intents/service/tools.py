"""The tools of intents: resolves their names, summarizes them, boosts them in a search."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final, Protocol

from toolgate.base import json_text
from toolgate.catalog import CatalogEntry, ServerEntries, Snapshot
from toolgate.intents import Intent, IntentSet
from toolgate.search import Hit, SearchAnswer, signature
from toolgate.types import json_object

# Chosen.
_FITS: Final = 0.5
"""A tool with at least this relevance from an intent fits, whatever its words are."""

# Relevance below which hits of an intent are not compared with each other (chosen).
_FAINT: Final = 0.05

_NOTHING_FITS: Final = "Nothing fits well"
"""Start of the notice that all hits of a search are weak."""

_NEXT_BELOW: Final = 0.0001
"""The smallest difference between two relevances."""

# Characters of a description in a list of tools (chosen).
_DESCRIPTION_CHARS: Final = 160


class Toolbox(Protocol):
    """The tools that a caller may use, as the gateway knows them."""

    def tools_of(self, intent: Intent) -> Sequence[CatalogEntry]:
        """Return the tools of an intent, in its order."""
        ...

    def display_name(self, entry: CatalogEntry) -> str:
        """Return the name by which the model can call a tool."""
        ...


class ToolNames:
    """Resolves tool names in intents, once per state of the catalog."""

    def __init__(self) -> None:
        self._state: tuple[int, str] = (-1, "")
        self._servers: Mapping[str, ServerEntries] = {}
        self._of_server: dict[str, list[tuple[str, CatalogEntry]]] = {}
        self._by_name: dict[str, list[CatalogEntry]] = {}
        self._entries_of: dict[tuple[str, str], Sequence[CatalogEntry]] = {}

    def entries(
        self, snapshot: Snapshot, intent_set: IntentSet, intent: Intent, name: str
    ) -> Sequence[CatalogEntry]:
        """Return the tools that an intent can mean by a name, best first.

        A key means its tool, and a bare name means first the tool of the intent's own pack.
        """
        if (snapshot.version, intent_set.version) != self._state:
            self._index(snapshot, intent_set)
        key = intent.pack, name
        entries = self._entries_of.get(key)
        if entries is None:
            exact = snapshot.tool(name) or snapshot.tool(f"{intent.pack}:{name}")
            entries = self._by_name.get(name, ()) if exact is None else (exact,)
            self._entries_of[key] = entries
        return entries

    def _index(self, snapshot: Snapshot, intent_set: IntentSet) -> None:
        """Index the servers that have changed since the last call."""
        names = {tool for intent in intent_set.intents for tool in (*intent.tools, intent.tool)}
        before: Mapping[str, ServerEntries] = {}
        if intent_set.version == self._state[1]:
            before = self._servers
        of_server: dict[str, list[tuple[str, CatalogEntry]]] = {}
        for server, entries in snapshot.servers.items():
            # The same object: this server has not changed.
            if before.get(server) is entries:
                named = self._of_server.get(server)
            else:
                named = [
                    (called, entry)
                    for entry in entries.tools
                    for called in dict.fromkeys((entry.name, entry.exposed))
                    if called in names
                ]
            if named:
                of_server[server] = named
        self._state = snapshot.version, intent_set.version
        self._servers, self._of_server, self._entries_of = snapshot.servers, of_server, {}
        self._by_name = {}
        for called, entry in chain.from_iterable(of_server.values()):
            self._by_name.setdefault(called, []).append(entry)


@dataclass(frozen=True, kw_only=True)
class IntentBoost:
    """An intent, and the tools that it makes more likely in a search."""

    intent: str
    """Name of the intent."""

    weight: float
    """Probability that it gives its best tool, in [0, 1]."""

    from_query: bool
    """Whether the search has the intent; otherwise the conversation has it."""

    keys: tuple[str, ...]
    """Keys of its tools, the main one first."""

    queries: tuple[str, ...] = ()
    """The queries of the search that have the intent; empty: all of them."""

    def apply_to(self, answer: SearchAnswer, *, may_add: Callable[[str], bool]) -> SearchAnswer:
        """Apply this intent to the answer of a search: explain and boost its tools, best first.

        The best of its tools in the search gets all of the weight, the others in proportion to
        their relevance. If the search found none of them, the main one is added. The intent of
        the conversation adds no tool, and only boosts hits that fit anyway. No tool is placed
        before a fitting hit that matches more words of the request.

        Args:
            answer: The answer of the search.
            may_add: Whether a tool could have been found.
        """
        intent_hits = [hit for hit in answer.hits if hit.key in self.keys]
        if not intent_hits and not self.from_query:
            return answer
        if not intent_hits:
            main = next((key for key in self.keys if may_add(key)), None)
            if main is None:
                return answer
            fields = {"query": self.queries[0][:200]} if self.queries else {}
            intent_hits = [
                Hit(key=main, relevance=0.0, explanation="", source="intent", fields=fields)
            ]
        best = max(hit.relevance for hit in intent_hits) if self.from_query else 1.0
        other_hits = [hit for hit in answer.hits if hit.key not in self.keys]
        lifted = [
            # Below that, relevance does not tell which of them is better.
            self._lifted(
                hit,
                hit.relevance / best if best >= _FAINT else float(hit is intent_hits[0]),
                other_hits,
            )
            for hit in intent_hits
        ]
        hits = other_hits  # in their order: those of several queries alternate
        for hit in sorted(lifted, key=lambda lifted_hit: -lifted_hit.relevance):
            lower = (at for at, other in enumerate(hits) if other.relevance < hit.relevance)
            hits.insert(next(lower, len(hits)), hit)
        if max(hit.relevance for hit in lifted) < _FITS:
            return replace(answer, hits=tuple(hits))
        # Notices were written before the boost, and those about what now fits would contradict it.
        served = {query.strip()[:200] for query in self.queries} or {
            hit.fields.get("query") for hit in lifted if hit.relevance >= _FITS
        }
        outdated = {query.notice for query in answer.queries if query.query[:200] in served}
        notices = tuple(
            notice
            for notice in answer.notices
            if notice not in outdated and (answer.queries or _NOTHING_FITS not in notice)
        )
        fitting = tuple(
            replace(query, fit="good", notice="") if query.query[:200] in served else query
            for query in answer.queries
        )
        return replace(answer, hits=tuple(hits), notices=notices, fit="good", queries=fitting)

    def _lifted(self, hit: Hit, share: float, other_hits: Sequence[Hit]) -> Hit:
        reason = f"belongs to the intent {self.intent}"
        relevance = round(1 - (1 - hit.relevance) * (1 - self.weight * share), 4)
        better_matches = [
            other.relevance
            for other in other_hits
            if other.relevance > hit.relevance and other.literal > hit.literal
            if "weak" not in other.fields
        ]
        if better_matches:
            relevance = max(hit.relevance, min(relevance, min(better_matches) - _NEXT_BELOW))
        fields = {**hit.fields, "intent": self.intent}
        if relevance >= _FITS:
            fields.pop("weak", None)
        return replace(
            hit,
            relevance=relevance,
            explanation=f"{hit.explanation}, {reason}" if hit.explanation else reason,
            hint=f"{hit.hint}, {reason}" if hit.hint else reason,
            fields=fields,
        )


def is_read_only(entry: CatalogEntry) -> bool:
    """Whether a tool's server declares that it changes nothing."""
    return json_object(entry.definition.get("annotations")).get("readOnlyHint") is True


@lru_cache(maxsize=1_024)
def tool_summary(raw: bytes) -> str:
    """Return the parameters and description of a tool in one line."""
    definition = json_object(json_text.loads(raw))
    description = " ".join(str(definition.get("description") or "").split())
    end = description.find(". ")
    if 0 < end < _DESCRIPTION_CHARS:
        description = description[: end + 1]
    elif len(description) > _DESCRIPTION_CHARS:
        description = f"{description[: _DESCRIPTION_CHARS - 1]}…"
    parameters = signature("", json_object(definition.get("inputSchema")))
    return f"{parameters}: {description}" if description else parameters
