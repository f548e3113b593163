"""Notifies connections when a credential changes, in any process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context

from toolgate.errors import StoreError
from toolgate.security.credentials.credential_values import SECRETS
from toolgate.security.credentials.vault import Vault
from toolgate.store import CredentialKey

log = logging.getLogger(__name__)


class CredentialWatcher:
    """Compares the stored credentials with the previous ones after a change notification."""

    def __init__(self, vault: Vault, changed: Callable[[str, str], Awaitable[None]]) -> None:
        """Create the watcher.

        Args:
            vault: The stored credentials.
            changed: Called with server and subject.
        """
        self._vault = vault
        self._changed = changed
        self._previous: dict[CredentialKey, tuple[str, str]] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._again = False
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Report all changes since the previous call; the first call reports nothing.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._lock:
            rows = [*await self._vault.all(), *await self._vault.all(kind=SECRETS)]
            current = {
                row.key: (str(row.details.get("epoch")), str(row.details.get("state")))
                for row in rows
            }
            before, self._previous = self._previous, current
            self._vault.forget()
            if before is None:
                return
            for key in before.keys() | current.keys():
                if before.get(key) != current.get(key):
                    await self._changed(key.server, key.subject)

    def refresh_soon(self) -> None:
        """Call `refresh` in the background."""
        if self._refreshing is not None and not self._refreshing.done():
            self._again = True
            return
        # An empty context: the deadline of the request that happens to start it does not apply.
        self._refreshing = asyncio.create_task(
            self._refresh_quietly(), name="toolgate-logins", context=Context()
        )

    async def _refresh_quietly(self) -> None:
        while True:
            self._again = False
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("logins cannot be read", extra={"error": error.full_text})
            if not self._again:
                return

    async def aclose(self) -> None:
        """Stop refreshing."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
