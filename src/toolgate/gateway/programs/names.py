"""Names of tools in programs: the key `my-server:read.file` is `my_server.read_file` there."""

import keyword
import re
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["function_names", "words_of"]

_HELPERS = ("search", "describe", "select", "store", "load", "main")
"""Functions of programs that are not tools."""

_RESERVED = frozenset(
    {
        *_HELPERS,
        *("inputs", "gather", "asyncio", "json", "re", "math", "datetime", "time", "random"),
        *("typing", "base64", "itertools", "functools", "collections", "decimal", "string", "os"),
        *("sys", "pathlib", "uuid", "hashlib", "textwrap", "statistics", "csv", "io", "copy"),
        *("list", "dict", "set", "str", "int", "float", "bool", "len", "print", "range", "sum"),
        *("min", "max", "sorted", "filter", "map", "zip", "any", "all", "type", "object", "id"),
    }
)
"""Names that have another meaning in a program."""

_WORD = re.compile(r"[^\W\d]\w*")


def function_names(keys: Iterable[str]) -> dict[str, str]:
    """The tools' `module.function` names, each with the key that it stands for.

    Names do not depend on other tools, unless two would be the same: those end in a hash of
    their own key.
    """
    by_name: dict[str, list[str]] = {}
    for key in keys:
        server, _, tool = key.partition(":")
        by_name.setdefault(f"{_identifier(server)}.{_identifier(tool)}", []).append(key)
    names: dict[str, str] = {}
    for name, same in by_name.items():
        for key in same:
            unique = name if len(same) == 1 else f"{name}_{sha256(key.encode()).hexdigest()[:6]}"
            names[unique] = key
    return names


def words_of(code: str) -> frozenset[str]:
    """All words that may be names in a program, including its texts and comments (harmless)."""
    return frozenset(_WORD.findall(code))


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    if plain[0].isdigit() or plain[0] == "_":
        plain = f"t{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) or plain in _RESERVED else plain
