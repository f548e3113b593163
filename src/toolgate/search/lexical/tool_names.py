"""An index of what tools are called: keys, names and their spellings, as sorted hashes."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import fold, fold_all

__all__ = [
    "NameIndex",
    "checksum_of",
    "joined_names",
    "names_of",
    "plain_name",
    "renumbered",
    "spellings_of",
]

_N_SPELLINGS = 5
"""Spellings that `spellings_of` gives for each tool."""


@dataclass(frozen=True)
class NameIndex:
    """What tools are called, as sorted hashes: a dictionary would be larger than all the rest.

    Checksums, the same in each process; two names with the same one are told apart by the tools.
    """

    hashes: NDArray[np.uint32]
    """Checksums of names, sorted."""
    ranks: NDArray[np.uint8]
    """How strongly each name means its tool; lower is stronger."""
    slots: NDArray[np.int32]
    """Place of the tool of each name."""

    def find(self, checksum: int) -> list[tuple[int, int]]:
        """Rank and place of what has this hash."""
        hashes = self.hashes.data
        begin = bisect_left(hashes, checksum)
        if begin == len(hashes) or hashes[begin] != checksum:
            return []
        end = bisect_right(hashes, checksum, begin)
        return list(
            zip(self.ranks[begin:end].tolist(), self.slots[begin:end].tolist(), strict=True)
        )


def names_of(tools: Iterable[SearchableTool], first: int) -> NameIndex:
    """The names of tools at consecutive slots."""
    hashes = [[checksum_of(spelling) for spelling in spellings_of(tool)] for tool in tools]
    table = np.array(hashes, np.uint32).reshape(-1, _N_SPELLINGS)
    ranks = np.tile(np.arange(_N_SPELLINGS, dtype=np.uint8), len(table))
    slots = np.repeat(np.arange(first, first + len(table), dtype=np.int32), _N_SPELLINGS)
    return _sorted(NameIndex(table.reshape(-1), ranks, slots))


def checksum_of(spelling: str) -> int:
    """A checksum that every process computes alike, as the cache file needs it."""
    # CRC-32: 32 bits a name keep the index small; a collision is settled by comparing spellings.
    return crc32(spelling.encode(errors="surrogatepass"))


def _sorted(names: NameIndex) -> NameIndex:
    by_hash = np.argsort(names.hashes, kind="stable")
    return NameIndex(names.hashes[by_hash], names.ranks[by_hash], names.slots[by_hash])


def joined_names(names: Sequence[NameIndex]) -> NameIndex:
    """Several indexes in one."""
    return _sorted(
        NameIndex(
            np.concatenate([part.hashes for part in names]),
            np.concatenate([part.ranks for part in names]),
            np.concatenate([part.slots for part in names]),
        )
    )


def renumbered(names: NameIndex, moved: NDArray[np.int32]) -> NameIndex:
    """The same names with their tools in other slots; those that moved to -1 are dropped."""
    new = moved[names.slots]
    stays = new >= 0
    return NameIndex(names.hashes[stays], names.ranks[stays], new[stays])


def spellings_of(tool: SearchableTool) -> tuple[str, ...]:
    """How people write a tool's name, the strongest first: the position is the rank."""
    key, exposed, name = fold_all((tool.key, f"{tool.server}__{tool.name}", tool.name))
    return key, exposed, name, _plain(key) or tool.key, _plain(name) or tool.name


def plain_name(name: str) -> str:
    """A name without everything but letters and digits, to compare `list files` with it."""
    return _plain(fold(name))


def _plain(folded: str) -> str:
    return folded.translate(_DROPPED) if folded.isascii() else _SEPARATORS.sub("", folded)


_SEPARATORS = re.compile(r"[\W_]+")
_DROPPED = {code: None for code in range(128) if not chr(code).isalnum()}
"""The same among plain characters, which goes faster."""
