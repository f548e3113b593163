"""Imports heavy modules of Toolgate, one at a time.

Two threads that import parts of one library at the same time can see half-initialised modules:
Python resolves the deadlock of their import locks by handing them out.
"""

from importlib import import_module
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from threading import RLock
from typing import Any

import anyio.to_thread

__all__ = ["cache_bytecode", "load"]

_ALONE = RLock()


async def load(name: str) -> Any:
    """Import a module in a thread, so that the event loop stays free."""
    return await anyio.to_thread.run_sync(_load, name)


def _load(name: str) -> Any:
    with _ALONE:
        return import_module(name)


def cache_bytecode(*packages: str) -> None:
    """Compile packages that are imported later, unless an installer or an earlier start did.

    The last of them tells: all are compiled if its `__init__` has no bytecode.
    """
    specs = [find_spec(name) for name in packages]
    origins = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    if origins and not Path(cache_from_source(str(origins[-1]))).exists():
        compileall = import_module("compileall")
        for origin in origins:
            compileall.compile_dir(str(origin.parent), quiet=2)
