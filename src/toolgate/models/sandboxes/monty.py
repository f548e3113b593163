"""The sandbox `pydantic-monty`: an interpreter for a subset of Python, in separate processes.

https://github.com/pydantic/monty. The interpreter is not CPython: programs cannot reach frames,
modules or objects of this process. It needs the extra `programs` (42 MB).
"""

import hashlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Literal

import anyio
from pydantic_monty import (
    CollectString,
    ExternalModule,
    FunctionSnapshot,
    FutureSnapshot,
    Monty,
    MontyComplete,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontyTypingError,
    NameLookupSnapshot,
    ResourceLimits,
    SyncSnapshot,
)

from toolgate.base.processes.liveness import end_at_once
from toolgate.base.processes.priority import lower_priority
from toolgate.errors import ProgramError
from toolgate.models.sandboxes._program_errors import LIBRARY, program_error, refuse
from toolgate.models.sandboxes._worker_threads import WorkerThreads
from toolgate.models.sandboxes.base import (
    CallFailure,
    CallValue,
    Completed,
    HostCall,
    HostFunction,
    HostModule,
    PendingCalls,
    Program,
    ProgramLimits,
    Step,
    json_value,
)
from toolgate.types import Json

_TURN_S = 90.0
"""Seconds after which a process that ignores its own limits is killed; more than the highest
`run_s`, with time to check types (chosen)."""

_REMEMBERED = 1_000
"""Cached programs with correct types, which are not checked again (chosen)."""

_PROGRAMS_PER_PROCESS = 200
"""Programs after which a process is replaced (chosen)."""

_RECURSION = 200
"""Depth of calls within a program (chosen)."""

_TYPING = """from typing import NotRequired, TypedDict
from typing import Any as Any, Literal as Literal, Optional as Optional
from asyncio import gather as gather
filter: Any
format: Any
getattr: Any
hasattr: Any
map: Any
setattr: Any
class PermissionError(OSError): ...
class FileNotFoundError(OSError): ...
class ImportError(Exception): ...
class ModuleNotFoundError(ImportError): ...
class UnicodeDecodeError(ValueError): ...
"""
"""Names that the interpreter knows and its type checker does not (1.4.0), and annotations."""
_ANNOTATIONS = ("Any", "Literal", "Optional")
"""Names for annotations that programs use without an import."""

_CONCURRENT = ("gather", "asyncio")
"""Words without which a program makes one call at a time."""
_LATER: Any = {"future": ...}
"""Answer to a call whose result comes later."""
_TOOL = "_tool_"
"""Function that stands for all tools in programs that make one call at a time."""
_ONE_BY_ONE = f"""_errors_ = {{"RuntimeError": RuntimeError, "ValueError": ValueError}}
async def _settled_(value, kind, message):
    if kind:
        raise _errors_[kind](message)
    return value
def _call_(name, args, kwargs, isinstance=isinstance, list=list):
    answer = {_TOOL}(name, *args, **kwargs)
    return _settled_(*answer) if isinstance(answer, list) else answer"""
"""Functions whose calls are answered in one message: a list of the value, and the kind and the
message of an error. The library answers an awaited call in two (1.4.0). Programs may give the
names of builtins another meaning."""

_CALL = re.compile(r"<(?:coroutine (?:external_future\(\d+\)|object \w+)|gather\(\d+\))>")
"""A call whose result was not awaited, as the library returns it (1.4.0)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[programs.options.monty]` for this sandbox."""

    processes: int = 4
    """Programs that run at the same time; 1 to 64. Others wait."""

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= 64:
            raise ValueError("Allowed: 1 to 64.")


def build(options: Options) -> "MontySandbox":
    """Create the sandbox; its first process starts with the first program."""
    return MontySandbox(options)


