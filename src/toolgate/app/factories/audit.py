"""Builds what writes and signs the audit log of a gateway."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from toolgate.audit import (
    AuditWriter,
    ChainSigner,
    FanoutRecorder,
    Recorder,
    Sink,
    sign_chain_end,
    sign_periodically,
    sinks_of,
)
from toolgate.errors import SettingError, StoreError
from toolgate.settings import (
    AuditSettings,
    Settings,
    audit_files,
    audit_key,
    default_store_url,
    run_dir,
)
from toolgate.store import Store

log = logging.getLogger(__name__)

INSTALLATION_KEY = "installation"
"""Name of the secret shared by all gateways of a store."""


@dataclass(frozen=True, kw_only=True)
class AuditParts:
    """The parts that write and sign the audit log."""

    recorder: FanoutRecorder
    """Writes the records."""

    signer: ChainSigner
    """Signs their chain."""

    writer_id: str
    """Id of this process in its intents; empty if no other process could close them."""


def open_audit(
    stack: AsyncExitStack,
    settings: Settings,
    store: Store,
    installation_key: bytes,
    *,
    may_sign: Callable[[], bool],
) -> AuditParts:
    """Open the audit log of a gateway; closing the stack writes, signs and closes it.

    Args:
        stack: Closes what is opened.
        settings: The destinations.
        store: The store.
        installation_key: Key for signatures where no other can be kept.
        may_sign: Whether the store is on disk. Signatures of records that are lost with the memory
            would call them removed.

    Raises:
        SettingError: A destination is missing or does not exist, or the key is invalid.
        MissingExtraError: The library of a destination is not installed.
    """
    signer = _signer(settings, installation_key)
    recorder = _recorder(settings.audit, store)
    is_memory = _is_memory(settings)
    writer = AuditWriter(store, recorder, folder=None if is_memory else run_dir())
    is_kept = settings.audit.enabled and "store" in settings.audit.sinks and not is_memory
    if is_kept:
        stack.push_async_callback(writer.stop)
    stack.push_async_callback(_sign_at_the_end, store, recorder, signer, may_sign)
    stack.push_async_callback(
        _end, asyncio.create_task(sign_periodically(store, signer, may_sign=may_sign))
    )
    if is_kept:
        stack.push_async_callback(_end, asyncio.create_task(writer.run()))
    writer_id = writer.writer_id if is_kept else ""
    return AuditParts(recorder=recorder, signer=signer, writer_id=writer_id)


def _is_memory(settings: Settings) -> bool:
    return (settings.store.url or default_store_url()) == "sqlite://"


def _signer(settings: Settings, installation_key: bytes) -> ChainSigner:
    """The signer of the audit log; a store in memory ends before anyone can change it."""
    if _is_memory(settings):
        return ChainSigner(installation_key)
    try:
        max_bytes = settings.audit.signed_max_mb * 2**20
        return ChainSigner(audit_key(), file=audit_files()[1], max_bytes=max_bytes)
    except SettingError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        # A container may have no writable folder: signatures then prove nothing against someone
        # with access to the database, which is logged.
        log.warning("audit is signed with a key from the store", extra={"reason": str(error)})
        return ChainSigner(installation_key)


def _recorder(settings: AuditSettings, store: Store) -> FanoutRecorder:
    """The recorder for all destinations of the audit log."""
    places: list[Sink] = [store.audit] if "store" in settings.sinks else []
    places += sinks_of(settings)
    is_on = settings.enabled and bool(places)
    return FanoutRecorder([Recorder(place, enabled=is_on) for place in places or [store.audit]])


async def _sign_at_the_end(
    store: Store, recorder: FanoutRecorder, signer: ChainSigner, may_sign: Callable[[], bool]
) -> None:
    await recorder.aclose()
    if recorder.status().written and may_sign():
        try:
            await sign_chain_end(store, signer, after=0)
        except StoreError as error:
            log.warning("audit not signed", extra={"reason": str(error)})


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
