"""Closes the intents of processes that ended before they could record an outcome.

Each process that writes the audit log has a row in the store, which it renews, and a locked file
on its machine. A killed process leaves both behind, but its lock is released and its row
expires.
"""

import hashlib
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Final

import anyio

from toolgate.audit.receipts import AuditSink
from toolgate.base.ids import utc_now
from toolgate.base.private_folder import create_private_folder
from toolgate.errors import StoreError
from toolgate.store import AuditWriterRow, Store
from toolgate.types import AuditRecord

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

_RENEW_S: Final = 15.0
"""Seconds between two renewals of the row (chosen: well below the time after which a process counts
as ended)."""
# Seconds without a renewal after which a process on another machine counts as ended. Chosen: eight
# renewals, so that neither a slow store nor clocks that differ make a running process seem ended.
_LEASE_S: Final = 120.0


class AuditWriter:
    """The registration of this process as a writer of the audit log."""

    def __init__(self, store: Store, sink: AuditSink, *, folder: Path | None) -> None:
        """Create the registration.

        Args:
            store: Holds the row.
            sink: Receives the outcomes of intents that other processes left open.
            folder: Folder of the lock files of this machine; None: only rows tell who has ended.
        """
        self.writer_id = token_hex(8)
        """Id of this process, written into each intent."""
        self._store = store
        self._sink = sink
        self._folder = folder
        self._started_at = utc_now()
        self._lock: int | None = None

    async def run(self) -> None:
        """Close the intents of ended processes, now and periodically, until cancelled."""
        while True:
            try:
                await self._renew()
                await self._close_abandoned()
            except StoreError as error:
                log.warning("open intents not closed", extra={"reason": str(error)})
            await anyio.sleep(_RENEW_S)

    async def stop(self) -> None:
        """Mark this process as ended, with all outcomes recorded."""
        try:
            await self._store.audit.remove_writer(self.writer_id)
        except StoreError as error:
            log.warning("end of the process not noted", extra={"reason": str(error)})
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            self._file_of(self.writer_id).unlink(missing_ok=True)

    async def _renew(self) -> None:
        # The lock comes first: a row whose file is not locked belongs to a process that has ended.
        if self._lock is None and self._folder is not None:
            self._lock = _locked(self._file_of(self.writer_id), create=True)
        row = AuditWriterRow(
            writer_id=self.writer_id, started_at=self._started_at, seen_at=utc_now()
        )
        await self._store.audit.save_writer(row)

    async def _close_abandoned(self) -> None:
        for row in await self._store.audit.writers():
            if row.writer_id != self.writer_id and self._has_ended(row):
                await self._close(row)

    def _has_ended(self, row: AuditWriterRow) -> bool:
        if self._folder is not None and self._file_of(row.writer_id).exists():
            lock = _locked(self._file_of(row.writer_id), create=False)
            if lock is not None:
                os.close(lock)
            return lock is not None
        return row.seen_at < utc_now(plus_s=-_LEASE_S)

    async def _close(self, row: AuditWriterRow) -> None:
        count = 0
        for intent in await self._store.audit.open_intents(row.started_at):
            if intent.detail.get("process") == row.writer_id:
                self._sink.record(_outcome_of(intent))
                count += 1
        await self._sink.wait_written()
        await self._store.audit.remove_writer(row.writer_id)
        if self._folder is not None:
            self._file_of(row.writer_id).unlink(missing_ok=True)
        if count:
            log.warning("calls of an ended process closed", extra={"calls": count})

    def _file_of(self, writer_id: str) -> Path:
        assert self._folder is not None
        return self._folder / f"audit-{writer_id}.lock"


def _outcome_of(intent: AuditRecord) -> AuditRecord:
    kept = {name: intent.detail[name] for name in ("trace_id",) if name in intent.detail}
    return replace(
        intent,
        # Every replica derives the same record id: a second write changes nothing.
        record_id=intent.record_id[:12]
        + hashlib.sha256(intent.record_id.encode()).hexdigest()[:20],
        at=utc_now(),
        phase="outcome",
        parent_id=intent.record_id,
        status="unknown",
        detail={**kept, "reason": "process ended"},
    )


def _locked(file: Path, *, create: bool) -> int | None:
    """A descriptor that holds the lock of a file; None if it is locked elsewhere or missing."""
    if sys.platform == "win32":
        return None
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    try:
        if create:
            create_private_folder(file.parent)
        descriptor = os.open(file, flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
