"""The contract of a sandbox.

A sandbox runs Python that a model wrote. The program has no access to files, network,
environment and libraries of this machine: it can only compute, and call the functions of its
modules. Each call pauses the program and is answered from outside, immediately or later; a
program that waits for answers can be serialized and continued in another process.
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
"""Nesting of values that are passed in or out (chosen); deeper values become text."""


@dataclass(frozen=True, kw_only=True)
class ProgramLimits:
    """Limits of a program. If it exceeds one, it ends with a `ProgramError`."""

    run_s: float = 5.0
    """Seconds of computing, without the time of its calls."""

    memory_mb: int = 64
    """Megabytes of memory."""

    output_chars: int = 20_000
    """Length of its output, in UTF-8 bytes."""

    steps: int = 1_000
    """Number of pauses: calls, name lookups, waits."""


@dataclass(frozen=True, kw_only=True)
class HostFunction:
    """A function that is answered from outside."""

    name: str
    """A Python identifier."""

    parameters: str = "**arguments: Any"
    """Parameters as in a declaration, such as `owner: str, labels: list[str] = ...`."""

    returns: str = "Any"
    """Type of the awaited result."""

    types: str = ""
    """Declarations of the classes that parameters and result use."""


@dataclass(frozen=True, kw_only=True)
class HostModule:
    """A module of functions that are answered from outside."""

    name: str
    """A Python identifier."""

    functions: tuple[HostFunction, ...]
    """Its functions."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that has not started."""

    code: str
    """Its source."""

    inputs: Json = field(default_factory=dict[str, Any])
    """Value of its variable `inputs`."""

    modules: tuple[HostModule, ...] = ()
    """Modules that it may use without an import."""

    functions: tuple[HostFunction, ...] = ()
    """Functions without a module."""

    limits: ProgramLimits = ProgramLimits()
    """Its limits."""

    is_checked: bool = True
    """Whether types are checked before it starts."""


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """A call of a function; `Execution.proceed` continues the program until it needs the result."""

    call_id: int
    """Number of the call within its program."""

    function: str
    """`module.function`, or the name of a function without a module."""

    args: tuple[Any, ...]
    """Positional arguments as JSON values."""

    kwargs: Json
    """Keyword arguments as JSON values."""


@dataclass(frozen=True, kw_only=True)
class PendingCalls:
    """The program waits for results; `Execution.settle` continues it."""

    call_ids: tuple[int, ...]
    """Calls that it waits for, oldest first; one result continues it."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The program has ended."""

    value: Any
    """Its result as a JSON value."""


Step: TypeAlias = HostCall | PendingCalls | Completed
"""State of a paused program."""


@dataclass(frozen=True, kw_only=True)
class CallValue:
    """Result of a call."""

    value: Any
    """A JSON value."""


@dataclass(frozen=True, kw_only=True)
class CallFailure:
    """The exception that a call raises in the program, which may catch it."""

    kind: Literal["RuntimeError", "ValueError"]
    """Name of the exception."""

    message: str
    """Its message."""


class Execution(Protocol):
    """A started program. Its methods raise `ProgramError` if the program fails."""

    @property
    def step(self) -> Step:
        """Its current state."""
        ...

    @property
    def output(self) -> str:
        """What it has printed since it was started or restored."""
        ...

    async def proceed(self) -> Step:
        """Continue after a `HostCall`, whose result comes later."""
        ...

    async def settle(self, answers: Mapping[int, CallValue | CallFailure]) -> Step:
        """Pass results of calls that it waits for, by `call_id`, and continue."""
        ...

    async def snapshot(self) -> bytes:
        """Serialize the waiting program for `Sandbox.restore`; the program can go on."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """Runs programs in processes that can be killed."""

    def start(self, program: Program) -> AbstractAsyncContextManager[Execution]:
        """Start a program and run it to its first step. Leaving the block ends it.

        Raises:
            ProgramError: It cannot be parsed, its types are wrong, or it failed before any call.
        """
        ...

    def restore(self, snapshot: bytes) -> AbstractAsyncContextManager[Execution]:
        """Restore a program from `Execution.snapshot`, with its limits.

        WARNING: a snapshot is trusted; pass only snapshots that this gateway wrote and signed.

        Raises:
            ProgramError: The bytes are not a snapshot, or one of another version.
        """
        ...

    async def aclose(self) -> None:
        """Stop the processes; may be called twice."""
        ...


def json_value(value: object, depth: int = 0) -> Any:
    """Convert to JSON: tuples and sets become arrays, types that JSON lacks become text."""
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
