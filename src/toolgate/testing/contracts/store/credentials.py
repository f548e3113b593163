"""The store contract for encrypted credentials, the keys that wrap them, and signing secrets."""

from dataclasses import replace

import pytest
from anyio import create_task_group

from toolgate.store import (
    Store,
    WrappedKey,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, minute_at, sample_credential


@pytest.mark.anyio
class CredentialContract(StoreFixtures):
    """Encrypted credentials, the keys that wrap them, and signing secrets."""

    async def test_credentials_come_back_and_change_only_over_the_version_that_was_read(
        self, store: Store, other: Store
    ) -> None:
        """Two processes that renew a login must not both succeed."""
        credential = sample_credential("user:" + HOSTILE)
        assert await store.credentials.save(credential, over=0)
        assert not await other.credentials.save(credential, over=0)
        stored = await other.credentials.get(credential.key)
        assert stored is not None
        assert (stored.key, stored.sealed, stored.version) == (credential.key, credential.sealed, 1)
        assert await other.credentials.save(replace(credential, sealed=b"new"), over=1)
        assert not await store.credentials.save(replace(credential, sealed=b"late"), over=1)
        assert [row.sealed for row in await store.credentials.select("git")] == [b"new"]
        assert await store.credentials.get(sample_credential("user:nobody").key) is None

    async def test_a_credential_is_renewed_by_one_until_it_is_written_or_too_late(
        self, store: Store, other: Store
    ) -> None:
        """The lease of a dead process expires."""
        credential = sample_credential("user:anna")
        await store.credentials.save(credential)
        assert await store.credentials.lease(credential.key, "a", minute_at(5), minute_at(0))
        assert await store.credentials.lease(credential.key, "a", minute_at(6), minute_at(0))
        assert not await other.credentials.lease(credential.key, "b", minute_at(9), minute_at(1))
        assert await other.credentials.lease(credential.key, "b", minute_at(9), minute_at(7))
        await store.credentials.save(credential)
        assert await store.credentials.lease(credential.key, "a", minute_at(9), minute_at(0))

    async def test_credentials_are_removed_by_what_is_given(self, store: Store) -> None:
        """Each deletion counts as a change for other processes."""
        for subject in ("user:anna", "user:ben"):
            await store.credentials.save(sample_credential(subject))
        before = await store.access.version()
        assert await store.credentials.delete("git", subject="user:anna", kind="login") == 1
        assert await store.access.version() > before
        assert await store.credentials.delete("git", before=minute_at(0)) == 0
        assert await store.credentials.delete("git") == 1
        assert await store.credentials.select() == []

    async def test_the_first_key_is_made_once_and_keys_in_use_stay(
        self, store: Store, other: Store
    ) -> None:
        """Without its key, encrypted data would be lost."""
        first, second = (
            WrappedKey(key_id=name, wrapped_by="w", wrapped=b"x", created_at=minute_at(0))
            for name in ("k1", "k2")
        )
        assert await store.credentials.save_keys((first,), only_first=True)
        assert not await other.credentials.save_keys((second,), only_first=True)
        await store.credentials.save_keys((replace(first, wrapped_by="v"), second))
        assert [(key.key_id, key.wrapped_by) for key in await other.credentials.keys()] == [
            ("k1", "v"),
            ("k2", "w"),
        ]
        await store.credentials.save(sample_credential("user:anna"))
        assert await store.credentials.delete_keys(("k1", "k2")) == 1
        assert [key.key_id for key in await store.credentials.keys()] == ["k1"]

    async def test_a_secret_is_the_same_for_all_from_its_first_use(
        self, store: Store, other: Store
    ) -> None:
        """Even if two processes ask for it first at the same time."""
        secrets: list[bytes] = []

        async def ask(asked: Store) -> None:
            secrets.append(await asked.secret("state"))

        async with create_task_group() as group:
            for asked in (store, other, store, other):
                group.start_soon(ask, asked)

        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32
        assert await store.secret("handles") not in secrets
