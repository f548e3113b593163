"""Names that the parser finds in a query."""

from collections import Counter
from dataclasses import dataclass

__all__ = ["Tree"]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What the tree of a query says that its text does not."""

    root: object
    """The query, as the parser has it."""

    aliases: Counter[str]
    """Names in lower case that have a list of columns behind them, and how often."""

    relations: frozenset[str]
    """Names and aliases of everything that columns can belong to, in lower case."""

    tables: tuple[tuple[str, ...], ...]
    """Names of tables with what stands before them, as written, without those of WITH."""

    columns: tuple[tuple[str, ...], ...]
    """Names of columns with what stands before them, as written."""

    has_only_dual: bool
    """Whether nothing but Oracle's DUAL is read, so that no name can be that of a column."""
