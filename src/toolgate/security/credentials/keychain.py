"""The keys that encrypt credentials, and their rotation.

Each credential is encrypted with a key from the store, which is itself encrypted with the key of
the installation, which is not in the store. During a rotation of both, stored credentials remain
readable at every moment: the old key is removed last, when nothing needs it any more.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio.to_thread

from toolgate.base.ids import new_id, utc_now
from toolgate.base.lazy_loading import load
from toolgate.errors import SettingError
from toolgate.security.credentials.key_sources import KeySource, MasterKey, new_key
from toolgate.store import CredentialKey, CredentialRepository, StoredCredential, WrappedKey

# Attempts to re-encrypt a row that others change meanwhile. Chosen.
_TRIES = 20


@dataclass(frozen=True, kw_only=True)
class KeyRotation:
    """The result of a key rotation."""

    credentials: int
    """Number of credentials that were re-encrypted."""

    key_id: str
    """Id of the installation key that is needed now."""

    source: str
    """Where that key is."""


class Keychain:
    """Encrypts and decrypts stored credentials."""

    def __init__(self, rows: CredentialRepository, source: KeySource) -> None:
        self._rows = rows
        self._source = source
        self._keys: dict[str, bytes] = {}
        self._present = ""
        self._lock = anyio.Lock()
        self._cipher: Any = None

    async def seal(self, text: bytes, row_data: bytes) -> tuple[str, bytes]:
        """Return the id of the current key, and the text encrypted with it.

        Raises:
            SettingError: The key of the installation cannot be used.
            StoreError: The store cannot be read.
        """
        await self._load_cipher()
        if not self._present:
            await self._learn(make=True)
        return self._present, self._cipher.encrypt(self._keys[self._present], text, row_data)

    async def open(self, key_id: str, sealed: bytes, row_data: bytes) -> bytes:
        """Return the text that `seal` encrypted.

        Raises:
            SettingError: The key of the installation is a different one.
        """
        await self._load_cipher()
        if key_id not in self._keys:
            await self._learn(make=False)
        key = self._keys.get(key_id)
        text = None if key is None else self._cipher.decrypt(key, sealed, row_data)
        if text is None:
            raise SettingError(
                "A stored credential cannot be read: it is damaged or was moved.",
                hint="Log in to the server again: toolgate servers login NAME",
            )
        return text

    async def rotate(self, *, step: Callable[[str], None] = lambda _: None) -> KeyRotation:
        """Rotate the key of the installation, and re-encrypt everything.

        Can be interrupted at any moment and started again.

        Args:
            step: Called before each step with its name; tests use it to interrupt the rotation.

        Raises:
            SettingError: The source accepts no new key, or the old one is missing.
        """
        await self._load_cipher()
        source = self._source
        with source.exclusive():
            before = await _in_thread(source.read)
            if source.can_write:
                step("add the new key")
                masters = [new_key(), *before]
                await _in_thread(lambda: source.write(masters))
            else:
                masters = before
            if not masters:
                raise SettingError(f"{source.name} contains no key for credentials.")
            step("wrap with the new key")
            fresh = await self._wrap_all(masters)
            step("encrypt anew")
            count = await self._encrypt_anew(fresh, step)
            step("forget old keys")
            wrapped = await self._rows.keys()
            # A process that has not reloaded its keys may still use the previous one.
            await self._rows.delete_keys(tuple(key.key_id for key in wrapped[:-2]))
            needed = {key.wrapped_by for key in wrapped} | {masters[0].key_id}
            if source.can_write:
                step("remove the old key")
                remaining = [master for master in masters if master.key_id in needed]
                await _in_thread(lambda: source.write(remaining))
        return KeyRotation(credentials=count, key_id=masters[0].key_id, source=source.name)

    async def _wrap_all(self, masters: list[MasterKey]) -> str:
        """Wrap all keys, and a new one, with the first master key; return the id of the new one."""
        opened = {key.key_id: self._unwrap(key, masters) for key in await self._rows.keys()}
        fresh = new_id()
        self._keys = {**opened, fresh: secrets.token_bytes(32)}
        await self._rows.save_keys(
            tuple(self._wrap(key_id, key, masters[0]) for key_id, key in self._keys.items())
        )
        self._present = fresh
        return fresh

    async def _encrypt_anew(self, key_id: str, step: Callable[[str], None]) -> int:
        count = 0
        for row in await self._rows.select():
            current: StoredCredential | None = row
            for _ in range(_TRIES):
                if current is None or current.key_id == key_id:
                    break
                row_data = associated_data(current.key)
                text = await self.open(current.key_id, current.sealed, row_data)
                step(f"write {current.key.server}")
                sealed = self._cipher.encrypt(self._keys[key_id], text, row_data)
                changed = replace(current, key_id=key_id, sealed=sealed)
                if await self._rows.save(changed, over=current.version, quietly=True):
                    count += 1
                    break
                current = await self._rows.get(current.key)  # another process was first
        return count

    async def _learn(self, *, make: bool) -> None:
        """Load the keys of the store."""
        async with self._lock:
            wrapped = await self._rows.keys()
            if not wrapped and make:
                masters = await _in_thread(self._source.read_or_create)
                if not masters:
                    raise SettingError(f"{self._source.name} contains no key for credentials.")
                first = self._wrap(new_id(), secrets.token_bytes(32), masters[0])
                await self._rows.save_keys((first,), only_first=True)
                wrapped = await self._rows.keys()
            masters = await _in_thread(self._source.read)
            self._keys = {key.key_id: self._unwrap(key, masters) for key in wrapped}
            self._present = wrapped[-1].key_id if wrapped else ""

    def _wrap(self, key_id: str, key: bytes, master: MasterKey) -> WrappedKey:
        wrapped = self._cipher.encrypt(master.key, key, key_id.encode())
        return WrappedKey(
            key_id=key_id, wrapped_by=master.key_id, wrapped=wrapped, created_at=utc_now()
        )

    def _unwrap(self, key: WrappedKey, masters: list[MasterKey]) -> bytes:
        for master in masters:
            if master.key_id == key.wrapped_by:
                opened = self._cipher.decrypt(master.key, key.wrapped, key.key_id.encode())
                if opened is not None:
                    return opened
        raise SettingError(
            f"Credentials of servers were encrypted with another key ({key.wrapped_by}) than"
            f" {self._source.name} holds"
            f" ({', '.join(master.key_id for master in masters) or 'none'}).",
            hint="Give every process of this store the same key, or restore the old one.",
        )

    async def _load_cipher(self) -> None:
        if self._cipher is None:
            self._cipher = await load("toolgate.security.credentials.cipher")


def associated_data(key: CredentialKey) -> bytes:
    """Return what binds an encrypted credential to its row, so that rows cannot be swapped."""
    return "\0".join((key.project_id, key.server, key.subject, key.kind)).encode(
        errors="surrogatepass"
    )


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(work)
