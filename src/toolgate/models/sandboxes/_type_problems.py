"""The findings of the type checker `ty`, as sentences that a model can act on.

https://docs.astral.sh/ty/reference/rules. A program whose types fit is not always accepted by a
checker: it cannot know which keys a variable has, or which of the allowed texts. Such findings
are left out, since the arguments of every call are checked again when it is made.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from toolgate.models.sandboxes.base import HostFunction, Program
from toolgate.types import json_array, json_object

_MAX_PROBLEMS = 8
"""Most type errors in one message (chosen)."""
_MAX_KEYS = 20
"""Most keys of a dict in a message (chosen)."""
_MAX_CHARS = 1_000
"""Characters of a message that are read: it may quote a text of the program (chosen)."""
_RETURN_OUTSIDE = "`return` statement outside of a function"
_TYPED_DICT = re.compile(r"^(\w+) = TypedDict\((.*)\)$", re.MULTILINE)
_KEY = re.compile(r'"([^"\\]+)": ')
_UNKNOWN_PARAMETER = re.compile(
    r"'(\w+)' does not match any known parameter of function '([\w.]+)'"
)
_NOT_ASSIGNABLE = (
    re.compile(r"Expected `(?P<expected>.+)`, found `(?P<came>.+)`$"),
    re.compile(r"Object of type `(?P<came>.+)` is not assignable to `(?P<expected>.+)`$"),
)
_UNKNOWN_KEY = re.compile(r'Unknown key "(.+)" for TypedDict `\w+_result_\w+`')
_ASSIGNED_KEY = re.compile(r"\[\s{0,9}['\"]([^'\"\n]{1,100})['\"]\s{0,9}\]\s{0,9}=(?!=)")
_IMPORT = re.compile(r"Cannot resolve imported module `(\w+)`")
_ATTRIBUTE = re.compile(r"Object of type '(\w+)' has no attribute '(\w+)'")


def type_problems(rendered: str, program: Program) -> list[str]:
    """The type errors of a program, one sentence each, the first few; empty: nothing stops it.

    Args:
        rendered: The findings, in the checker's JSON.
        program: The program.
    """
    known = _RuntimeFacts(
        dicts={
            name: _KEY.findall(members)
            for function in _functions(program).values()
            for name, members in _TYPED_DICT.findall(function.types)
        },
        modules=frozenset(module.name for module in program.modules),
        assigned=frozenset(_ASSIGNED_KEY.findall(program.code)),
    )
    lines = program.code.splitlines()
    problems: list[str] = []
    for entry in map(json_object, json_array(json.loads(rendered))):
        message = str(entry.get("message", ""))[:_MAX_CHARS].rstrip(".")
        if _RETURN_OUTSIDE in message or entry.get("severity") != "error":
            continue  # a program may end with `return`
        row = json_object(entry.get("location")).get("row")
        line = lines[row - 1] if isinstance(row, int) and 0 < row <= len(lines) else ""
        if not known.allows(message, line):
            problems.append(f"Line {row}: {_advised(message, program, known.dicts)}")
            if len(problems) == _MAX_PROBLEMS:
                break
    return problems


@dataclass(frozen=True, kw_only=True)
class _RuntimeFacts:
    """Facts about a program that the type checker does not see."""

    dicts: Mapping[str, Sequence[str]]
    """Types of arguments and results that are dicts, with their keys."""

    modules: frozenset[str]
    """Modules of servers, which programs need not import but may."""

    assigned: frozenset[str]
    """Keys to which the program assigns something."""

    def allows(self, message: str, line: str) -> bool:
        """Whether a value may fit at run time, although the checker cannot see it."""
        if match := _IMPORT.match(message):
            return match[1] in self.modules
        if match := _UNKNOWN_KEY.match(message):
            # A result is the program's own dict, to which it may add keys.
            return match[1] in self.assigned
        match = next(filter(None, (form.search(message) for form in _NOT_ASSIGNABLE)), None)
        if match is None:
            return False
        expected, came = match["expected"], match["came"]
        return (
            (came.startswith("dict[") and _names_any(expected, self.dicts))
            or ("dict[" in expected and _names_any(came, self.dicts))
            or (expected.startswith("Literal[") and came in {"str", "int"})
            or (message.startswith("Argument") and "**" in line)
        )


def _names_any(text: str, names: Collection[str]) -> bool:
    return any(word in names for word in re.findall(r"\w+", text))


def _advised(message: str, program: Program, dicts: Mapping[str, Sequence[str]]) -> str:
    """Return the checker's message, with a suggestion of what was probably meant."""
    text = message.replace("`", "'").replace('"', "'").removesuffix("?")
    text = re.sub(r"bound method '_(\w+)_\.", r"function '\1.", text)
    if "did you mean" in text:
        return f"{text}?"
    if match := _UNKNOWN_PARAMETER.search(text):
        parameters = re.findall(r"(\w+):", _parameters_of(match[2], program))
        if near := get_close_matches(match[1], parameters, 1):
            return f"{text}, did you mean '{near[0]}'?"
        return f"{text}; its parameters: {', '.join(parameters) or 'none'}"
    if match := re.search(r"type '_(\w+)_' has no attribute '(\w+)'", text):
        return f"Module '{match[1]}' has no tool '{match[2]}'; find tools with search"
    if (match := _ATTRIBUTE.match(text)) and match[1] in dicts:
        keys = dicts[match[1]]
        if match[2] in keys:
            return f"{text}: it is a dict, write ['{match[2]}']"
        return f"{text}: it is a dict; its keys: {', '.join(keys[:_MAX_KEYS])}"
    if text.startswith("Module 'asyncio' has no member"):
        return f"{text}. To run calls at the same time, write gather(call, call)"
    if "CoroutineType" in text:
        return f"{text}. Tools are async: write 'await' before the call"
    if "function 'gather'" in text:
        return f"{text}. It takes calls, not a list: write gather(*calls)"
    if text.startswith("No overload of"):
        return f"{text}: one has another type. describe shows what a tool returns"
    if match := re.match(r"Name '(\w*(?:Error|Exception))' used when not defined", text):
        return f"{text}. Calls that fail raise RuntimeError or ValueError"
    return text


def _parameters_of(function: str, program: Program) -> str:
    """Return the declared parameters of `module.function`, or of a function without a module."""
    declared = _functions(program).get(function)
    return "" if declared is None else declared.parameters


def _functions(program: Program) -> dict[str, HostFunction]:
    """All functions of a program, by `module.function` or name."""
    functions = {function.name: function for function in program.functions}
    for module in program.modules:
        functions |= {f"{module.name}.{f.name}": f for f in module.functions}
    return functions
