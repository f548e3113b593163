"""What places outside of our own store have in common: one client, used in threads, one at a time.

Their clients block, and those of a local file may not be used by two threads at once.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from toolgate.errors import StoreError, ToolgateError

__all__ = ["Elsewhere", "named"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_PREFIX = "toolgate_"


class Elsewhere:
    """A client that is made when it is first used, and made anew after it failed."""

    notice = ""

    def __init__(self, name: str, connect: Callable[[], Any], *, at_once: int) -> None:
        """Make one.

        Args:
            name: What the place is called in messages.
            connect: Makes the client; blocks.
            at_once: How many threads may use it at the same time.
        """
        self._name = name
        self._connect = connect
        self._client: Any = None
        self._limiter: anyio.CapacityLimiter | None = None
        self._at_once = at_once
        self.known: set[str] = set()
        """Shelves that are there."""

    async def using(self, work: Callable[[Any], T]) -> T:
        """Do something with the client.

        Raises:
            StoreError: The place does not answer, or refuses.
        """

        def run() -> T:
            try:
                if self._client is None:
                    self._client = self._connect()
                return work(self._client)
            except (ToolgateError, ValueError):
                raise
            except Exception as error:
                self._forget()
                said = " ".join(str(error).split())[:300] or type(error).__name__
                raise StoreError(
                    f"The vectors in {self._name} cannot be reached: {said}.",
                    hint=f"Look at documents.place_options.{self._name}, and at the service.",
                ) from error

        if self._limiter is None:  # it belongs to the loop that runs now
            self._limiter = anyio.CapacityLimiter(self._at_once)
        return await to_thread.run_sync(run, limiter=self._limiter)

    async def aclose(self) -> None:
        """Close the client; the next use makes another."""
        await to_thread.run_sync(self._forget)
        self._limiter = None

    def _forget(self) -> None:
        client, self._client = self._client, None
        self.known.clear()
        if client is None:
            return
        try:
            client.close()
        except Exception:
            log.debug("client not closed", extra={"place": self._name}, exc_info=True)


def named(shelf_id: str) -> str:
    """What a shelf is called there."""
    return f"{_PREFIX}{shelf_id}"
