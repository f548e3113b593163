"""SQL dialects: how each database reads a text, and which functions only compute."""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final

__all__ = ["DIALECTS", "Dialect", "dialect_named", "words"]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What tells one database's SQL from another's."""

    name: str
    """As settings and commands call it."""

    parser: str
    """As the parser calls it."""

    aliases: tuple[str, ...] = ()
    """Other names of it."""

    nested_comments: bool = False
    """Whether `/* /* */ */` is one comment."""

    hash_comments: bool = False
    """Whether `#` begins a comment, and `--` only with a blank behind it."""

    escapes: str = ""
    """Prefixes of strings in which a backslash escapes; `*`: in every string."""

    prefixes: tuple[str, ...] = ()
    """Words that belong to a string right behind them, in lower case."""

    dollar_quotes: bool = False
    """Whether `$tag$ … $tag$` is a string."""

    own_quotes: bool = False
    """Whether `q'[ … ]'` is a string, and a client may read the text line by line."""

    double_is_string: bool = False
    """Whether `"…"` is a string instead of a name."""

    brackets: bool = False
    """Whether `[…]` is a name."""

    backticks: bool = False
    """Whether a name may stand in backticks."""

    inside_names: str = "_$"
    """Signs besides letters and digits that a name may have inside."""

    signs: str = ""
    """Signs that are used besides those that all databases know."""

    @cached_property
    def functions(self) -> frozenset[str]:
        """Functions that only compute, in lower case; others may do anything."""
        text = (
            files("toolgate.databases.sql_guard")
            .joinpath("functions", f"{self.name}.txt")
            .read_text("utf-8")
        )
        lines = (line.partition("#")[0] for line in text.splitlines())
        return frozenset(word for line in lines for word in line.split())


DIALECTS: Final = (
    Dialect(
        name="postgres",
        parser="postgres",
        aliases=("postgresql", "redshift", "cockroachdb", "pg"),
        nested_comments=True,
        escapes="e",
        prefixes=("e", "b", "x", "n", "u&"),
        dollar_quotes=True,
        signs=":?@#[]",
    ),
    Dialect(
        name="sqlite",
        parser="sqlite",
        aliases=("sqlite3",),
        prefixes=("x",),
        brackets=True,
        backticks=True,
    ),
    Dialect(
        name="oracle",
        parser="oracle",
        prefixes=("n", "q", "nq"),
        own_quotes=True,
        inside_names="_$#",
    ),
    Dialect(
        name="mysql",
        parser="mysql",
        aliases=("mariadb",),
        hash_comments=True,
        escapes="*",
        prefixes=("b", "x", "n", "_utf8", "_utf8mb4", "_latin1", "_binary", "_ascii"),
        double_is_string=True,
        backticks=True,
        signs="@",
    ),
    Dialect(
        name="duckdb",
        parser="duckdb",
        nested_comments=True,
        escapes="e",
        prefixes=("e", "b", "x"),
        dollar_quotes=True,
        signs=":?@#[]{}",
    ),
)
"""All that are known."""

_BY_NAME: Final = {
    name: dialect
    for dialect in DIALECTS
    for name in (dialect.name, dialect.parser, *dialect.aliases)
}


def dialect_named(name: str) -> Dialect | None:
    """The dialect of this name, or None where it is not known; `+driver` behind it is ignored."""
    return _BY_NAME.get(name.partition("+")[0].strip().lower())
