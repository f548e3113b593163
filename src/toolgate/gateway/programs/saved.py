"""Programs that people have saved: a file whose function `main` is the program.

Python itself never runs such a file. The signature is read from the syntax tree, and only the
constructs listed here are understood.
"""

import ast
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Optional, Union

from toolgate.errors import PackError, ProgramError
from toolgate.gateway.programs.names import missing_tools
from toolgate.types import Caller, Json

_MAX_SAME: Final = 16
"""Programs of the same call that may wait at the same time (chosen)."""

_PLAIN: Final[Mapping[str, Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list[Any],
    "dict": dict[str, Any],
    "Any": Any,
    "None": None,
}
"""Annotations that are a plain name."""

_ALLOWED: Final = (
    "Allowed: str, int, float, bool, list[…], dict[str, …], Literal[…], Any, and unions of them."
)


@dataclass(frozen=True, kw_only=True)
class SavedProgram:
    """A program that can be offered as a tool."""

    code: str
    """The source code."""

    signature: inspect.Signature
    """The parameters of `main`, with types and defaults."""

    description: str
    """The docstring of `main`."""


def main_of(code: str) -> ast.arguments | None:
    """The parameters of `main` if a program ends with `async def main`; None if it does not.

    Such a program is called with its inputs.
    """
    if "def main" not in code:
        return None
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the sandbox says what is wrong with it
    main = body[-1] if body else None
    return main.args if isinstance(main, ast.AsyncFunctionDef) and main.name == "main" else None


def check_inputs(main: ast.arguments, inputs: Json) -> None:
    """Compare inputs with the parameters of `main`.

    Raises:
        ProgramError: One is missing, or unknown.
    """
    positional = [argument.arg for argument in main.args]
    names = [*positional, *(argument.arg for argument in main.kwonlyargs)]
    required = positional[: len(positional) - len(main.defaults)]
    required += [
        argument.arg
        for argument, default in zip(main.kwonlyargs, main.kw_defaults, strict=True)
        if default is None
    ]
    unknown = [] if main.kwarg else [name for name in inputs if name not in names]
    missing = [name for name in required if name not in inputs]
    if not unknown and not missing:
        return
    problem = f"has no input {unknown[0]!r}" if unknown else f"needs the input {missing[0]!r}"
    raise ProgramError(
        f"The function `main` of the program {problem}.",
        allowed=f"Its inputs: {', '.join(names) or 'none'}.",
        hint="Nothing was run.",
    )


def read_saved(code: str) -> SavedProgram:
    """Read the program in a file.

    Raises:
        SyntaxError: The text is not Python.
        PackError: It has no function `main`, or one whose parameters cannot be described.
    """
    body = ast.parse(code).body
    main = body[-1] if body else None
    if not isinstance(main, ast.AsyncFunctionDef) or main.name != "main":
        raise PackError(
            "The program does not end with a function `main`.",
            allowed="Expected at its end: async def main(…), with a docstring.",
        )
    description = inspect.cleandoc(ast.get_docstring(main) or "")
    if not description:
        raise PackError(
            "`main` has no docstring, by which models choose the tool.",
            hint="Say in one sentence what the program does.",
        )
    return SavedProgram(code=code, signature=_signature(main), description=description)


def ids_of_saved(caller: Caller, code: str, inputs: Json) -> tuple[str, ...]:
    """The ids under which a saved program may be parked: the same call of a caller has the same.

    Like approvals, they do not depend on the conversation: it is often another one by the time
    that somebody has decided.
    """
    text = json.dumps([caller.project_id, caller.caller_id, code, inputs], sort_keys=True)
    first = hashlib.sha256(text.encode()).hexdigest()[:32]
    return (first, *(f"{first}-{number}" for number in range(1, _MAX_SAME)))


def error_of_saved(error: ProgramError, code: str) -> ProgramError:
    """The error of a saved program, for a caller who can change its arguments but not its code."""
    if not error.stage:
        return error
    failed = error.failed if error.failed.endswith(".") else f"{error.failed}."
    allowed = error.allowed
    if missing := missing_tools(f"{error.failed} {error.allowed}", code):
        allowed = f"It needs {', '.join(missing)}, which does not exist, or which you may not use."
        hint = "Ask an administrator."
    elif error.stage == "check":
        hint = "The arguments are not the cause: the author of the pack has to correct it."
    else:
        hint = (
            "If one of the arguments is the cause, call the tool with another one; otherwise the"
            " author of the pack has to correct the program."
        )
    return ProgramError(failed, detail=error.detail, allowed=allowed, hint=hint)


def _signature(main: ast.AsyncFunctionDef) -> inspect.Signature:
    arguments = main.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        raise PackError(
            "`main` has unnamed parameters.",
            allowed="Allowed: parameters that are passed by name.",
        )
    positional = [*arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [None] * first_default + [*arguments.defaults]
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parameters = [_parameter(argument, default) for argument, default in pairs]
    returns = Any if main.returns is None else _type(main.returns)
    return inspect.Signature(parameters, return_annotation=returns)


def _parameter(argument: ast.arg, default: ast.expr | None) -> inspect.Parameter:
    value: Any = inspect.Parameter.empty
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except (ValueError, TypeError, MemoryError, RecursionError) as error:
            raise PackError(
                f"The default of the parameter {argument.arg!r} is not a plain value.",
                allowed="Allowed: texts, numbers, true and false, None, lists and dicts of them.",
            ) from error
    return inspect.Parameter(
        argument.arg,
        inspect.Parameter.KEYWORD_ONLY,
        default=value,
        annotation=Any if argument.annotation is None else _type(argument.annotation),
    )


def _type(node: ast.expr) -> Any:
    """Resolve an annotation without running anything of the file."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return Union[_type(left), _type(right)]  # noqa: UP007 - made of values
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return Optional[_type(inner)]  # noqa: UP045 - made of values
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return list[_type(inner)]
        case ast.Subscript(
            value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), inner])
        ):
            return dict[str, _type(inner)]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            nodes = choices.elts if isinstance(choices, ast.Tuple) else [choices]
            values = [choice.value for choice in nodes if isinstance(choice, ast.Constant)]
            if len(values) == len(nodes):
                return Literal[tuple(values)]
        case _:
            pass
    raise PackError(
        f"Line {node.lineno}: the annotation {ast.unparse(node)[:60]!r} is not understood.",
        allowed=_ALLOWED,
    )
