"""Signs the audit chain, and verifies that no record was changed or removed.

Each record carries a hash of itself and of the previous record. Changing, removing or moving a
record therefore means recomputing all later hashes. The end of the chain is signed regularly with
a key that is not in the database, so recomputed hashes are detected as well.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread

from toolgate.audit.restores import AuditRestore, BranchStart, branch_starts, expected_anchors
from toolgate.base.ids import utc_now
from toolgate.errors import StoreError
from toolgate.store import AuditAnchor, AuditChainEnds, AuditChainLink, Store
from toolgate.types import AuditRecord, Json

log = logging.getLogger(__name__)

# Records checked per query (chosen).
_PAGE: Final = 5_000
# Faults that are reported; a broken chain can have one per record (chosen).
_MOST_FAULTS: Final = 100


class ChainSigner:
    """Signs anchors: positions of the chain."""

    def __init__(
        self, key: bytes, *, file: Path | None = None, max_bytes: int = 16 * 2**20
    ) -> None:
        """Create a signer.

        Args:
            key: 32 secret bytes that are not in the database.
            file: A second copy of the anchors, one per line; deleting them from the database does
                not delete them here.
            max_bytes: Largest size of that file. When it is full, anchors of records that a
                clean-up removed go first, then every other anchor of the older half.
        """
        self._key = key
        self._file = file
        self._max_bytes = max_bytes
        self.key_id = hashlib.sha256(b"toolgate audit" + key).hexdigest()[:16]

    def sign_end(self, seq: int, chain: str) -> AuditAnchor:
        """Sign the end of the chain."""
        return self._signed("end", seq, chain)

    def sign_cut(self, seq: int, chain: str) -> AuditAnchor:
        """Sign the last record that a clean-up will remove."""
        return self._signed("cut", seq, chain)

    def sign_restored(self, seq: int, chain: str, start: BranchStart) -> AuditAnchor:
        """Sign the end of the chain after a restore.

        Earlier signatures of records that are not in the backup are no longer expected.
        """
        # If the clock went back, earlier signatures must still not end up on the new branch.
        latest = max((anchor.at for anchor in self.written()), default="")
        return self._signed("restored", seq, chain, at=max(utc_now(), latest), detail=start.text())

    def _signed(
        self,
        kind: Literal["end", "cut", "restored"],
        seq: int,
        chain: str,
        *,
        at: str = "",
        detail: str = "",
    ) -> AuditAnchor:
        at = at or utc_now()
        anchor = AuditAnchor(
            seq=seq,
            kind=kind,
            chain=chain,
            at=at,
            key_id=self.key_id,
            signature=self._mac(kind, seq, chain, at, detail),
            detail=detail,
        )
        self._write(anchor)
        return anchor

    def is_mine(self, anchor: AuditAnchor) -> bool:
        """Whether an anchor was signed with this key, or claims so."""
        return anchor.key_id == self.key_id

    def is_genuine(self, anchor: AuditAnchor) -> bool:
        """Whether the signature of an anchor is valid."""
        expected = self._mac(anchor.kind, anchor.seq, anchor.chain, anchor.at, anchor.detail)
        # Constant time: the comparison must not reveal the signature byte by byte.
        return self.is_mine(anchor) and hmac.compare_digest(expected, anchor.signature)

    def written(self) -> list[AuditAnchor]:
        """The anchors in the file; malformed lines are skipped."""
        if self._file is None or not self._file.is_file():
            return []
        anchors: list[AuditAnchor] = []
        for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                anchors.append(AuditAnchor(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return anchors

    def _mac(self, kind: str, seq: int, chain: str, at: str, detail: str) -> str:
        # The kind is signed too, or the end of a chain could be passed off as a clean-up.
        text = f"{kind}\n{seq}\n{chain}\n{at}" + (f"\n{detail}" if detail else "")
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _write(self, anchor: AuditAnchor) -> None:
        if self._file is None:
            return
        try:
            with self._file.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(asdict(anchor)) + "\n")
                is_full = opened.tell() > self._max_bytes
            if is_full:
                self._thin_out(self._file)
        except OSError as error:
            log.warning("signed place not written", extra={"error": str(error)})

    def _thin_out(self, file: Path) -> None:
        """Keep the file within its size limit; each remaining anchor proves all earlier records."""
        anchors = self.written()
        foreign = {anchor for anchor in anchors if not self.is_genuine(anchor)}
        expected = expected_anchors(set(anchors) - foreign) | foreign
        cut = max((anchor.seq for anchor in expected if anchor.kind == "cut"), default=0)
        remaining = [anchor for anchor in anchors if anchor in expected and anchor.seq >= cut]
        half = len(remaining) // 2
        thinned = {*remaining[:half:2], *remaining[half:]}
        # Restores say which signatures in the database no longer count.
        remaining = [anchor for anchor in anchors if anchor in thinned or anchor.kind == "restored"]
        text = "".join(json.dumps(asdict(anchor)) + "\n" for anchor in remaining)
        # Replaced in one step, so a crash leaves the old file or the new one.
        partial = file.with_name(f"{file.name}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o600)
        partial.replace(file)


@dataclass(frozen=True, kw_only=True)
class ChainFault:
    """A difference between the audit log and what was written."""

    kind: str
    """`changed`, `missing`, `added`, `rewritten`, `cut` or `forged`."""

    seq: int
    """Position in the chain, from 1; 0 if it has none."""

    record_id: str
    """Id of the record; empty if it no longer exists."""

    text: str
    """Description for people."""


@dataclass(frozen=True, kw_only=True)
class AuditVerification:
    """The result of verifying the audit log."""

    records: int
    """Number of records checked."""

    first: int
    """Position of the first record; 0 if there is none."""

    last: int
    """Position of the last record."""

    unchained: int
    """Number of records from before the chain existed, which nothing proves."""

    signed: int
    """Number of valid anchors."""

    signed_through: int
    """The last position that an anchor proves; 0: none."""

    foreign: int
    """Number of anchors signed with other keys, which cannot be verified here."""

    restores: tuple[AuditRestore, ...]
    """The backups that this audit log was restored from, newest first."""

    faults: tuple[ChainFault, ...]
    """What is wrong, at most 100 faults."""

    @property
    def is_verifiable(self) -> bool:
        """Whether the key matches: anchors of other keys prove nothing."""
        return self.signed > 0 or not self.foreign

    @property
    def is_whole(self) -> bool:
        """Whether the log could be verified and has no faults."""
        return self.is_verifiable and not self.faults

    def as_json(self) -> Json:
        """The form that REST and the command line return."""
        return asdict(self) | {"verifiable": self.is_verifiable, "whole": self.is_whole}


async def verify_audit(store: Store, sealer: ChainSigner) -> AuditVerification:
    """Verify all records and anchors, while others may write.

    Raises:
        StoreError: The store cannot be read.
    """
    while True:
        # A clean-up during the walk looks like missing records, so the walk is repeated.
        began = await store.audit.chain_ends()
        result = await _verify(store, sealer, began)
        if (await store.audit.chain_ends()).removed_through == began.removed_through:
            return result
        # A clean-up removed records before they were checked.


async def _verify(store: Store, sealer: ChainSigner, ends: AuditChainEnds) -> AuditVerification:
    # The file counts too: anchors deleted from the database are still expected.
    anchors = {anchor for anchor in sealer.written() if sealer.is_genuine(anchor)}
    stored = await store.audit.anchors()
    check = _Check(ends.removed_through, ends.removed_chain)
    for anchor in stored:
        if sealer.is_mine(anchor) and not sealer.is_genuine(anchor):
            check.fault("forged", anchor.seq, "", "The signature of this place is not genuine.")
        elif sealer.is_mine(anchor):
            anchors.add(anchor)
    # They are shown like all others, so whoever can only insert could still invent records.
    for record_id, at in ends.added:
        check.fault("added", 0, record_id, f"Record {record_id} of {at} is not in the chain.")
    check.expect(expected_anchors(anchors))
    while links := await store.audit.chain_links(check.seq, limit=_PAGE):
        await anyio.to_thread.run_sync(check.go, links)
    # Records written during the check are not part of it.
    check.end(ends.last, ends.last_chain)
    return AuditVerification(
        records=check.records,
        first=check.first,
        last=check.seq,
        unchained=ends.unchained,
        signed=check.signed,
        signed_through=check.signed_through,
        foreign=sum(not sealer.is_mine(anchor) for anchor in stored),
        restores=tuple(start.restore for start in branch_starts(anchors)),
        faults=tuple(sorted(check.faults, key=lambda fault: fault.seq)[:_MOST_FAULTS]),
    )


class _Check:
    """The state of a walk along the chain."""

    def __init__(self, removed_through: int, removed_chain: str) -> None:
        self.seq = removed_through
        self.first = 0
        self.records = 0
        self.signed = 0
        self.signed_through = 0
        self.faults: list[ChainFault] = []
        self._chain = removed_chain
        self._removed = (removed_through, removed_chain)
        self._anchors: dict[int, list[AuditAnchor]] = {}

    def fault(self, kind: str, seq: int, record_id: str, text: str) -> None:
        """Add a fault."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(ChainFault(kind=kind, seq=seq, record_id=record_id, text=text))

    def expect(self, anchors: Iterable[AuditAnchor]) -> None:
        """Add anchors that the walk has to reach."""
        through, chain = self._removed
        covered = through == 0
        for anchor in anchors:
            self._anchors.setdefault(anchor.seq, []).append(anchor)
            # A clean-up signs the last record that it removes before it removes any.
            covered = covered or (anchor.kind == "cut" and anchor.seq >= through)
        if not covered:
            text = f"Records up to {through} were removed, and no signature says by a clean-up."
            self.fault("cut", through, "", text)
        elif any(anchor.chain != chain for anchor in self._anchors.get(through, ())):
            self.fault("cut", through, "", "The beginning is not what a clean-up has left.")

    def go(self, links: list[AuditChainLink]) -> None:
        """Check records, in their order."""
        for link in links:
            self._step(link)

    def _step(self, link: AuditChainLink) -> None:
        self.first = self.first or link.seq
        self.records += 1
        gap = link.seq - self.seq - 1
        if gap:
            text = f"{gap} records are missing" if gap > 1 else "One record is missing"
            where = f"after place {self.seq}" if self.seq else "at the beginning"
            self.fault("missing", self.seq + 1, "", f"{text} {where}.")
        else:
            expected = hashlib.sha256(self._chain.encode() + link.content).hexdigest()
            if expected != link.chain:
                self.fault(
                    "changed",
                    link.seq,
                    link.record_id,
                    f"Record {link.record_id} of {link.at} is not what was written, or stands in"
                    " another place.",
                )
        for anchor in self._anchors.get(link.seq, ()):
            if anchor.chain == link.chain:
                self.signed, self.signed_through = self.signed + 1, link.seq
            else:
                self.fault(
                    "rewritten",
                    link.seq,
                    link.record_id,
                    f"What was signed at {anchor.at} is another chain: records up to here were"
                    " written anew.",
                )
        self.seq, self._chain = link.seq, link.chain

    def end(self, last: int, chain: str) -> None:
        """Check that the chain ends where it should."""
        # An anchor beyond the last record proves that records at the end were deleted.
        expected = max([last, *self._anchors])
        if self.seq < expected:
            lost = expected - self.seq
            text = f"The last {lost} records are" if lost > 1 else "The last record is"
            self.fault("missing", self.seq + 1, "", f"{text} missing.")
        elif self.seq == last and self._chain != chain and self.records:
            self.fault("rewritten", last, "", "The end is not what the store noted of it.")


