"""How a process that stays is ended before it listens to signals itself."""

import contextlib
import signal
from collections.abc import Generator

__all__ = ["interrupt_on_sigterm"]


@contextlib.contextmanager
def interrupt_on_sigterm() -> Generator[None]:
    """SIGTERM before the gateway listens ends it as in an orderly way: children are ended."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
