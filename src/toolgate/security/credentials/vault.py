"""Reads and writes encrypted credentials, with a cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.security.credentials.keychain import Keychain, associated_data
from toolgate.store import CredentialKey, CredentialRepository, StoredCredential
from toolgate.types import Json, json_object

__all__ = ["DecryptedCredential", "Vault"]


@dataclass(frozen=True, kw_only=True)
class DecryptedCredential:
    """A credential that was read."""

    key: CredentialKey
    """Which."""

    version: int
    """Which state of it."""

    secret: Json
    """What it is. WARNING: never shown."""

    details: Json
    """What may be shown of it."""


class Vault:
    """Reads and writes credentials; what was read is remembered until `forget`."""

    def __init__(self, rows: CredentialRepository, keychain: Keychain) -> None:
        self._rows = rows
        self._keychain = keychain
        self._cache: dict[CredentialKey, DecryptedCredential | None] = {}

    async def get(self, key: CredentialKey, *, fresh: bool = False) -> DecryptedCredential | None:
        """A credential; None: there is none.

        Args:
            key: Which.
            fresh: Read it from the store, whatever is remembered.

        Raises:
            SettingError: It cannot be decrypted.
            StoreError: The store cannot be read.
        """
        if not fresh and key in self._cache:
            return self._cache[key]
        row = await self._rows.get(key)
        credential = None if row is None else await self._opened(row)
        self._cache[key] = credential
        return credential

    async def save(
        self,
        key: CredentialKey,
        secret: Json,
        details: Json,
        *,
        over: int | None = None,
        quietly: bool = False,
    ) -> bool:
        """Write one; False: another version than `over` is there."""
        key_id, sealed = await self._keychain.seal(json_text.dumps(secret), associated_data(key))
        row = StoredCredential(
            key=key, key_id=key_id, sealed=sealed, shown=json_text.dumps(details).decode()
        )
        saved = await self._rows.save(row, over=over, quietly=quietly)
        # Read again next time: another replica may have won.
        self._cache.pop(key, None)
        return saved

    async def all(
        self, server: str | None = None, *, kind: str = "login"
    ) -> list[DecryptedCredential]:
        """Credentials of a server or of all, those that cannot be read without their secret."""
        rows = await self._rows.select(server, kind=kind)
        return [
            DecryptedCredential(key=row.key, version=row.version, secret={}, details=_details(row))
            for row in rows
        ]

    async def delete(self, **filters: str) -> int:
        """Remove those that fit, as `CredentialRepository.delete`."""
        self.forget()
        return await self._rows.delete(**filters)

    async def pop(self, key: CredentialKey) -> DecryptedCredential | None:
        """A credential that can be had once: it is removed; None: there is none any more."""
        credential = await self.get(key, fresh=True)
        self._cache.pop(key, None)
        # Of two that come at the same time, only one deletes the row.
        gone = await self._rows.delete(
            key.server, subject=key.subject, kind=key.kind, project_id=key.project_id
        )
        return credential if gone else None

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the right to renew one; whether it was taken."""
        return await self._rows.lease(key, by, until, now)

    def remember_unsaved(
        self, key: CredentialKey, secret: Json, before: DecryptedCredential
    ) -> None:
        """Remember one that could not be written, so that it is not lost while this runs."""
        self._cache[key] = DecryptedCredential(
            key=key, version=before.version, secret=secret, details=before.details
        )

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._cache.clear()

    async def _opened(self, row: StoredCredential) -> DecryptedCredential:
        text = await self._keychain.open(row.key_id, row.sealed, associated_data(row.key))
        return DecryptedCredential(
            key=row.key,
            version=row.version,
            secret=json_object(json_text.loads(text)),
            details=_details(row),
        )


def _details(row: StoredCredential) -> Json:
    details: Mapping[str, object] = json_object(json_text.loads(row.shown))
    return {**details, "updated_at": row.updated_at}