async def sign_restore(
    store: Store, sealer: ChainSigner, *, file: str, record: AuditRecord
) -> AuditAnchor:
    """Record that the store was restored from a backup, and sign the start of the new branch.

    Otherwise the audit log would seem cut off: the missing records had been signed.

    Args:
        store: The restored store, opened.
        sealer: Signs the new branch.
        file: Name of the backup.
        record: The audit record of the restore.

    Raises:
        StoreError: The store cannot be read or written.
    """
    ends = await store.audit.chain_ends()
    anchors = [anchor for anchor in await store.audit.anchors() if sealer.is_genuine(anchor)]
    parent = max((anchor.at for anchor in anchors if anchor.kind == "restored"), default="")
    await store.audit.append([record])
    last = await store.audit.chain_ends()
    start = BranchStart.make(file=file, through=ends.last, parent=parent)
    anchor = sealer.sign_restored(last.last, last.last_chain, start)
    await store.audit.save_anchor(anchor)
    return anchor


async def sign_chain_end(store: Store, sealer: ChainSigner, *, after: int) -> int:
    """Sign the end of the chain unless it is at `after`. Returns the signed position.

    Raises:
        StoreError: The store cannot be read or written.
    """
    ends = await store.audit.chain_ends()
    if ends.last in {0, after}:  # below `after` it was restored
        return ends.last
    await store.audit.save_anchor(sealer.sign_end(ends.last, ends.last_chain))
    return ends.last


async def sign_periodically(
    store: Store,
    sealer: ChainSigner,
    *,
    every_s: float = 300.0,
    may_sign: Callable[[], bool] = lambda: True,
) -> None:
    """Sign the end of the chain every `every_s` seconds if that is allowed, until cancelled."""
    through = 0
    while True:
        await anyio.sleep(every_s)
        # A signature of records that are lost with the memory would call them removed.
        if not may_sign():
            continue
        try:
            through = await sign_chain_end(store, sealer, after=through)
        except StoreError as error:
            log.warning("audit not signed", extra={"reason": str(error)})
