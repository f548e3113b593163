"""Errors of the interpreter `pydantic-monty`, as errors of programs with what to do."""

from pydantic_monty import (
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    MontyTypingError,
)

from toolgate.errors import ProgramError
from toolgate.models.sandboxes._type_problems import type_problems
from toolgate.models.sandboxes.base import Program

LIBRARY = (
    *("asyncio", "base64", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("functools", "hashlib", "itertools", "json", "math", "random", "re", "time", "typing"),
)
"""Modules of the language that models use without an import."""

_HINTS = {
    "object is not an iterator": "Generator expressions are lists here: write next(iter(…), None).",
    "gather() does not yet support keyword": "Catch errors in an async function around each call.",
    "'coroutine' object": "Write 'await' before the call.",
    "not yet support yield": "Build a list and return it.",
    "has no attribute 'create_task'": "To run calls at the same time, write gather(call, call).",
    "No module named": f"Programs have no libraries but {', '.join(LIBRARY)}.",
    "PermissionError: Permission denied": "Programs have no files: call tools for that.",
    "feed time limit exceeded": "It computes for too long: make it do less.",
    **dict.fromkeys(
        ("memory limit exceeded", "exceeded its memory limit"),
        "It holds too much at once: read less, or keep only what you need.",
    ),
    "exceptions can only be called": "Write raise ValueError(text); to end the program, return.",
    **dict.fromkeys(("SystemExit", "name 'exit'", "name 'quit'"), "To end the program, return."),
}
"""What to do about errors of a program that CPython would not raise, by a part of their text."""

_MAX_ERROR_CHARS = 2_000
"""Characters of a traceback: about 500 tokens (chosen)."""


def refuse(error: MontyTypingError, program: Program) -> None:
    """Raise the type errors of a program, if any of them stops it."""
    if problems := type_problems(error.display(), program):
        refusal = ProgramError(
            "The program was not run, because it has type errors.",
            allowed="\n".join(["", *problems, ""]),
            hint="Correct it and send the whole program again.",
        )
        refusal.stage = "check"
        raise refusal


def program_error(error: MontyError) -> ProgramError:
    """The error of a program that failed, without the traceback of its prelude."""
    translated = _translated(error)
    translated.stage = "check" if isinstance(error, MontySyntaxError) else "run"
    return translated


def _translated(error: MontyError) -> ProgramError:
    if isinstance(error, MontyCrashedError):
        why = "took too long" if error.timed_out else "ended its process"
        return ProgramError(f"The program was ended: it {why}.", hint="Make it do less.")
    if isinstance(error, MontySyntaxError):
        message = error.display("msg")
        hint = "A bracket or a text is not closed." if "unexpected EOF" in message else ""
        return ProgramError(f"The program cannot be read: {message}.", hint=hint)
    text = str(error).removeprefix("RuntimeError: Internal error in monty: ")
    frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
    # What is called one by one ends in the prelude, which is no part of the program.
    own = [frame.line for frame in frames if frame.filename == frames[0].filename]
    where = f" in line {own[-1]}" if own else ""
    hint = next((hint for part, hint in _HINTS.items() if part in text), "")
    shown = f"{text[:_MAX_ERROR_CHARS]}." if hint else text[:_MAX_ERROR_CHARS]
    return ProgramError(f"The program failed{where}: {shown}", hint=hint)
