"""Vectors of tools: one per distinct text, kept while the text stays, whatever else changes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolgate.embed import Vectors
from toolgate.search._text import split_identifier
from toolgate.search.base import SearchableTool

__all__ = ["ToolVectors", "Wanted", "aligned", "texts_of"]

_DESCRIPTION_CHARS = 2_000
_PARAMETER_CHARS = 2_000


def texts_of(tool: SearchableTool) -> tuple[str, str]:
    """What is embedded of a tool; its vector is the mean of both.

    The first is `server name: description`, the second has the parameters too; names in words. Each
    alone finds less (measured on five sets: the mean is worth 0.01 R@5).
    """
    head = " ".join((*split_identifier(tool.server), *split_identifier(tool.name)))
    about = tool.description[:_DESCRIPTION_CHARS]
    if tool.title and tool.title != tool.name:
        about = f"{tool.title}. {about}"
    split = f"{head}: {about}".strip()
    parameters: list[str] = []
    left = _PARAMETER_CHARS
    for name, text in tool.parameters:
        if left <= 0:
            break
        parameters.append(f"{' '.join(split_identifier(name))} {text}".strip()[:left])
        left -= len(parameters[-1])
    return split, f"{split} Parameters: {'; '.join(parameters)}" if parameters else split


@dataclass(frozen=True)
class Wanted:
    """A text that has no vector yet."""

    row: int
    split: str
    rich: str


@dataclass(frozen=True)
class ToolVectors:
    """Vectors of the tools of one state of the index."""

    rows: Vectors
    """Shape (distinct texts, dim); rows that `there` lacks are filled later."""

    there: NDArray[np.bool_]
    """Which rows are filled."""

    of_tool: NDArray[np.int64]
    """Row of each tool."""

    row_of: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Row of each text, by its hash."""

    read: dict[str, tuple[SearchableTool, bytes]] = field(
        default_factory=dict[str, tuple[SearchableTool, bytes]]
    )
    """Each tool by its key, with the hash of its text."""

    @property
    def of_tool_there(self) -> NDArray[np.bool_]:
        """Which tools have a vector."""
        return self.there[self.of_tool]


def aligned(
    last: ToolVectors | None, tools: Sequence[SearchableTool], dim: int
) -> tuple[ToolVectors, list[Wanted]]:
    """The vectors of these tools as far as `last` has them, and the texts that lack one."""
    before = last.read if last else {}
    row_of: dict[bytes, int] = {}
    of_tool = np.zeros(len(tools), np.int64)
    read: dict[str, tuple[SearchableTool, bytes]] = {}
    first: list[SearchableTool] = []
    for position, tool in enumerate(tools):
        known = before.get(tool.key)
        digest = known[1] if known and known[0] is tool else _digest(tool)
        read[tool.key] = tool, digest
        row = of_tool[position] = row_of.setdefault(digest, len(row_of))
        if row == len(first):
            first.append(tool)
    rows = np.zeros((len(row_of), dim), np.float32)
    there = np.zeros(len(row_of), np.bool_)
    if last is not None and last.rows.shape[1] == dim:
        kept = [
            (row, old)
            for digest, row in row_of.items()
            if (old := last.row_of.get(digest)) is not None and last.there[old]
        ]
        if kept:
            new, old = np.array(kept, np.int64).T
            rows[new] = last.rows[old]
            there[new] = True
    missing = [Wanted(int(row), *texts_of(first[row])) for row in np.flatnonzero(~there)]
    return ToolVectors(rows, there, of_tool, row_of, read), missing


def _digest(tool: SearchableTool) -> bytes:
    text = "\0".join(texts_of(tool))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
