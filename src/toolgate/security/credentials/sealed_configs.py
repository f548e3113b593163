"""Encrypts the secrets in the configurations of stored servers."""

from dataclasses import replace

from toolgate.security.credentials.subject import EVERYBODY, key_of
from toolgate.security.credentials.vault import Vault
from toolgate.settings import redact
from toolgate.store import StoredServer
from toolgate.types import json_object


def has_plain_secrets(row: StoredServer) -> bool:
    """Return whether a row contains secrets that can be read in the database."""
    return not row.config.get("sealed") and redact(row.config) != row.config


class SealedConfigs:
    """Moves the secrets of stored servers into encrypted credentials, and restores them.

    Rows from versions without credentials contain the secrets themselves; they are encrypted
    when they are read.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def seal(self, server: StoredServer) -> StoredServer:
        """Return the row to store; if any of the configuration is secret, all of it is encrypted.

        Raises:
            SettingError: The key for credentials cannot be used.
            StoreError: The store cannot be written.
        """
        if not has_plain_secrets(server):
            await self._vault.delete(server=server.name, kind="config")
            return server
        key = key_of(server.name, EVERYBODY, "config")
        await self._vault.save(key, server.config, {}, quietly=True)
        return replace(server, config={**redact(server.config), "sealed": True})

    async def unseal(self, row: StoredServer) -> StoredServer:
        """Return the server with its whole configuration.

        Raises:
            SettingError: The configuration cannot be decrypted.
        """
        if not row.config.get("sealed"):
            return row
        credential = await self._vault.get(key_of(row.name, EVERYBODY, "config"), fresh=True)
        if credential is None:
            return replace(
                row, config={name: v for name, v in row.config.items() if name != "sealed"}
            )
        return replace(row, config=json_object(credential.secret))
