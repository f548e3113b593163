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

from toolgate.errors import ProgramError
from toolgate.types import Json

_MAX_BYTES = 32 << 20
"""Bytes of a value as JSON (chosen: more than any result that a client reads)."""

_CONTAINERS = (dict, list, tuple)
"""Types that have no attributes of a program."""

_MAX_INT_BITS = 14_284
"""Integers that Python converts to text: 4,300 digits."""

_MAX_DEPTH = 100
"""Nesting of values that are passed out (chosen)."""


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

    is_blocking: bool = False
    """Whether the program does nothing else before it has the result, so that `Execution.settle`
    can answer the call without `Execution.proceed`."""


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
        """Pass results of calls that it waits for, by `call_id`, and continue.

        Also answers a blocking `HostCall`.
        """
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

    async def check(self, program: Program) -> None:
        """Check a program as `start` does, without running any of it.

        Raises:
            ProgramError: It cannot be parsed, or its types are wrong.
        """
        ...

    def restore(
        self, snapshot: bytes, functions: tuple[HostFunction, ...]
    ) -> AbstractAsyncContextManager[Execution]:
        """Restore a program from `Execution.snapshot`, with its limits and its `functions`.

        WARNING: a snapshot is trusted; pass only snapshots that this gateway wrote and signed.

        Raises:
            ProgramError: The bytes are not a snapshot, or one of another version.
        """
        ...

    async def aclose(self) -> None:
        """Stop the processes; may be called twice."""
        ...


def json_value(value: object) -> Any:
    """Convert to JSON: tuples and sets become arrays, types that JSON lacks become text.

    Objects of a program's own classes, which a sandbox returns with their `attributes`, become
    objects of JSON. What is contained several times is converted once, and counted each time:
    a small program can build a value that has billions of members when it is written.

    Raises:
        ProgramError: It has more than 32 MB as JSON, is nested more than 100 levels deep, or has
            an integer of more than 4,300 digits.
    """
    converted, _, _ = _Conversion().convert(value, 0)
    return converted


_Converted: TypeAlias = tuple[Any, int, int]
"""A value of JSON, its estimated size in bytes, and how deep it is nested."""


class _Conversion:
    """Converts one value to JSON."""

    def __init__(self) -> None:
        self._known: dict[int, _Converted] = {}
        """Converted containers, by the id of what they were made from."""
        self._kept: list[object] = []
        """What they were made from, so that no id is used twice."""

    def convert(self, value: object, depth: int) -> _Converted:
        """Return a value as JSON."""
        if isinstance(value, str):
            return value, len(value) + 2, 0
        if value is None or isinstance(value, bool):
            return value, 5, 0
        if isinstance(value, int):
            if value.bit_length() > _MAX_INT_BITS:
                raise _long_integer()
            return value, value.bit_length() // 3 + 2, 0
        if isinstance(value, float):
            # JSON has no NaN and no infinity.
            return (value if value - value == 0 else str(value)), 20, 0
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace"), len(value) + 2, 0
        known = self._known.get(id(value))
        if depth + (0 if known is None else known[2]) >= _MAX_DEPTH:
            raise ProgramError(
                f"A value of the program is nested more than {_MAX_DEPTH} levels deep.",
                hint="Return or pass a flatter one.",
            )
        if known is None:
            known = self._container(value, depth)
            if known[1] > _MAX_BYTES:
                raise ProgramError(
                    f"A value of the program has more than {_MAX_BYTES >> 20} MB as JSON.",
                    hint="Return or pass less of it.",
                )
            self._known[id(value)] = known
            self._kept.append(value)
        return known

    def _container(self, value: object, depth: int) -> _Converted:
        attributes = None if type(value) in _CONTAINERS else getattr(value, "attributes", None)
        members = cast("object", attributes) if isinstance(attributes, dict) else value
        self._kept.append(members)
        size, deepest = 2, 0
        if isinstance(members, dict):
            converted: Any = {}
            for key, member in cast("dict[object, object]", members).items():
                name = key if isinstance(key, str) else _as_text(key)
                converted[name], part, below = self.convert(member, depth + 1)
                size += len(name) + 4 + part
                deepest = max(deepest, below)
        elif isinstance(value, list | tuple | set | frozenset):
            converted = []
            for item in cast("list[object]", value):
                element, part, below = self.convert(item, depth + 1)
                converted.append(element)
                size += 1 + part
                deepest = max(deepest, below)
        else:
            text = _as_text(value)
            return text, len(text) + 2, 0
        return converted, size, 1 + deepest


def _as_text(value: object) -> str:
    try:
        return str(value)
    except ValueError:
        raise _long_integer() from None


def _long_integer() -> ProgramError:
    return ProgramError(
        "A value of the program has an integer of more than 4,300 digits.",
        hint="Return or pass it as text: hex(n).",
    )
