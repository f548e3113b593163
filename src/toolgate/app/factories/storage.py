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
from toolgate.store import RelocatableStore, Store, make_store
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec

log = logging.getLogger(__name__)

_IN_MEMORY = "sqlite://"
_RETRY_S = 1.0
"""Seconds between two attempts to open the store (chosen)."""
_AGAIN_S = 5.0
"""Seconds between two attempts while a gateway runs without its store (chosen)."""


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

    outage: "StoreOutage"
    """Whether the configured store cannot be used, so that nothing is kept."""


class StoreOutage:
    """A configured store that could not be opened at the start."""

    def __init__(self, url: str) -> None:
        """Start without an outage of the store at `url`."""
        self._url = url
        self.reason = ""
        """Why nothing is kept; empty if the store can be used."""
        self.moves_to_disk = False
        """Whether what is in memory is moved to the store once that works."""
        self.needs_restart = anyio.Event()
        """Set when the store can be used by a gateway that starts anew."""

    async def end(self, store: Store) -> None:
        """Use the store as soon as that works.

        What began in memory moves to an empty disk. A store with contents of its own has other
        tokens, servers and keys, so the gateway has to start anew with it.
        """
        while self.reason and not self.needs_restart.is_set():
            await anyio.sleep(_AGAIN_S)
            if self.moves_to_disk and isinstance(store, RelocatableStore):
                await self._move_to_disk(store)
            elif await self._can_open():
                log.warning("the store can be used again, by a gateway that starts anew")
                self.needs_restart.set()

    async def _move_to_disk(self, store: RelocatableStore) -> None:
        try:
            await store.move_to_disk()
        except StoreError as error:
            if not error.retryable:
                self.reason, self.moves_to_disk = error.full_text, False
        else:
            self.reason = ""
            log.warning("the store can be written: what was in memory is in it now")

    async def _can_open(self) -> bool:
        try:
            store, _ = await _open(self._url, 0.0)
        except StoreError:
            return False
        await store.close()
        return True


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
    url = settings.store.url or default_store_url()
    outage = StoreOutage(url)
    try:
        store, key = await _open(url, wait_s)
    except StoreError as error:
        if not wait_s or not error.retryable or settings.audit.on_failure == "closed":
            raise
        outage.reason = error.full_text
        begun = await _begin_in_memory(url)
        outage.moves_to_disk = begun is not None
        log.critical(
            "the store cannot be opened: running without one, nothing is kept; retrying",
            extra={"error": outage.reason},
        )
        if begun is None:
            settings = replace(settings, store=StoreSettings(url=_IN_MEMORY))
            begun = await _open(_IN_MEMORY, 0.0)
        store, key = begun
    stack.push_async_callback(store.close)
    vectors = VectorStores(store)
    stack.push_async_callback(vectors.aclose)
    return Storage(
        store=store,
        vectors=vectors,
        signer=Signer(key),
        audit=open_audit(stack, settings, store, key, may_sign=lambda: not outage.reason),
        outage=outage,
    )


async def _begin_in_memory(url: str) -> tuple[Store, bytes] | None:
    """Begin a new store in memory, which moves to its disk later; None if that is impossible."""
    store = make_store(url)
    try:
        if isinstance(store, RelocatableStore) and await store.open_in_memory():
            return store, await store.secret(INSTALLATION_KEY)
    except StoreError:
        log.debug("a store in memory cannot move to the disk later", exc_info=True)
    await store.close()
    return None


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
