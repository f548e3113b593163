"""Clean shutdown on SIGTERM while a gateway still starts."""

import contextlib
import signal
from collections.abc import Generator

__all__ = ["interrupt_on_sigterm"]


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
