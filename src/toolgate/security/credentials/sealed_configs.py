"""Encrypts the secrets in the configurations of stored servers."""

from dataclasses import replace

from toolgate.security.credentials.subject import EVERYBODY, key_of
from toolgate.security.credentials.vault import Vault
from toolgate.settings import redact
from toolgate.store import StoredServer
from toolgate.types import json_object

__all__ = ["SealedConfigs", "has_plain_secrets"]


def has_plain_secrets(row: StoredServer) -> bool:
    """Whether a row holds secrets that anybody reads who has the database."""
    return not row.config.get("sealed") and redact(row.config) != row.config


class SealedConfigs:
    """Takes secrets out of what is stored of a server, and puts them back.

    A row that was written before there were credentials holds them itself; it is closed when it is
    read.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def seal(self, server: StoredServer) -> StoredServer:
        """The row to be stored; the whole configuration is encrypted where any of it is secret.

        Raises:
            SettingError: The key for credentials cannot be used.
            StoreError: It cannot be written.
        """
        if not has_plain_secrets(server):
            await self._vault.delete(server=server.name, kind="config")
            return server
        key = key_of(server.name, EVERYBODY, "config")
        await self._vault.save(key, server.config, {}, quietly=True)
        return replace(server, config={**redact(server.config), "sealed": True})

    async def unseal(self, row: StoredServer) -> StoredServer:
        """The server with its whole configuration.

        Raises:
            SettingError: It cannot be decrypted.
        """
        if not row.config.get("sealed"):
            return row
        credential = await self._vault.get(key_of(row.name, EVERYBODY, "config"), fresh=True)
        if credential is None:
            return replace(
                row, config={name: v for name, v in row.config.items() if name != "sealed"}
            )
        return replace(row, config=json_object(credential.secret))
