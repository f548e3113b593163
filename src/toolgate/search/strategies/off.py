"""No search: discovery finds nothing and says why. The tools are then listed directly."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgate.search import SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

_REASON = (
    "The search for tools is switched off here. The tools are in the list of tools (tools/list):"
    " call them by their names."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The search `off` has no options."""


def build(options: Options) -> "NoSearch":
    """Create a search without an index."""
    del options
    return NoSearch()


class NoSearch:
    """Finds nothing, and says so. Without hits, the other requirements of a search do not apply."""

    @property
    def keys(self) -> tuple[str, ...]:
        """No keys: there is no index."""
        return ()

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Ignore the tools."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return no hits, with the reason."""
        del request
        return SearchAnswer(hits=(), fit="none", notices=(_REASON,))


_: type[SearchStrategy] = NoSearch
