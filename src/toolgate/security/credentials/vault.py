"""Credentials as values: encrypted when they are written, remembered while nobody changes them."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.security.credentials.keychain import Keychain, associated_data
from toolgate.store import CredentialKey, CredentialRows, StoredCredential
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

    shown: Json
    """What may be shown of it."""


class Vault:
    """Reads and writes credentials; what was read is remembered until `forget`."""

    def __init__(self, rows: CredentialRows, keychain: Keychain) -> None:
        self._rows = rows
        self._keychain = keychain
        self._known: dict[CredentialKey, DecryptedCredential | None] = {}

    async def get(self, key: CredentialKey, *, fresh: bool = False) -> DecryptedCredential | None:
        """A credential; None: there is none.

        Args:
            key: Which.
            fresh: Read it from the store, whatever is remembered.

        Raises:
            SettingError: It cannot be decrypted.
            StoreError: The store cannot be read.
        """
        if not fresh and key in self._known:
            return self._known[key]
        row = await self._rows.credential(key)
        kept = None if row is None else await self._opened(row)
        self._known[key] = kept
        return kept

    async def save(
        self,
        key: CredentialKey,
        secret: Json,
        shown: Json,
        *,
        over: int | None = None,
        quietly: bool = False,
    ) -> bool:
        """Write one; False: another version than `over` is there."""
        key_id, sealed = await self._keychain.seal(json_text.dumps(secret), associated_data(key))
        row = StoredCredential(
            key=key, key_id=key_id, sealed=sealed, shown=json_text.dumps(shown).decode()
        )
        saved = await self._rows.save_credential(row, over=over, quietly=quietly)
        self._known.pop(key, None)
        return saved

    async def all(
        self, server: str | None = None, *, kind: str = "login"
    ) -> list[DecryptedCredential]:
        """Credentials of a server or of all, those that cannot be read without their secret."""
        rows = await self._rows.credentials(server, kind=kind)
        return [
            DecryptedCredential(key=row.key, version=row.version, secret={}, shown=_shown(row))
            for row in rows
        ]

    async def delete(self, **wanted: str) -> int:
        """Remove those that fit, as `CredentialRows.delete_credentials`."""
        self.forget()
        return await self._rows.delete_credentials(**wanted)

    async def take(self, key: CredentialKey) -> DecryptedCredential | None:
        """A credential that can be had once: it is removed; None: there is none any more."""
        kept = await self.get(key, fresh=True)
        self._known.pop(key, None)
        gone = await self._rows.delete_credentials(
            key.server, subject=key.subject, kind=key.kind, project_id=key.project_id
        )
        return kept if gone else None

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Take the right to renew one; whether it was taken."""
        return await self._rows.lease_credential(key, by, until, now)

    def hold(self, key: CredentialKey, secret: Json, before: DecryptedCredential) -> None:
        """Remember one that could not be written, so that it is not lost while this runs."""
        self._known[key] = DecryptedCredential(
            key=key, version=before.version, secret=secret, shown=before.shown
        )

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._known.clear()

    async def _opened(self, row: StoredCredential) -> DecryptedCredential:
        text = await self._keychain.open(row.key_id, row.sealed, associated_data(row.key))
        return DecryptedCredential(
            key=row.key,
            version=row.version,
            secret=json_object(json_text.loads(text)),
            shown=_shown(row),
        )


def _shown(row: StoredCredential) -> Json:
    shown: Mapping[str, object] = json_object(json_text.loads(row.shown))
    return {**shown, "updated_at": row.updated_at}