class MontySandbox:
    """Implements `Sandbox`.

    The library's own asynchronous interface aborts the process when it is closed (1.4.0), so the
    synchronous one is called in threads.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pool: Monty | None = None
        self._lock = anyio.Lock()
        self._slots = anyio.Semaphore(options.processes)
        self._threads = WorkerThreads(options.processes + 1)
        self._fitting: dict[bytes, None] = {}
        """Hashes of programs and declarations with correct types; oldest first."""

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator["MontyExecution"]:
        """Start a program and run it to its first step."""
        async with self._new(program) as (execution, program, digest):
            await execution.begin(program)
            self._note_fitting(digest)
            yield execution

    async def check(self, program: Program) -> None:
        """Check a program without running any of it."""
        # Not a time limit of 0: a process that takes a second longer is killed, and the check may.
        program = replace(program, limits=replace(program.limits, memory_mb=0))
        async with self._new(program) as (execution, program, digest):
            await execution.check(program)
            self._note_fitting(digest)

    @asynccontextmanager
    async def _new(
        self, program: Program
    ) -> AsyncGenerator[tuple["MontyExecution", Program, bytes]]:
        """A process for a program, the program, and its hash.

        If its types are known to fit, the program comes as one that is not to be checked.
        """
        config: Json = {
            "limits": _limits(program.limits),
            "external_modules": _modules(program.modules),
        }
        digest = b""
        if program.is_checked:
            declarations = _declarations(program)
            digest = hashlib.sha256(
                f"{declarations}\0{program.code}".encode(errors="replace")
            ).digest()
            if digest in self._fitting:  # the same program as before, with the same tools
                program = replace(program, is_checked=False)
            else:
                config |= {"type_check_stubs": declarations, "type_check_format": "json"}
        config["type_check"] = program.is_checked
        async with self._session(config, program.limits.output_chars) as execution:
            yield execution, program, digest

    def _note_fitting(self, digest: bytes) -> None:
        if digest:
            self._fitting[digest] = None
        if len(self._fitting) > _REMEMBERED:
            del self._fitting[next(iter(self._fitting))]

    @asynccontextmanager
    async def restore(
        self, snapshot: bytes, functions: tuple[HostFunction, ...]
    ) -> AsyncGenerator["MontyExecution"]:
        """Restore a program from a snapshot."""
        async with self._session({}, ProgramLimits().output_chars) as execution:
            await execution.load(snapshot, functions)
            yield execution

    async def aclose(self) -> None:
        """Stop the processes."""
        async with self._lock:
            pool, self._pool = self._pool, None
            if pool is not None:
                await self._threads.run(partial(pool.__exit__, None, None, None))
            self._threads.close()
            self._threads = WorkerThreads(self._options.processes + 1)

    @asynccontextmanager
    async def _session(self, config: Json, output_chars: int) -> AsyncGenerator["MontyExecution"]:
        pool = await self._opened()
        async with self._slots:
            session = pool.checkout(os_policy={"sleep": "zero"}, **config)
            execution = MontyExecution(session, self._threads, output_chars)
            try:
                yield execution
            finally:
                with anyio.CancelScope(shield=True):
                    await execution.end()

    async def _opened(self) -> Monty:
        async with self._lock:
            if self._pool is None:
                pool = Monty(
                    min_processes=1,
                    max_processes=self._options.processes,
                    max_checkouts_per_worker=_PROGRAMS_PER_PROCESS,
                    request_timeout=_TURN_S,
                )
                self._pool = await self._threads.run(pool.__enter__)
            return self._pool


class MontyExecution:
    """Implements `Execution`."""

    def __init__(self, session: MontySession, threads: WorkerThreads, output_chars: int) -> None:
        self._session = session
        self._threads = threads
        self._lock = Lock()
        """Held by the thread that uses the process."""
        self._pid: int | None = None
        self._state: Literal["new", "open", "ended"] = "new"
        self._is_cancelled = False
        self._output_chars = output_chars
        self._printed = CollectString(max_bytes=output_chars)
        self._snapshot: SyncSnapshot | None = None
        self._steps: deque[Step] = deque([Completed(value=None)])
        """The current state, followed by the calls that the program made since without pausing."""
        self._functions: frozenset[str] = frozenset()

    @property
    def step(self) -> Step:
        """Its current state."""
        return self._steps[0]

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._printed.output

    async def begin(self, program: Program) -> None:
        """Declare the modules, check the types, and run to the first step."""
        self._functions = _names(program.functions)
        try:
            await self._turn(partial(self._begin, program, is_checked=program.is_checked))
        except MontyTypingError as error:
            refuse(error, program)
            await self._turn(partial(self._begin, program, is_checked=False))

    async def check(self, program: Program) -> None:
        """Report what is wrong with a program that may use no memory, so that it does not run."""
        try:
            await self._attempt(partial(self._feed, program, is_checked=program.is_checked))
        except MontyTypingError as error:
            refuse(error, program)
        except MontyRuntimeError:
            pass  # it could have run
        except MontyError as error:
            raise program_error(error) from None

    async def load(self, snapshot: bytes, functions: tuple[HostFunction, ...]) -> None:
        """Restore the state of a snapshot."""
        self._functions = _names(functions)
        load = partial(self._session.load_snapshot, snapshot, print_callback=self._printed)
        await self._turn(lambda: self._settled_names(load()))

    async def proceed(self) -> Step:
        """Continue after a call, whose result comes later."""
        assert isinstance(self._steps[0], HostCall)
        snapshot = self._snapshot
        if len(self._steps) == 1 and isinstance(snapshot, FunctionSnapshot):
            await self._turn(lambda: self._settled_names(snapshot.resume(_LATER)))
        else:
            self._steps.popleft()
        return self._steps[0]

    async def settle(self, answers: Mapping[int, CallValue | CallFailure]) -> Step:
        """Pass results of calls that it waits for, and continue."""
        snapshot = self._snapshot
        if isinstance(snapshot, FunctionSnapshot):
            at_once = _settled_at_once(answers[snapshot.call_id])
            await self._turn(lambda: self._settled_names(snapshot.resume(at_once)))
        else:
            assert isinstance(snapshot, FutureSnapshot)
            settled = {number: _settled(answer) for number, answer in answers.items()}
            await self._turn(lambda: self._settled_names(snapshot.resume(settled)))
        return self._steps[0]

    async def snapshot(self) -> bytes:
        """Serialize the program."""
        return await self._threads.run(self._dump)

    async def end(self) -> None:
        """Release the process, whatever the state of the program."""
        if self._state != "ended":
            await self._threads.run(self._end)

    async def _turn(self, work: Callable[[], SyncSnapshot]) -> None:
        """Run the program to its next step; its errors become those of the gateway."""
        try:
            await self._attempt(work)
        except MontyTypingError:
            raise
        except MontyError as error:
            if f"bytes > {self._output_chars} bytes" in str(error):
                raise ProgramError(
                    f"The program was ended: it printed more than {self._output_chars:,} bytes.",
                    hint="Print less; return what you need.",
                ) from None
            raise program_error(error) from None

    async def _attempt(self, work: Callable[[], SyncSnapshot]) -> None:
        """Run the program to its next step; cancelling kills its process."""
        try:
            self._snapshot, self._steps = await self._threads.run(partial(self._advance, work))
        except anyio.get_cancelled_exc_class():
            self._is_cancelled = True
            self._kill()
            raise

    # Runs in a thread

    def _advance(self, work: Callable[[], SyncSnapshot]) -> tuple[SyncSnapshot, deque[Step]]:
        """Get a process if there is none yet, run, and release it if the program has ended.

        All in one thread call, since each round trip costs as much as the work itself.
        """
        with self._lock:
            if self._state == "new":
                self._session.__enter__()
                self._state, self._pid = "open", self._session.worker_pid
                if self._pid is not None:
                    lower_priority(self._pid)
                if self._is_cancelled:
                    self._kill()
            snapshot, steps = _to_the_next_wait(work(), self._settled_names)
            if isinstance(snapshot, MontyComplete):
                self._leave()
            return snapshot, steps

    def _dump(self) -> bytes:
        with self._lock:
            return self._session.dump()

    def _end(self) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        was, self._state = self._state, "ended"
        if was == "open":
            self._session.__exit__(None, None, None)

    def _kill(self) -> None:
        if self._pid is not None and self._state == "open":
            with suppress(ProcessLookupError):
                end_at_once(self._pid)

    def _begin(self, program: Program, *, is_checked: bool) -> SyncSnapshot:
        if definitions := _prelude(program):
            prelude = self._session.feed_start(definitions, skip_type_check=True)
            while not isinstance(prelude, MontyComplete):
                prelude = prelude.resume_auto()
        return self._settled_names(self._feed(program, is_checked=is_checked))

    def _feed(self, program: Program, *, is_checked: bool) -> SyncSnapshot:
        return self._session.feed_start(
            program.code,
            inputs={"inputs": program.inputs},
            print_callback=self._printed,
            skip_type_check=not is_checked,
        )

    def _settled_names(self, snapshot: SyncSnapshot) -> SyncSnapshot:
        """Answer requests that need nothing from outside, until a call, a wait or the end."""
        while True:
            if isinstance(snapshot, NameLookupSnapshot):
                name = snapshot.variable_name
                if snapshot.object_id is None and name in self._functions:
                    snapshot = snapshot.resume(value=_function(name))
                else:
                    snapshot = snapshot.resume()
            elif isinstance(snapshot, FunctionSnapshot) and snapshot.is_os_function:
                # Imports find the modules of the session, but no files, processes or variables.
                is_import = snapshot.function_name in {"import", "import_stubs"}
                snapshot = snapshot.resume_auto() if is_import else snapshot.resume_not_handled()
            elif isinstance(snapshot, FunctionSnapshot) and not self._is_known(snapshot):
                # Else a program goes on after `exit()`, which is a call that nobody waits for.
                message = f"name {snapshot.function_name!r} is not defined"
                snapshot = snapshot.resume({"exc_type": "NameError", "message": message})
            else:
                return snapshot

    def _is_known(self, snapshot: FunctionSnapshot) -> bool:
        name = str(snapshot.function_name)
        return "." in name or name == _TOOL or name in self._functions


def _to_the_next_wait(
    snapshot: SyncSnapshot, settled_names: Callable[[SyncSnapshot], SyncSnapshot]
) -> tuple[SyncSnapshot, deque[Step]]:
    """Continue after each call, until the program waits for a result or ends."""
    steps: deque[Step] = deque([_step(snapshot)])
    while isinstance(snapshot, FunctionSnapshot) and snapshot.function_name != _TOOL:
        snapshot = settled_names(snapshot.resume(_LATER))
        steps.append(_step(snapshot))
    return snapshot, steps


def _names(functions: tuple[HostFunction, ...]) -> frozenset[str]:
    return frozenset(function.name for function in functions)


def _step(snapshot: SyncSnapshot) -> Step:
    if isinstance(snapshot, MontyComplete):
        output = snapshot.output
        if isinstance(output, str) and _CALL.fullmatch(output):
            raise ProgramError(
                "The result of the program is a call without 'await'.",
                hint="Write 'await' before the call.",
            )
        return Completed(value=json_value(output))
    if isinstance(snapshot, FutureSnapshot):
        return PendingCalls(call_ids=tuple(sorted(snapshot.pending_call_ids)))  # it is a set
    assert isinstance(snapshot, FunctionSnapshot)
    function, args = str(snapshot.function_name), json_value(snapshot.args)
    is_blocking = function == _TOOL and bool(args)
    if is_blocking:
        function, args = str(args[0]), args[1:]
    return HostCall(
        call_id=snapshot.call_id,
        function=function,
        args=tuple(args),
        kwargs=json_value(snapshot.kwargs),
        is_blocking=is_blocking,
    )


def _prelude(program: Program) -> str:
    """Return what a program does not have to define or import; empty: it needs nothing."""
    if any(word in program.code for word in _CONCURRENT):
        lines = [f"import {module.name}" for module in program.modules]
    else:
        lines = _one_by_one(program)
    lines += [f"import {name}" for name in _library(program)]
    if "gather" in program.code:
        lines.append("from asyncio import gather")
    if annotations := [name for name in _ANNOTATIONS if name in program.code]:
        lines.append(f"from typing import {', '.join(annotations)}")
    return "\n".join(lines)


def _one_by_one(program: Program) -> list[str]:
    """Return definitions of the functions that a program names, each answered in one message."""
    named = [function for function in program.functions if function.name in program.code]
    lines = [_ONE_BY_ONE] if named or program.modules else []
    lines += [_definition(function.name, function.name) for function in named]
    for module in program.modules:
        lines += [f"class {module.name}:", "    pass"]
        lines += [f"    {_definition(f.name, f'{module.name}.{f.name}')}" for f in module.functions]
    return lines


def _definition(name: str, function: str) -> str:
    return f"def {name}(*args, **kwargs): return _call_({function!r}, args, kwargs)"


def _library(program: Program) -> list[str]:
    """Modules of the language that a program uses, as far as they have not another meaning."""
    tools = {module.name for module in program.modules}
    return [
        name
        for name in LIBRARY
        if f"{name}." in program.code and name not in tools
        if re.search(rf"(?<![\w.]){name}\.\w", program.code)
    ]


def _function(name: str) -> Any:
    """Return a stub of which only the name matters: it is never called here."""

    def call() -> None:
        raise NotImplementedError

    call.__name__ = call.__qualname__ = name
    return call


def _modules(modules: tuple[HostModule, ...]) -> dict[str, ExternalModule]:
    return {
        module.name: ExternalModule({f.name: _function(f.name) for f in module.functions})
        for module in modules
    }


def _declarations(program: Program) -> str:
    """Return the declarations for the type checker, besides the builtins.

    Modules are declared as objects: a program uses them without an import, and the checker reads
    them in one go. It does not support `staticmethod`, so their functions are methods.
    """
    lines = [_TYPING, "inputs: dict[str, Any]"]
    lines += [f"import {name} as {name}" for name in _library(program)]
    for function in program.functions:
        lines += [function.types, _declaration(function, function.parameters)]
    for module in program.modules:
        lines += [function.types for function in module.functions]
        lines.append(f"class _{module.name}_:\n    pass")
        for function in module.functions:
            parameters = ", ".join(filter(None, ["self", function.parameters]))
            lines.append(f"    {_declaration(function, parameters)}")
        lines.append(f"{module.name}: _{module.name}_")
    return "\n".join(lines)


def _declaration(function: HostFunction, parameters: str) -> str:
    return f"async def {function.name}({parameters}) -> {function.returns}: ..."


def _limits(limits: ProgramLimits) -> ResourceLimits:
    return ResourceLimits(
        max_feed_duration_secs=limits.run_s,
        max_memory=limits.memory_mb * 2**20,
        max_recursion_depth=_RECURSION,
        max_suspensions=limits.steps,
        max_total_sleep_secs=0,
    )


def _settled(answer: CallValue | CallFailure) -> Any:
    if isinstance(answer, CallValue):
        return {"return_value": answer.value}
    return {"exc_type": answer.kind, "message": answer.message}


def _settled_at_once(answer: CallValue | CallFailure) -> Any:
    """The answer to a blocking call, as `_ONE_BY_ONE` reads it."""
    if isinstance(answer, CallValue):
        return {"return_value": [answer.value, "", ""]}
    return {"return_value": [None, answer.kind, answer.message]}
