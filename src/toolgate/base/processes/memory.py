"""Keeps the memory of a serving process small: deferred imports, freed memory returned."""

import ctypes
import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType

__all__ = ["defer", "give_back_freed_memory", "set_aside", "trim", "uncollected"]

_M_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of glibc's malloc.h."""
_THRESHOLD_BYTES = 2**20
"""Bytes from which memory is given back when it is freed; chosen: above messages of usual size."""
_M_ARENA_MAX = -8
"""`M_ARENA_MAX` of glibc's malloc.h."""


def give_back_freed_memory() -> None:
    """Have large blocks mapped apart, and small ones of all threads in one place.

    glibc raises its own limit with the first large block that is freed and then keeps such blocks:
    some 100 MB stayed resident after messages of 10 to 30 MB, and 60 MB with this. Threads get
    places of their own, each with room for later: 4 MB with 20 servers. Elsewhere nothing is done.
    https://man7.org/linux/man-pages/man3/mallopt.3.html
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def defer(*packages: str) -> None:
    """Have what packages import of their own accord imported when somebody asks them for it.

    Modules in them can be imported as always, and then load nothing but what they need themselves.
    The SDK's front brings its client, its high-level server, an HTTP client and cryptography along
    otherwise: 11 MB and 0.2 CPU s (mcp 2.3.0). Packages that are imported already stay as they are.

    Args:
        packages: Names, those of outer packages before those in them.
    """
    for name in packages:
        if name in sys.modules:
            continue
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        module.__class__ = _Deferred
        sys.modules[name] = module
        outer, _, inner = name.rpartition(".")
        if outer:
            setattr(sys.modules[outer], inner, module)


class _Deferred(ModuleType):
    """A package whose own code has not run yet."""

    def __getattr__(self, name: str) -> object:
        with _loading:
            if self.__class__ is _Deferred:
                self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]
                spec = self.__spec__
                assert spec is not None
                assert spec.loader is not None
                spec.loader.exec_module(self)
        return getattr(self, name)


_loading = threading.RLock()


def trim() -> None:
    """Give back what lies free between blocks in use; takes some milliseconds, best in a thread.

    Pieces below the limit above are kept: 140 MB after three paged results of 30 MB.
    https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    if sys.platform != "linux":
        return
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


@contextmanager
def uncollected() -> Generator[None]:
    """Make many objects that are to stay in the block: the collector of cycles waits until its end.

    It would look at them again and again while they are made, which takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def set_aside() -> None:
    """Have the collector of cycles pass over what is there now, which is there to stay.

    From time to time it looks at every object, in the middle of an answer. What loses its last
    reference is freed as before.
    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.collect()
    gc.freeze()
