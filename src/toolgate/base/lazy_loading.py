"""Loads heavy modules of Toolgate one at a time.

Two threads that import parts of one library at the same time can see half of it: Python breaks the
cycle that both wait in by handing out modules which are not finished.
"""

from importlib import import_module
from threading import RLock
from typing import Any

import anyio.to_thread

__all__ = ["load"]

_ALONE = RLock()


async def load(name: str) -> Any:
    """The module, imported in a thread while everything else goes on."""
    return await anyio.to_thread.run_sync(_load, name)


def _load(name: str) -> Any:
    with _ALONE:
        return import_module(name)
