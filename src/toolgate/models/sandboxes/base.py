"""The contract of a sandbox.

A sandbox runs Python that a model wrote. The program has no files, no network, no environment and
no libraries of this machine: all it can do is compute, and call the functions of its modules. Each
call stops it and is answered from outside, at once or later; a program that waits for answers can
be written to bytes, and goes on in another process.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from toolgate.types import Json

__all__ = [
    "CallFailure",
    "CallValue",
    "Completed",
    "Execution",
    "HostCall",
    "HostFunction",
    "HostModule",
    "PendingCalls",
    "Program",
    "ProgramLimits",
    "Sandbox",
    "Step",
    "json_value",
]

_MAX_DEPTH = 100
"""Nesting of values that go in or out (chosen); what is deeper becomes text."""


@dataclass(frozen=True, kw_only=True)
class ProgramLimits:
    """What a program may use. Beyond any of these it ends with a `ProgramError`."""

    run_s: float = 5.0
    """Seconds that it computes, without the time that its calls take."""

    memory_mb: int = 64
    """Megabytes of its values."""

    output_chars: int = 20_000
    """Characters that it prints, as UTF-8 bytes."""

    steps: int = 1_000
    """Times that it stops: calls, names that are looked up, waits."""


@dataclass(frozen=True, kw_only=True)
class HostFunction:
    """A function that is answered from outside."""

    name: str
    """A Python identifier."""

    parameters: str = "**arguments: Any"
    """As in a declaration, such as `owner: str, labels: list[str] = ...`."""

    returns: str = "Any"
    """Type of what it gives once it is awaited."""

    types: str = ""
    """Declarations of the classes that these two name."""


@dataclass(frozen=True, kw_only=True)
class HostModule:
    """A module of functions that are answered from outside."""

    name: str
    """A Python identifier."""

    functions: tuple[HostFunction, ...]
    """What it has."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that has not begun."""

    code: str
    """Its source."""

    inputs: Json = field(default_factory=dict[str, Any])
    """Value of its variable `inputs`."""

    modules: tuple[HostModule, ...] = ()
    """Modules that it may use without an import."""

    functions: tuple[HostFunction, ...] = ()
    """Functions without a module."""

    limits: ProgramLimits = ProgramLimits()
    """What it may use."""

    is_checked: bool = True
    """Whether its types are checked before it begins."""


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """The program calls a function; `Execution.proceed` lets it go on until it needs the answer."""

    call_id: int
    """Number of the call within its program."""

    function: str
    """`module.function`, or the name of a function without a module."""

    args: tuple[Any, ...]
    """Positional arguments as JSON values."""

    kwargs: Json
    """Named arguments as JSON values."""


@dataclass(frozen=True, kw_only=True)
class PendingCalls:
    """The program waits for answers, and stands still until `Execution.settle`."""

    call_ids: tuple[int, ...]
    """The calls that it waits for, in the order of their start; one answer lets it go on."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The program has ended."""

    value: Any
    """Its result as a JSON value."""


Step: TypeAlias = HostCall | PendingCalls | Completed
"""Where a program stands."""


@dataclass(frozen=True, kw_only=True)
class CallValue:
    """What a call gives."""

    value: Any
    """A JSON value."""


@dataclass(frozen=True, kw_only=True)
class CallFailure:
    """The exception that a call raises in the program, which may catch it."""

    kind: Literal["RuntimeError", "ValueError"]
    """Name of the exception."""

    message: str
    """What it says."""


class Execution(Protocol):
    """A program that has begun. Its methods raise `ProgramError` where the program fails."""

    @property
    def step(self) -> Step:
        """Where it stands."""
        ...

    @property
    def output(self) -> str:
        """What it printed since it began, or since it was restored."""
        ...

    async def proceed(self) -> Step:
        """Go on from a `HostCall`, whose answer comes later."""
        ...

    async def settle(self, answers: Mapping[int, CallValue | CallFailure]) -> Step:
        """Answer calls that it waits for, by `call_id`."""
        ...

    async def snapshot(self) -> bytes:
        """The program as it waits for answers, for `Sandbox.restore`; it goes on as before."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """Runs programs in processes that can be killed."""

    def start(self, program: Program) -> AbstractAsyncContextManager[Execution]:
        """A program at its first step. Leaving the block ends it, wherever it stands.

        Raises:
            ProgramError: It cannot be parsed, its types do not fit, or it failed before any call.
        """
        ...

    def restore(self, snapshot: bytes) -> AbstractAsyncContextManager[Execution]:
        """A program where `Execution.snapshot` left it, with the limits that it had.

        WARNING: a snapshot is believed; only what this gateway wrote and signed may come here.

        Raises:
            ProgramError: The bytes are no snapshot, or one of another version.
        """
        ...

    async def aclose(self) -> None:
        """End the processes; may be called twice."""
        ...


def json_value(value: object, depth: int = 0) -> Any:
    """A value of Python as JSON: tuples and sets become arrays, what JSON lacks becomes text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no NaN and no infinity
    if depth >= _MAX_DEPTH:
        return str(type(value).__name__)
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {
            key if isinstance(key, str) else str(key): json_value(member, depth + 1)
            for key, member in members.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("list[object]", value)
        return [json_value(item, depth + 1) for item in items]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
