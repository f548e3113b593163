"""Clean shutdown on SIGTERM while a gateway is still starting."""

import contextlib
import os
import signal
import sys
from collections.abc import Generator


@contextlib.contextmanager
def interrupt_on_sigterm() -> Generator[None]:
    """Raise KeyboardInterrupt on SIGTERM, so that child processes are stopped."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ends_with_terminal(had_terminal: bool) -> bool:
    """Whether a SIGHUP means that the terminal was closed, rather than a reload."""
    if sys.platform == "win32" or not had_terminal:
        return False
    try:
        os.tcgetpgrp(sys.stderr.fileno())
    except OSError:
        return True
    return False
