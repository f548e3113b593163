"""Imports heavy modules of Toolgate, one at a time.

Two threads that import parts of one library at the same time can see half-initialised modules:
Python resolves the deadlock of their import locks by handing them out.
"""

import marshal
import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import anyio.to_thread

ResultT = TypeVar("ResultT")

_ALONE = RLock()

_HEADER_BYTES = 16
"""Bytes of a bytecode file before the code: https://peps.python.org/pep-0552/#specification."""


async def load(name: str) -> Any:
    """Import a module in a thread, so that the event loop stays free."""
    return await run_alone(lambda: import_module(name))


async def run_alone(function: Callable[[], ResultT]) -> ResultT:
    """Call a function that imports heavy modules in a thread, and never two at a time."""

    def run() -> ResultT:
        with _ALONE:
            return function()

    return await anyio.to_thread.run_sync(run)


def cache_bytecode(*packages: str) -> None:
    """Compile packages that are imported later, unless an installer or an earlier start did.

    The last of them tells: all are compiled if its `__init__` has no bytecode.
    """
    specs = [find_spec(name) for name in packages]
    origins = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    if origins and not Path(cache_from_source(str(origins[-1]))).exists():
        for origin in origins:
            for source in origin.parent.rglob("*.py"):
                _compile(source)


def _compile(source: Path) -> None:
    """Write the bytecode of a module, whole or not at all.

    On a full disk, Python before 3.12.8 writes a part of it, and can never import the module again
    (CPython issue 126606).
    """
    py_compile = import_module("py_compile")
    target = Path(cache_from_source(str(source)))
    draft = target.with_suffix(f".{os.getpid()}.tmp")
    # What cannot be compiled or written now is compiled by the import itself.
    with suppress(OSError, EOFError, ValueError, TypeError, py_compile.PyCompileError):
        py_compile.compile(str(source), cfile=str(draft), dfile=str(source), doraise=True)
        marshal.loads(draft.read_bytes()[_HEADER_BYTES:])  # noqa: S302 - written a line above
        draft.replace(target)
    with suppress(OSError):
        draft.unlink(missing_ok=True)
