"""Reads and writes encrypted credentials, with a cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.security.credentials.keychain import Keychain, associated_data
from toolgate.store import CredentialKey, CredentialRepository, StoredCredential
from toolgate.types import Json, json_object


@dataclass(frozen=True, kw_only=True)
class DecryptedCredential:
    """A credential that was read and decrypted."""

    key: CredentialKey
    """The row of the credential."""

    version: int
    """The version of the row."""

    secret: Json
    """The secret part. WARNING: never shown."""

    details: Json
    """The details that may be shown."""


class Vault:
    """Reads and writes credentials; what was read is cached until `forget`."""

    def __init__(self, rows: CredentialRepository, keychain: Keychain) -> None:
        self._rows = rows
        self._keychain = keychain
        self._cache: dict[CredentialKey, DecryptedCredential | None] = {}

    async def get(self, key: CredentialKey, *, fresh: bool = False) -> DecryptedCredential | None:
        """Return a credential; None if it does not exist.

        Args:
            key: The row of the credential.
            fresh: Whether to read from the store and ignore the cache.

        Raises:
            SettingError: The credential cannot be decrypted.
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
        """Save a credential; False if the stored version is not `over`."""
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
        """Return the credentials of one server or of all, without their secrets."""
        rows = await self._rows.select(server, kind=kind)
        return [
            DecryptedCredential(key=row.key, version=row.version, secret={}, details=_details(row))
            for row in rows
        ]

    async def delete(self, **filters: str) -> int:
        """Delete the credentials that match, like `CredentialRepository.delete`."""
        self.forget()
        return await self._rows.delete(**filters)

    async def keep_newest(self, count: int, server: str, *, kind: str, by: str = "") -> None:
        """Delete the older credentials of a server and kind.

        Args:
            count: How many are kept.
            server: Their server; empty for logins in progress.
            kind: Their kind.
            by: Only those that this caller started; empty: all.
        """
        rows = await self.all(server, kind=kind)
        if by:
            rows = [row for row in rows if row.details.get("by") == by]
        rows.sort(key=lambda row: str(row.details["updated_at"]), reverse=True)
        for row in rows[count:]:
            await self.delete(
                server=server, subject=row.key.subject, kind=kind, project_id=row.key.project_id
            )

    async def pop(self, key: CredentialKey) -> DecryptedCredential | None:
        """Return and delete a credential that can be used once; None if it no longer exists."""
        credential = await self.get(key, fresh=True)
        self._cache.pop(key, None)
        if credential is None:
            return None
        # Of two simultaneous calls, only one deletes the row.
        gone = await self._rows.delete(
            key.server, subject=key.subject, kind=key.kind, project_id=key.project_id
        )
        return credential if gone else None

    async def lease(self, key: CredentialKey, by: str, until: str, now: str) -> bool:
        """Acquire the lease to renew a credential; return whether it was acquired."""
        return await self._rows.lease(key, by, until, now)

    def remember_unsaved(
        self, key: CredentialKey, secret: Json, before: DecryptedCredential
    ) -> None:
        """Cache a credential that could not be saved, so that it lasts as long as the process."""
        self._cache[key] = DecryptedCredential(
            key=key, version=before.version, secret=secret, details=before.details
        )

    def forget(self) -> None:
        """Clear the cache."""
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
