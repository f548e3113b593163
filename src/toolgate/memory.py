"""Memory that was used for large messages, given back to the system."""

import ctypes
import sys

__all__ = ["give_back_freed_memory", "trim"]

_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 2**20


def give_back_freed_memory() -> None:
    """Have large blocks mapped apart, so that the system gets them back when they are freed.

    glibc raises its own limit with the first large block that is freed and then keeps such blocks:
    some 100 MB stayed resident after messages of 10 to 30 MB, and 60 MB with this. Elsewhere
    nothing is done. https://man7.org/linux/man-pages/man3/mallopt.3.html
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)


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
