"""What external vector databases share: one client, used in threads, one request at a time.

Their clients block, and those of a local file may not be used by two threads at once.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, TypeVar

from anyio import to_thread

from toolgate.errors import StoreError, ToolgateError

__all__ = ["VectorServiceClient", "named"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_PREFIX = "toolgate_"


class VectorServiceClient:
    """A client that is made when it is first used, and made anew after it failed."""

    notice = ""

    def __init__(self, name: str, connect: Callable[[], Any], *, alone: bool) -> None:
        """Make one.

        Args:
            name: What the place is called in messages.
            connect: Makes the client; blocks.
            alone: Whether one thread at a time may use it.
        """
        self._name = name
        self._connect = connect
        self._client: Any = None
        self._connecting = Lock()
        self._using: AbstractContextManager[object] = Lock() if alone else nullcontext()
        self.known: set[str] = set()
        """Shelves that are there."""

    async def using(self, work: Callable[[Any], T]) -> T:
        """Do something with the client. Cancelling does not wait for it.

        Raises:
            StoreError: The place does not answer, or refuses.
        """

        def run() -> T:
            try:
                with self._using:
                    return work(self._connected())
            except (ToolgateError, ValueError):
                raise
            except Exception as error:
                self._forget()
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                raise StoreError(
                    f"The vectors in {self._name} cannot be reached: {reason}.",
                    hint=f"Look at documents.place_options.{self._name}, and at the service.",
                ) from error

        return await to_thread.run_sync(run, abandon_on_cancel=True)

    async def aclose(self) -> None:
        """Close the client; the next use makes another."""
        await to_thread.run_sync(self._forget)

    def _connected(self) -> Any:
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            return self._client

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
