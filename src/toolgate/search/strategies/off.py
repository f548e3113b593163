"""No search: discovery finds nothing and says why. The tools are listed as they are then."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgate.search import SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

__all__ = ["NoSearch", "Options", "build"]

_REASON = (
    "The search for tools is switched off here. The tools are in the list of tools (tools/list):"
    " call them by their names."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The search `off` has no options."""


def build(options: Options) -> "NoSearch":
    """A search that keeps no tools."""
    del options
    return NoSearch()


class NoSearch:
    """Finds nothing, and says so. The other duties of a search are of no use without hits."""

    @property
    def keys(self) -> tuple[str, ...]:
        """None: nothing is kept."""
        return ()

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Keep none of them."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Nothing, with the reason."""
        del request
        return SearchAnswer(hits=(), fit="none", notices=(_REASON,))


_: type[SearchStrategy] = NoSearch
