"""Keeps the gateway's memory small: deferred imports, freed memory returned to the system."""

import ctypes
import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_M_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of glibc's malloc.h."""
_THRESHOLD_BYTES = 2**20
"""Blocks from this size in bytes are unmapped when freed (chosen: above the usual message)."""
_M_ARENA_MAX = -8
"""`M_ARENA_MAX` of glibc's malloc.h."""

_SCANS = (1_000, 0, 250) if sys.version_info < (3, 14) else (5_000,)
"""Thresholds of the garbage collector (chosen; Python 3.11 has 700, 10, 10). New objects are
scanned 1,000 at a time, and what survived with every second scan, so that a scan covers 2,000
objects. With hundreds of requests running a scan takes 0.5 to 1 us per object, and other requests
wait for it: 30 ms with the thresholds of Python, up to 15 ms with 5,000 at a time. In all, scans
take 2.5 % of the CPU time, and 2.3 % with 5,000 at a time. Everything is scanned after 500,000 new
objects, and then only if a quarter of it is new. From Python 3.14, the collector scans in small
pieces by itself."""


def give_back_freed_memory() -> None:
    """Have glibc map large blocks separately, and use one arena for all threads.

    By default glibc raises its threshold with the first large block that is freed, and keeps
    such blocks afterwards: some 100 MB stayed resident after messages of 10 to 30 MB, and 60 MB
    with this call. One arena per thread costs 4 MB with 20 servers. Other C libraries are left
    alone. https://man7.org/linux/man-pages/man3/mallopt.3.html
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def defer(*packages: str) -> None:
    """Defer the imports inside packages until an attribute is used.

    Modules below them can be imported as usual, and then load only what they need. Otherwise the
    SDK's top-level package also imports its client, its high-level server, an HTTP client and
    cryptography: 11 MB and 0.2 CPU s (mcp 2.3.0). Packages that are already imported stay as
    they are.

    Args:
        packages: Names, outer packages before those inside them.
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
    """A package whose `__init__` has not run yet."""

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
    """Return free memory to the system; takes milliseconds and is best called in a thread.

    Free blocks below the threshold stay resident otherwise: 140 MB after three paged results of
    30 MB. https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    if sys.platform != "linux":
        return
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


@contextmanager
def starting() -> Generator[None]:
    """Pause the garbage collector while the block imports and builds what stays until the end.

    What exists after the block is never scanned, not even once: imports leave 0.5 MB that a scan
    would free, and it takes a tenth of the start.
    """
    with uncollected():
        yield
        set_aside()  # before the collector is back, which would begin with a scan of everything


@contextmanager
def uncollected() -> Generator[None]:
    """Pause the garbage collector while the block creates many long-lived objects.

    It would otherwise scan them again and again, which takes as long as creating them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def set_aside() -> None:
    """Exclude all present objects from garbage collection: they are here to stay.

    The collector otherwise scans every object from time to time, in the middle of a request.
    Objects that lose their last reference are freed as before. What comes later is scanned less
    often than by default, since most of it is freed before, and fewer objects at a time.
    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.freeze()
    gc.set_threshold(*_SCANS)
