"""An index of the names of tools: keys, names and their spellings, as sorted hashes."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import fold, fold_all

_N_SPELLINGS = 5
"""Number of spellings that `spellings_of` returns for each tool."""


@dataclass(frozen=True)
class NameIndex:
    """The names of tools as sorted hashes: a dictionary would be larger than everything else.

    The hashes are checksums, the same in each process; comparing the tools resolves collisions.
    """

    hashes: NDArray[np.uint32]
    """Checksums of names, sorted."""
    ranks: NDArray[np.uint8]
    """How exactly each name identifies its tool; lower is more exact."""
    slots: NDArray[np.int32]
    """Slot of the tool of each name."""

    def find(self, spelling: str) -> list[tuple[int, int]]:
        """Return rank and slot of each name with the hash of this spelling."""
        hashes, checksum = self.hashes.data, _checksum_of(spelling)
        begin = bisect_left(hashes, checksum)
        if begin == len(hashes) or hashes[begin] != checksum:
            return []
        end = bisect_right(hashes, checksum, begin)
        return list(
            zip(self.ranks[begin:end].tolist(), self.slots[begin:end].tolist(), strict=True)
        )


def names_of(tools: Iterable[SearchableTool], first: int) -> NameIndex:
    """Return the names of tools in consecutive slots."""
    hashes = [[_checksum_of(spelling) for spelling in spellings_of(tool)] for tool in tools]
    table = np.array(hashes, np.uint32).reshape(-1, _N_SPELLINGS)
    ranks = np.tile(np.arange(_N_SPELLINGS, dtype=np.uint8), len(table))
    slots = np.repeat(np.arange(first, first + len(table), dtype=np.int32), _N_SPELLINGS)
    return _sorted(NameIndex(table.reshape(-1), ranks, slots))


def _checksum_of(spelling: str) -> int:
    """Return a checksum, the same in every process, as the cache file needs."""
    # CRC-32: 32 bits per name keep the index small; comparing the spellings resolves collisions.
    return crc32(spelling.encode(errors="surrogatepass"))


def _sorted(names: NameIndex) -> NameIndex:
    by_hash = np.argsort(names.hashes, kind="stable")
    return NameIndex(names.hashes[by_hash], names.ranks[by_hash], names.slots[by_hash])


def joined_names(names: Sequence[NameIndex]) -> NameIndex:
    """Merge several indexes."""
    return _sorted(
        NameIndex(
            np.concatenate([part.hashes for part in names]),
            np.concatenate([part.ranks for part in names]),
            np.concatenate([part.slots for part in names]),
        )
    )


def renumbered(names: NameIndex, moved: NDArray[np.int32]) -> NameIndex:
    """Move tools to other slots; drop names of those that moved to -1."""
    new = moved[names.slots]
    stays = new >= 0
    return NameIndex(names.hashes[stays], names.ranks[stays], new[stays])


def spellings_of(tool: SearchableTool) -> tuple[str, ...]:
    """Return the spellings of a tool's name, the most exact first: the position is the rank."""
    key, exposed, name = fold_all((tool.key, f"{tool.server}__{tool.name}", tool.name))
    return key, exposed, name, _plain(key) or tool.key, _plain(name) or tool.name


def plain_name(name: str) -> str:
    """Return only the letters and digits of a name, to compare `list files` with it."""
    return _plain(fold(name))


def _plain(folded: str) -> str:
    return folded.translate(_DROPPED) if folded.isascii() else _SEPARATORS.sub("", folded)


_SEPARATORS = re.compile(r"[\W_]+")
_DROPPED = {code: None for code in range(128) if not chr(code).isalnum()}
"""Characters to remove from an ASCII name, which is faster."""
