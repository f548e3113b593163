"""Opens the store, the key that signs what is handed out, and the audit."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from toolgate.app.audit_factory import INSTALLATION_KEY, AuditParts, open_audit
from toolgate.base.signing import Signer
from toolgate.settings import Settings, default_store_url
from toolgate.store import Store, make_store

__all__ = ["Storage", "open_storage"]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where a gateway keeps things."""

    store: Store
    """Everything relational."""

    signer: Signer
    """Signs handles, cursors and links; all replicas of a store have the same key."""

    audit: AuditParts
    """Writes and signs the audit."""


async def open_storage(stack: AsyncExitStack, settings: Settings) -> Storage:
    """The storage of a gateway; closing the stack closes it.

    Raises:
        SettingError: An audit destination cannot be used.
        StoreError: The store cannot be opened.
    """
    store = make_store(settings.store.url or default_store_url())
    await store.open()
    stack.push_async_callback(store.close)
    signer = Signer(await store.secret(INSTALLATION_KEY))
    return Storage(store=store, signer=signer, audit=await open_audit(stack, settings, store))
