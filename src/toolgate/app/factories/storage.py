"""Opens the store, the signing key, and the audit log."""

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from time import monotonic

import anyio

from toolgate.app.factories.audit import INSTALLATION_KEY, AuditParts, open_audit
from toolgate.base.plugins import make
from toolgate.base.signing import Signer
from toolgate.errors import StoreError
from toolgate.settings import Settings, StoreSettings, data_dir, default_store_url
from toolgate.store import Store, make_store
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec

__all__ = ["Storage", "open_storage"]

log = logging.getLogger(__name__)

_IN_MEMORY = "sqlite://"
_RETRY_S = 1.0
"""Seconds between two attempts to open the store (chosen)."""


class VectorStores:
    """Builds each vector store once, so that tools and documents share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: list[tuple[PluginSpec, VectorStore]] = []

    def get(self, spec: PluginSpec) -> VectorStore:
        """The vector store with this name and these options.

        Raises:
            ConfigError: It does not exist, its library is not installed, or its options are
                invalid.
        """
        for made, vectors in self._made:
            if (made.name, made.options) == (spec.name, spec.options):
                return vectors
        services: dict[str, object] = {"store": self._store, "data_dir": data_dir()}
        vectors = make("vectors", VectorStore, spec, services)
        self._made.append((spec, vectors))
        return vectors

    async def aclose(self) -> None:
        """Close all vector stores."""
        for _, vectors in self._made:
            await vectors.aclose()
        self._made.clear()


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The storage of a gateway."""

    store: Store
    """The relational store."""

    vectors: VectorStores
    """Vector stores of tools and documents, by name in the settings."""

    signer: Signer
    """Signs handles, cursors and links; all replicas of a store share its key."""

    audit: AuditParts
    """Writes and signs the audit log."""

    problem: str = ""
    """Why the configured store cannot be opened, so that nothing is stored; empty if it is open."""


async def open_storage(stack: AsyncExitStack, settings: Settings, *, wait_s: float) -> Storage:
    """Open the storage of a gateway; closing the stack closes it.

    Args:
        stack: Closes what is opened.
        settings: The store, and what happens without it.
        wait_s: Seconds to retry opening the store. After that, `audit.on_failure = "open"`
            selects an empty store in memory. 0: one attempt, and never a store in memory.

    Raises:
        SettingError: A destination of the audit log cannot be used.
        StoreError: The store cannot be opened.
        StoreVersionError: Its schema must be upgraded, or is newer than this version.
    """
    problem = ""
    try:
        store, key = await _open(settings.store.url or default_store_url(), wait_s)
    except StoreError as error:
        if not wait_s or not error.retryable or settings.audit.on_failure == "closed":
            raise
        problem = error.full_text
        log.critical(
            "the store cannot be opened: running without one, nothing is kept; restart to use it",
            extra={"error": problem},
        )
        settings = replace(settings, store=StoreSettings(url=_IN_MEMORY))
        store, key = await _open(_IN_MEMORY, 0.0)
    stack.push_async_callback(store.close)
    vectors = VectorStores(store)
    stack.push_async_callback(vectors.aclose)
    return Storage(
        store=store,
        vectors=vectors,
        signer=Signer(key),
        audit=open_audit(stack, settings, store, key),
        problem=problem,
    )


async def _open(url: str, wait_s: float) -> tuple[Store, bytes]:
    """Open a store, and read or create its installation key.

    Temporary failures (an outage, a full disk, a lock) are retried.
    """
    until = monotonic() + wait_s
    is_reported = False
    while True:
        store = make_store(url)
        try:
            await store.open()
            key = await store.secret(INSTALLATION_KEY)
        except BaseException as error:
            await store.close()
            if not isinstance(error, StoreError) or not error.retryable or monotonic() >= until:
                raise
            if not is_reported:
                log.warning(
                    "the store cannot be opened, retrying",
                    extra={"error": error.full_text, "wait_s": wait_s},
                )
                is_reported = True
            await anyio.sleep(min(_RETRY_S, max(0.0, until - monotonic())))
        else:
            return store, key
