"""Names of tools in programs: the key `my-server:read.file` is `my_server.read_file` there."""

import ast
import keyword
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256

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

_UNDEFINED = re.compile(
    r"(?:name|function) '([^\W\d]\w{0,60})'(?: is not defined| used when not defined|$)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_TOOL = re.compile(r"Module '(\w+)' has no tool '(\w+)'")
_NO_MEMBER = re.compile(
    r"(?:module|type object) '(\w+)' has no (?:attribute|member) '\w+'", re.IGNORECASE
)
_MISTAKEN = ("call_tool", "execute_tool", "run_tool", "tools", "mcp")
"""Further names that models take for a function that calls a tool."""

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


@dataclass(frozen=True, kw_only=True)
class NamedFunctions:
    """What a program may call, as far as its source says."""

    names: frozenset[str]
    """Functions that it names as `module.function`."""

    values: frozenset[str]
    """Names that it uses as values, such as a module that it passes on."""

    def may_call(self, module: str, function: str) -> bool:
        """Whether the program names a function, or uses its module in another way."""
        return module in self.values or f"{module}.{function}" in self.names


def named_functions(code: str) -> NamedFunctions | None:
    """The functions that a program names; None if its source cannot be read."""
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    attributes = [
        (node.value, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    names = {f"{module.id}.{function}" for module, function in attributes}
    of_attributes = {module for module, _ in attributes}
    values = {node.id for node in nodes if isinstance(node, ast.Name) and node not in of_attributes}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            values |= {alias.name for alias in node.names if alias.asname}
    return NamedFunctions(names=frozenset(names), values=frozenset(values))


def module_name(server: str) -> str:
    """The module that stands for a server."""
    return _identifier(server)


def advice_on(
    problem: str,
    code: str,
    modules: Collection[str],
    meta_tools: Collection[str],
    tools: Callable[[], Iterable[str]],
) -> str:
    """What to do about a name that a program does not have; empty: nothing is known.

    Args:
        problem: The message of the error.
        code: The program.
        modules: Modules of the servers that the caller may use.
        meta_tools: Names of meta-tools, which models take for functions.
        tools: Gives the `module.function` names of the tools that the caller may use.
    """
    if match := _NO_TOOL.search(problem):
        module = f"{match[1]}."
        own = [name.removeprefix(module) for name in tools() if name.startswith(module)]
        near = get_close_matches(match[2], own, 1)
        return f"Did you mean {module}{near[0]}?" if near else ""
    if (match := _NO_MEMBER.search(problem)) and f"{match[1]}_" in modules:
        return f"The server {match[1]!r} is {match[1]}_ in a program."
    match = _UNDEFINED.search(problem)
    if match is None:
        return ""
    name = match[1]
    if name in meta_tools or name in _MISTAKEN:
        return "In a program, a tool is a function: await server.tool(name=value)."
    if f"{name}." not in code:
        return ""
    if name in modules:
        return f"The server {name!r} has no tools yet; if it is starting, try again."
    near = get_close_matches(name, modules, 1)
    if near:
        return f"Did you mean the server {near[0]!r}?"
    return f"There is no server {name!r}: find tools with search."


def missing_tools(problem: str, code: str) -> list[str]:
    """The servers and `module.function` names that a program refers to and that do not exist.

    Args:
        problem: The message of the error.
        code: The program.
    """
    servers = [match[1] for match in _UNDEFINED.finditer(problem) if f"{match[1]}." in code]
    tools = [f"{match[1]}.{match[2]}" for match in _NO_TOOL.finditer(problem)]
    return list(dict.fromkeys([*servers, *tools]))


def without_fence(code: str) -> str:
    """Return a program without the Markdown fence that models put around it; lines keep numbers."""
    lines = code.strip().splitlines()
    if len(lines) < 2 or not lines[0].startswith("```") or lines[-1].strip() != "```":
        return code
    return "\n".join(["", *lines[1:-1]])


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    if plain[0].isdigit() or plain[0] == "_":
        plain = f"t{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) or plain in _RESERVED else plain
