"""A state of the index of words, which searches read while the next one is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.lexical.postings import (
    WordIndex,
)
from toolgate.search.lexical.tool_names import NameIndex, spellings_of


@dataclass(frozen=True)
class LexicalState:
    """A state of the index; it ignores what later states add to shared parts.

    A tool has a slot in the arrays, and a position in the order of the mask. Both are the same
    until tools are inserted into, or removed from, a large index.
    """

    tools_in_order: tuple[SearchableTool, ...] = ()
    """The tools, by position."""
    keys: tuple[str, ...] = ()
    """The keys of the tools, by position."""
    tools: Sequence[SearchableTool] = ()
    """The tools by slot; later states may share and extend this list."""
    size: int = 0
    """Number of slots, including those of removed tools."""
    slots: NDArray[np.int32] | None = None
    """Slot of each position; None if they are the same."""
    live: NDArray[np.bool_] | None = None
    """Which slots have a tool; None if all have one."""
    servers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """Number of each slot's server in `server_names`."""
    server_names: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of servers by folded name; later states share and extend it."""
    names: "tuple[NameIndex, ...]" = ()
    """Indexes of the names of the tools."""
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of terms; later states share and extend it."""
    index: WordIndex | None = None
    """The postings, which states may share."""

    @property
    def nameless(self) -> int | None:
        """Number of the empty server name; None if all tools have a server name."""
        return self.server_names.get("")

    def slots_named(self, spelling: str) -> list[tuple[int, int]]:
        """Return the tools with this spelling: its rank (0 for the key itself) and the slot."""
        return [
            (rank, slot)
            for names in self.names
            for rank, slot in names.find(spelling)
            if (self.live is None or self.live[slot])
            and spellings_of(self.tools[slot])[rank] == spelling
        ]
