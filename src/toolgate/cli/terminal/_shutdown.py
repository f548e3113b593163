"""How a process that stays is ended before it listens to signals itself."""

import contextlib
import signal
from collections.abc import Generator

__all__ = ["ended_by_a_signal"]


@contextlib.contextmanager
def ended_by_a_signal() -> Generator[None]:
    """SIGTERM before the gateway listens ends it as in an orderly way: children are ended."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
