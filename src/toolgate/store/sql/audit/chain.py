"""The audit chain in SQL: each record has a hash of itself and its predecessor.

`audit_state` has one row: the end of the chain, which every writer of this database locks in
turn, and its start after older records were deleted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, delete, func, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.database import Insert
from toolgate.store.repositories.audit import AuditChainEnds, AuditChainLink

CHAINED: Final = (
    "record_id",
    "at",
    "action",
    "phase",
    "parent_id",
    "project_id",
    "caller_id",
    "client",
    "conversation",
    "request_id",
    "server",
    "target",
    "digest",
    "query",
    "status",
    "duration_ms",
    "request_bytes",
    "response_bytes",
    "arguments_sha256",
    "response_sha256",
    "detail",
)
"""Columns covered by the hash, in this order, for ever: new columns need a new kind of record."""

_MOST_ADDED: Final = 100
"""Records outside the chain that are listed (chosen)."""

_DURATION: Final = CHAINED.index("duration_ms")

_BEGINNING: Final[Mapping[str, Any]] = {
    "state_id": 1,
    "seq": 0,
    "chain": "",
    "removed_seq": 0,
    "removed_chain": "",
}


def following(before: str, content: bytes) -> str:
    """Return the hash of a record: SHA-256, in hex, of the previous hash and the record."""
    return hashlib.sha256(before.encode() + content).hexdigest()


def linked(
    connection: Connection, insert: Insert, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the new rows with their positions in the chain, and move its end.

    Other writers wait for the end of the transaction.
    """
    state, audit = tables.audit_state, tables.audit
    query = select(state.c.seq, state.c.chain).with_for_update()
    end = connection.execute(query).first()
    if end is None:  # nothing was ever written, unless another process is doing it now
        connection.execute(insert(state).on_conflict_do_nothing(), _BEGINNING)
        end = connection.execute(query).one()
    seq, chain = end
    ids = [row["record_id"] for row in rows]
    existing = select(audit.c.record_id).where(audit.c.record_id.in_(ids))
    seen = set(connection.execute(existing).scalars())
    new: list[dict[str, Any]] = []
    for row in rows:
        if row["record_id"] in seen:
            continue
        seen.add(row["record_id"])
        seq, chain = seq + 1, following(chain, _content(row))
        new.append(row | {"seq": seq, "chain": chain})
    if new:
        connection.execute(update(state).values(seq=seq, chain=chain))
    return new


def ends(connection: Connection) -> AuditChainEnds:
    """Return the start and end of the chain."""
    state = tables.audit_state
    row = connection.execute(select(state)).mappings().first() or _BEGINNING
    audit = tables.audit
    first = select(func.min(audit.c.at)).where(audit.c.seq > row["removed_seq"])
    is_older = audit.c.seq.is_(None) & (audit.c.at < func.coalesce(first.scalar_subquery(), "~"))
    unchained = select(func.count()).select_from(audit).where(is_older)
    is_outside = audit.c.seq.is_(None) | (audit.c.seq <= row["removed_seq"])
    added = select(audit.c.record_id, audit.c.at).where(is_outside & ~is_older)
    return AuditChainEnds(
        removed_through=row["removed_seq"],
        removed_chain=row["removed_chain"],
        last=row["seq"],
        last_chain=row["chain"],
        unchained=connection.execute(unchained).scalar_one(),
        added=tuple(
            (str(record_id), str(at))
            for record_id, at in connection.execute(added.order_by(audit.c.at).limit(_MOST_ADDED))
        ),
    )


def links(connection: Connection, after: int, limit: int) -> list[AuditChainLink]:
    """Return records in the order of the chain."""
    audit = tables.audit
    columns = [audit.c.seq, audit.c.chain, *(audit.c[name] for name in CHAINED)]
    query = select(*columns).where(audit.c.seq > after).order_by(audit.c.seq).limit(limit)
    return [_link(row) for row in connection.execute(query)]


def stored_bytes(connection: Connection) -> int:
    """Estimate the size of the audit log in bytes."""
    size = func.coalesce(func.sum(tables.audit.c.size_bytes), 0)
    return int(connection.execute(select(size)).scalar_one())


def last_doomed(connection: Connection, *, oldest: str, max_bytes: int) -> tuple[int, str] | None:
    """Return number and hash of the last record that is too old or exceeds the size limit."""
    audit = tables.audit
    young = select(func.min(audit.c.seq)).where(audit.c.at >= oldest)
    keep_from: int | None = connection.execute(young).scalar_one()
    through = ends(connection).last if keep_from is None else keep_from - 1
    excess = stored_bytes(connection) - max_bytes
    if excess > 0:
        sizes = select(audit.c.seq, audit.c.size_bytes).where(audit.c.seq.is_not(None))
        for seq, size_bytes in connection.execute(sizes.order_by(audit.c.seq)):
            if excess <= 0:
                break
            through, excess = max(through, seq), excess - size_bytes
    query = select(audit.c.seq, audit.c.chain).where(audit.c.seq <= through)
    last = connection.execute(query.order_by(audit.c.seq.desc()).limit(1)).first()
    return None if last is None else (last.seq, last.chain)


def cut(connection: Connection, through: int, limit: int) -> int:
    """Delete some of the records up to a number, oldest first. Returns how many.

    Their signed positions are deleted, too, except the one at the end of what is deleted, and
    those of restores, which record the signatures of a chain that no longer exists.
    """
    state, audit = tables.audit_state, tables.audit
    doomed = select(audit.c.seq, audit.c.chain).where(audit.c.seq <= through)
    rows = connection.execute(doomed.order_by(audit.c.seq).limit(limit)).all()
    if not rows:
        return 0
    last = rows[-1]
    connection.execute(update(state).values(removed_seq=last.seq, removed_chain=last.chain))
    connection.execute(delete(audit).where(audit.c.seq <= last.seq))
    signed = tables.audit_anchors
    outdated = signed.c.seq < last.seq, signed.c.kind != "restored"
    connection.execute(delete(signed).where(*outdated))
    return len(rows)


def _content(row: Mapping[str, Any]) -> bytes:
    return _bytes([row[name] for name in CHAINED])


def _link(row: Row[Any]) -> AuditChainLink:
    seq, chain, *values = tuple(row)
    record_id, at = values[:2]
    return AuditChainLink(seq=seq, chain=chain, record_id=record_id, at=at, content=_bytes(values))


def _bytes(values: list[Any]) -> bytes:
    if values[_DURATION] is not None:
        values[_DURATION] = float(values[_DURATION])  # as databases return it
    return orjson.dumps(values)
