"""Imports heavy modules of Toolgate, one at a time.

Two threads that import parts of one library at the same time can see half-initialised modules:
Python resolves the deadlock of their import locks by handing them out.
"""

from importlib import import_module
from threading import RLock
from typing import Any

import anyio.to_thread

__all__ = ["load"]

_ALONE = RLock()


async def load(name: str) -> Any:
    """Import a module in a thread, so that the event loop stays free."""
    return await anyio.to_thread.run_sync(_load, name)


def _load(name: str) -> Any:
    with _ALONE:
        return import_module(name)
