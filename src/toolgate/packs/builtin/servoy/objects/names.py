"""Checks names of relations and value lists."""

import re
from typing import Final

_LONGEST: Final = 200
"""Characters of a name, which must be valid as a file name with its extension."""

_IDENTIFIER: Final = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_LOOSE: Final = re.compile(r"[\w$](?:[\w$.-]*[\w$])?")

_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)
"""Device names that Windows reserves, with any extension."""

_WORDS: Final = frozenset(
    [
        "abstract",
        "arguments",
        "boolean",
        "break",
        "byte",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "continue",
        "debugger",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "eval",
        "export",
        "extends",
        "false",
        "final",
        "finally",
        "float",
        "for",
        "function",
        "goto",
        "if",
        "implements",
        "import",
        "in",
        "instanceof",
        "int",
        "interface",
        "let",
        "long",
        "native",
        "new",
        "null",
        "package",
        "private",
        "protected",
        "public",
        "return",
        "short",
        "static",
        "super",
        "switch",
        "synchronized",
        "this",
        "throw",
        "throws",
        "transient",
        "true",
        "try",
        "typeof",
        "undefined",
        "var",
        "void",
        "volatile",
        "while",
        "with",
        "yield",
        "await",
        "assert",
        "strictfp",
        "alldataproviders",
        "allmethods",
        "allrelations",
        "allvariables",
        "application",
        "array",
        "boolean",
        "clientdesign",
        "clientutils",
        "controller",
        "currentcontroller",
        "currentrecordindex",
        "databasemanager",
        "datasources",
        "date",
        "elements",
        "error",
        "eventtype",
        "exception",
        "forms",
        "foundset",
        "foundsetmanager",
        "function",
        "globals",
        "history",
        "i18n",
        "infinity",
        "isfinite",
        "isnan",
        "jsrecord",
        "jsunit",
        "math",
        "maxrecordindex",
        "menus",
        "model",
        "nan",
        "number",
        "object",
        "parsefloat",
        "parseint",
        "permissions",
        "plugins",
        "recordindex",
        "regexp",
        "resources",
        "runtime",
        "scopes",
        "security",
        "selectedindex",
        "servoyexception",
        "solutionmodel",
        "solutionprefix",
        "string",
        "utils",
    ]
)
"""Reserved words of JavaScript, Java and Servoy's scripting, in lower case."""


def check_name(kind: str, name: str) -> str:
    """Return why a name is invalid; empty if it is valid.

    Args:
        kind: `relation` or `value list`; relations are identifiers in scripts.
        name: The requested name.
    """
    if not name.strip():
        return "it is empty"
    if len(name) > _LONGEST:
        return f"it has more than {_LONGEST} characters"
    if any(character.isspace() for character in name):
        return "it holds a blank"
    if "/" in name or "\\" in name or ".." in name:
        return "it is no name, but a path"
    if name.casefold() in _WORDS:
        return "it is a word of JavaScript, Java or Servoy"
    if name.partition(".")[0].casefold() in _DEVICES:
        return "operating systems keep it for a device"
    if kind == "relation":
        if not _IDENTIFIER.fullmatch(name):
            return "only letters, digits, _ and $ may stand in it, and no digit first"
    elif not _LOOSE.fullmatch(name):
        return "only letters, digits, _, $, - and . may stand in it"
    return ""
