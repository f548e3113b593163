"""Tells connections when other credentials hold, whichever process changed them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolgate.errors import StoreError
from toolgate.security.credentials.vault import Vault
from toolgate.store import CredentialKey

__all__ = ["CredentialWatcher"]

log = logging.getLogger(__name__)


class CredentialWatcher:
    """Compares what is stored with what was there, when somebody says that it changed."""

    def __init__(self, vault: Vault, changed: Callable[[str, str], Awaitable[None]]) -> None:
        """Make one.

        Args:
            vault: What is stored.
            changed: Called with server and subject.
        """
        self._vault = vault
        self._changed = changed
        self._known: dict[CredentialKey, tuple[str, str]] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._lock = asyncio.Lock()

    async def look(self) -> None:
        """Tell of all that is different from the last look; the first one tells nothing.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._lock:
            rows = await self._vault.all()
            found = {
                kept.key: (str(kept.shown.get("epoch")), str(kept.shown.get("state")))
                for kept in rows
            }
            before, self._known = self._known, found
            self._vault.forget()
            if before is None:
                return
            for key in before.keys() | found.keys():
                if before.get(key) != found.get(key):
                    await self._changed(key.server, key.subject)

    def look_soon(self) -> None:
        """Look in the background."""
        if self._looking is not None and not self._looking.done():
            self._again = True
            return
        self._looking = asyncio.create_task(self._look_quietly(), name="toolgate-logins")

    async def _look_quietly(self) -> None:
        while True:
            self._again = False
            try:
                await self.look()
            except StoreError as error:
                log.warning("logins cannot be read", extra={"error": str(error)})
            if not self._again:
                return

    async def aclose(self) -> None:
        """Stop."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
