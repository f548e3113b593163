"""The tools of intents: which ones names mean, how they are shown, what a search makes of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final, Protocol

from toolgate.base import json_text
from toolgate.catalog import CatalogEntry, ServerEntries, Snapshot
from toolgate.intents import Intent, Taught
from toolgate.search import Hit, SearchAnswer, signature
from toolgate.types import json_object

__all__ = ["Raised", "ToolNames", "Toolbox", "only_reads", "said_of"]

_FITS: Final = 0.5
"""A tool that an intent makes as likely as this fits, whatever its words are."""

_FAINT: Final = 0.05

_NOTHING_FITS: Final = "Nothing fits well"
"""How a search begins to say that its hits are all weak."""

_DESCRIPTION_CHARS: Final = 160


class Toolbox(Protocol):
    """The tools that a caller may use, as the gateway knows them."""

    def tools_of(self, intent: Intent) -> Sequence[CatalogEntry]:
        """Those of an intent, in its order."""
        ...

    def shown(self, entry: CatalogEntry) -> str:
        """The name by which the model can call a tool."""
        ...


class ToolNames:
    """Which tools the names in intents can mean; looked for once in each state of the catalog."""

    def __init__(self) -> None:
        self._state: tuple[int, str] = (-1, "")
        self._servers: Mapping[str, ServerEntries] = {}
        self._of_server: dict[str, list[tuple[str, CatalogEntry]]] = {}
        self._called: dict[str, list[CatalogEntry]] = {}
        self._found: dict[tuple[str, str], Sequence[CatalogEntry]] = {}

    def entries(
        self, snapshot: Snapshot, taught: Taught, intent: Intent, name: str
    ) -> Sequence[CatalogEntry]:
        """The tools that an intent can mean by a name, best first.

        A key means its tool, and a bare name that of the intent's own pack before all others.
        """
        if (snapshot.version, taught.version) != self._state:
            self._look(snapshot, taught)
        which = intent.pack, name
        found = self._found.get(which)
        if found is None:
            own = snapshot.tool(name) or snapshot.tool(f"{intent.pack}:{name}")
            found = self._called.get(name, ()) if own is None else (own,)
            self._found[which] = found
        return found

    def _look(self, snapshot: Snapshot, taught: Taught) -> None:
        """Look through the servers that are not as they were at the last look."""
        names = {tool for each in taught.intents for tool in (*each.tools, each.tool)}
        before: Mapping[str, ServerEntries] = {}
        if taught.version == self._state[1]:
            before = self._servers
        of_server: dict[str, list[tuple[str, CatalogEntry]]] = {}
        for server, entries in snapshot.servers.items():
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
        self._state = snapshot.version, taught.version
        self._servers, self._of_server, self._found = snapshot.servers, of_server, {}
        self._called = {}
        for called, entry in chain.from_iterable(of_server.values()):
            self._called.setdefault(called, []).append(entry)


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An intent, and the tools that it makes likely in a search."""

    intent: str
    """Its name."""

    weight: float
    """How likely it makes its best tool, in [0, 1]."""

    is_asked: bool
    """Whether the search has it; else it is that of the conversation."""

    keys: tuple[str, ...]
    """Its tools, the main one first."""

    def in_answer(self, answer: SearchAnswer, *, may_add: Callable[[str], bool]) -> SearchAnswer:
        """The answer of a search with this intent in it: said of its tools, best first.

        What the search found best among its tools gets all of the weight, the others as much as
        they have of that one's relevance. If it found none of them, the main one is added. The
        intent of the conversation adds none, and only raises what fits anyway.

        Args:
            answer: Of the search.
            may_add: Whether a tool could have been found.
        """
        own = [hit for hit in answer.hits if hit.key in self.keys]
        if not own and not self.is_asked:
            return answer
        if not own:
            main = next((key for key in self.keys if may_add(key)), None)
            if main is None:
                return answer
            own = [Hit(key=main, relevance=0.0, explanation="", source="intent")]
        best = max(hit.relevance for hit in own) if self.is_asked else 1.0
        lifted = [
            # Below that, relevance says nothing about which of them is better.
            self._lifted(hit, hit.relevance / best if best >= _FAINT else float(hit is own[0]))
            for hit in own
        ]
        others = [hit for hit in answer.hits if hit.key not in self.keys]
        hits = others  # in their order: those of several queries alternate
        for hit in sorted(lifted, key=lambda one: -one.relevance):
            lower = (at for at, one in enumerate(hits) if one.relevance < hit.relevance)
            hits.insert(next(lower, len(hits)), hit)
        notices = answer.notices
        if lifted[0].relevance >= _FITS:
            notices = tuple(one for one in notices if _NOTHING_FITS not in one)
        return replace(answer, hits=tuple(hits), notices=notices)

    def _lifted(self, hit: Hit, share: float) -> Hit:
        said = f"belongs to the intent {self.intent}"
        relevance = round(1 - (1 - hit.relevance) * (1 - self.weight * share), 4)
        fields = {**hit.fields, "intent": self.intent}
        if relevance >= _FITS:
            fields.pop("weak", None)
        return replace(
            hit,
            relevance=relevance,
            explanation=f"{hit.explanation}, {said}" if hit.explanation else said,
            fields=fields,
        )


def only_reads(entry: CatalogEntry) -> bool:
    """Whether its server says that a tool changes nothing."""
    return json_object(entry.definition.get("annotations")).get("readOnlyHint") is True


@lru_cache(maxsize=1_024)
def said_of(raw: bytes) -> str:
    """The parameters of a tool and what it does, in one line."""
    definition = json_object(json_text.loads(raw))
    said = " ".join(str(definition.get("description") or "").split())
    end = said.find(". ")
    if 0 < end < _DESCRIPTION_CHARS:
        said = said[: end + 1]
    elif len(said) > _DESCRIPTION_CHARS:
        said = f"{said[: _DESCRIPTION_CHARS - 1]}…"
    parameters = signature("", json_object(definition.get("inputSchema")))
    return f"{parameters}: {said}" if said else parameters
