"""One state of the index of words, which searches read while the next one is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.lexical.postings import (
    WordIndex,
)
from toolgate.search.lexical.tool_names import NameIndex, checksum_of, spellings_of

__all__ = ["LexicalState"]


@dataclass(frozen=True)
class LexicalState:
    """One state of the index; what is added to shared parts later is beyond what it looks at.

    A tool has a place in the arrays, and a position in the order of the mask. Both are the same
    until a large index gets tools in its middle, or loses some.
    """

    tools_in_order: tuple[SearchableTool, ...] = ()
    """The tools, by position."""
    keys: tuple[str, ...] = ()
    """Theirs."""
    tools: Sequence[SearchableTool] = ()
    """The tools by place; later states may share and lengthen it."""
    size: int = 0
    """Places, those of tools that are gone included."""
    slots: NDArray[np.int32] | None = None
    """Place of each position; None: they are the same."""
    live: NDArray[np.bool_] | None = None
    """Which places have a tool; None: all of them."""
    servers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """Number of each place's server in `server_names`."""
    server_names: dict[str, int] = field(default_factory=dict[str, int])
    """By folded name; later states share it and add to it."""
    names: "tuple[NameIndex, ...]" = ()
    """What people call the tools."""
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of terms; later states share it and add to it."""
    index: WordIndex | None = None
    """The arrays that are shared between states."""

    @property
    def nameless(self) -> int | None:
        """What stands for the server of tools without the name of one; None: all have one."""
        return self.server_names.get("")

    def slots_named(self, spelling: str) -> list[tuple[int, int]]:
        """What people call so: the rank of that way, 0 for the key itself, and the place."""
        checksum = checksum_of(spelling)
        return [
            (rank, slot)
            for names in self.names
            for rank, slot in names.find(checksum)
            if (self.live is None or self.live[slot])
            and spellings_of(self.tools[slot])[rank] == spelling
        ]
