"""Names that the parser finds in a query."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Information from the tree of a query that its text does not show."""

    root: object
    """Root node of the parsed query."""

    aliases: Counter[str]
    """Aliases with a column list, in lower case, and how often each occurs."""

    relations: frozenset[str]
    """Names and aliases of all relations with columns, in lower case."""

    tables: tuple[tuple[str, ...], ...]
    """Qualified table names, as written, without those of WITH."""

    columns: tuple[tuple[str, ...], ...]
    """Qualified column names, as written."""

    has_only_dual: bool
    """Whether only Oracle's DUAL is read, so that no name can be a column."""
