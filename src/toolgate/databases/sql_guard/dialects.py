"""SQL dialects: the lexical rules of each database, and its functions without side effects."""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Features of the SQL of one database."""

    name: str
    """Name in settings and commands."""

    parser: str
    """Name in the parser."""

    aliases: tuple[str, ...] = ()
    """Other names."""

    nested_comments: bool = False
    """Whether `/* /* */ */` is one comment."""

    hash_comments: bool = False
    """Whether `#` begins a comment, and `--` only if a space follows."""

    escapes: str = ""
    """Prefixes of strings with backslash escapes; `*`: all strings have them."""

    prefixes: tuple[str, ...] = ()
    """Prefixes of string literals, in lower case."""

    dollar_quotes: bool = False
    """Whether `$tag$ … $tag$` is a string."""

    own_quotes: bool = False
    """Whether `q'[ … ]'` is a string, and clients may process the text line by line."""

    double_is_string: bool = False
    """Whether `"…"` is a string instead of a name."""

    brackets: bool = False
    """Whether `[…]` is a name."""

    backticks: bool = False
    """Whether names may be quoted with backticks."""

    inside_names: str = "_$"
    """Characters besides letters and digits that names may contain after the first."""

    signs: str = ""
    """Symbols in addition to those of all databases."""

    @cached_property
    def functions(self) -> frozenset[str]:
        """Functions known to have no side effects, in lower case."""
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
"""All known dialects."""

_BY_NAME: Final = {
    name: dialect
    for dialect in DIALECTS
    for name in (dialect.name, dialect.parser, *dialect.aliases)
}


def dialect_named(name: str) -> Dialect | None:
    """Return the dialect of a name, None if unknown; a `+driver` suffix is ignored."""
    return _BY_NAME.get(name.partition("+")[0].strip().lower())
