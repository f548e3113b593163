"""Who changes, removes or moves records of the audit is found out, whatever is done to hide it."""

import hashlib
import os
import sqlite3
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolgate.audit import ChainSigner, sign_chain_end, verify_audit
from toolgate.base.ids import new_id
from toolgate.store import Retention, Store, make_store
from toolgate.store.sql.audit import chain  # the hash that a forger would compute
from toolgate.types import AuditRecord

KEY = bytes(range(32))
NOW = "2026-11-22T12:00:00.000Z"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "toolgate.db"


@pytest.fixture
async def store(file: Path) -> AsyncGenerator[Store]:
    opened = make_store(f"sqlite:///{file}")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def sealer(tmp_path: Path) -> ChainSigner:
    return ChainSigner(KEY, file=tmp_path / "audit.signed")


def records(count: int, at: str = NOW) -> list[AuditRecord]:
    return [
        AuditRecord(
            record_id=new_id(),
            at=at,
            action="call",
            target=f"a:{n}",
            duration_ms=n,
            detail={"n": n},
        )
        for n in range(count)
    ]


async def written(store: Store, sealer: ChainSigner, count: int = 10) -> None:
    await store.audit.append(records(count))
    await sign_chain_end(store, sealer, after=0)


def change(file: Path, statement: str, *values: object) -> None:
    """What somebody with the database in hand does."""
    with sqlite3.connect(file) as connection:
        assert connection.execute(statement, values).rowcount > 0


async def kinds(store: Store, sealer: ChainSigner) -> list[tuple[str, int]]:
    return [(fault.kind, fault.seq) for fault in (await verify_audit(store, sealer)).faults]


async def test_what_nobody_touched_is_whole(store: Store, sealer: ChainSigner) -> None:
    await written(store, sealer)
    await store.audit.append(records(2))
    found = await verify_audit(store, sealer)
    assert found.is_whole
    assert (found.records, found.first, found.last) == (12, 1, 12)
    assert (found.signed, found.signed_through, found.unchained, found.foreign) == (1, 10, 0, 0)


async def test_a_clock_that_jumps_breaks_no_chain(store: Store, sealer: ChainSigner) -> None:
    """The order is that of writing; times are what the clock said."""
    for at in ("2026-07-28T12:00:00.000Z", "2019-01-01T00:00:00.000Z", "2031-01-01T00:00:00.000Z"):
        await store.audit.append(records(2, at))
    await sign_chain_end(store, sealer, after=0)
    found = await verify_audit(store, sealer)
    assert (found.is_whole, found.records, found.signed_through) == (True, 6, 6)


async def test_an_empty_audit_is_whole(store: Store, sealer: ChainSigner) -> None:
    assert (await verify_audit(store, sealer)).is_whole


@pytest.mark.parametrize(
    ("statement", "values", "faults"),
    [
        ("UPDATE audit SET target = 'a:other' WHERE seq = 4", (), [("changed", 4)]),
        ("UPDATE audit SET duration_ms = duration_ms + 0.5 WHERE seq = 4", (), [("changed", 4)]),
        ("UPDATE audit SET query = '' WHERE seq = 4", (), [("changed", 4)]),
        ("UPDATE audit SET chain = ? WHERE seq = 4", ("0" * 64,), [("changed", 4), ("changed", 5)]),
        ("DELETE FROM audit WHERE seq = 4", (), [("missing", 4)]),
        ("DELETE FROM audit WHERE seq IN (4, 5)", (), [("missing", 4)]),
        ("DELETE FROM audit WHERE seq <= 2", (), [("missing", 1)]),
        ("DELETE FROM audit WHERE seq > 8", (), [("missing", 9)]),
        ("DELETE FROM audit", (), [("missing", 1)]),
        (
            "UPDATE audit SET seq = CASE seq WHEN 4 THEN -5 ELSE -4 END WHERE seq IN (4, 5)",
            (),
            [("added", 0), ("added", 0), ("missing", 4)],
        ),
    ],
)
async def test_a_changed_or_removed_record_is_named(
    store: Store,
    sealer: ChainSigner,
    file: Path,
    statement: str,
    values: tuple[Any, ...],
    faults: list[tuple[str, int]],
) -> None:
    await written(store, sealer)
    change(file, statement, *values)
    assert await kinds(store, sealer) == faults


async def test_records_that_changed_places_are_named(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    await written(store, sealer)
    for statement in (
        "UPDATE audit SET seq = -1 WHERE seq = 4",
        "UPDATE audit SET seq = 4 WHERE seq = 5",
        "UPDATE audit SET seq = 5 WHERE seq = -1",
    ):
        change(file, statement)
    found = await kinds(store, sealer)
    assert {seq for _, seq in found} >= {4, 5}
    assert {kind for kind, _ in found} == {"changed"}


async def rewrite(store: Store, file: Path) -> None:
    """Change a record and compute the whole chain anew, as somebody who knows all of this does."""
    change(file, "UPDATE audit SET target = 'a:other' WHERE seq = 4")
    before = ""
    for link in await store.audit.chain_links(0, limit=100):
        before = chain.following(before, link.content)
        change(file, "UPDATE audit SET chain = ? WHERE seq = ?", before, link.seq)
    change(file, "UPDATE audit_state SET chain = ?", before)


async def test_a_chain_that_was_written_anew_is_found_by_what_was_signed(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    await written(store, sealer)
    await rewrite(store, file)
    assert await kinds(store, sealer) == [("rewritten", 10)]


async def test_signatures_that_were_removed_or_forged_help_nobody(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    """The places that were signed are written to a file too, and nobody else has the key."""
    await written(store, sealer)
    await rewrite(store, file)
    change(file, "DELETE FROM audit_anchors")
    assert await kinds(store, sealer) == [("rewritten", 10)]
    (last,) = await store.audit.chain_links(9, limit=1)
    forged = replace(ChainSigner(b"x" * 32).sign_end(10, last.chain), key_id=sealer.key_id)
    await store.audit.save_anchor(forged)
    assert await kinds(store, sealer) == [("forged", 10), ("rewritten", 10)]


async def test_an_end_that_was_cut_off_is_found_by_what_was_signed(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    await written(store, sealer)
    (eighth,) = await store.audit.chain_links(7, limit=1)
    change(file, "DELETE FROM audit WHERE seq > 8")
    change(file, "UPDATE audit_state SET seq = 8, chain = ?", eighth.chain)
    change(file, "DELETE FROM audit_anchors")
    assert await kinds(store, sealer) == [("missing", 9)]


async def test_a_clean_up_keeps_the_chain_and_a_theft_does_not_look_like_one(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    await store.audit.append(records(4, at="2026-01-01T00:00:00.000Z"))
    await sign_chain_end(store, sealer, after=0)
    await store.audit.append(records(2, at="2026-01-01T00:00:00.000Z"))
    await written(store, sealer, 6)
    pruned = await store.prune(Retention(audit_days=30), now=NOW, sign=sealer.sign_cut)
    assert pruned.audit_records == 6
    found = await verify_audit(store, sealer)
    assert found.is_whole
    assert (found.first, found.last, found.records) == (7, 12, 6)
    signed = [(anchor.kind, anchor.seq) for anchor in await store.audit.anchors()]
    assert signed == [("cut", 6), ("end", 12)]

    (ninth,) = await store.audit.chain_links(8, limit=1)
    change(file, "DELETE FROM audit WHERE seq <= 9")
    change(file, "UPDATE audit_state SET removed_seq = 9, removed_chain = ?", ninth.chain)
    assert await kinds(store, sealer) == [("cut", 9)]


async def test_the_size_limit_takes_the_oldest_and_keeps_the_chain(
    store: Store, sealer: ChainSigner
) -> None:
    await written(store, sealer, 200)
    pruned = await store.prune(Retention(audit_max_bytes=20_000), now=NOW, sign=sealer.sign_cut)
    found = await verify_audit(store, sealer)
    assert found.is_whole
    assert found.records == 200 - pruned.audit_records > 0
    assert found.first == pruned.audit_records + 1


async def test_a_record_that_is_written_twice_is_one_link(
    store: Store, sealer: ChainSigner
) -> None:
    """A writer that does not know whether its batch arrived sends it again."""
    batch = records(3)
    await store.audit.append(batch)
    await store.audit.append([*batch, *records(1)])
    found = await verify_audit(store, sealer)
    assert found.is_whole
    assert found.records == 4


@pytest.mark.parametrize("place", ["NULL", "-5", "0"])
async def test_a_record_that_was_inserted_is_named(
    store: Store, sealer: ChainSigner, file: Path, place: str
) -> None:
    await written(store, sealer)
    columns = ", ".join(name for name in chain.CHAINED if name != "record_id")
    change(
        file,
        f"INSERT INTO audit (record_id, size_bytes, seq, chain, {columns})"
        f" SELECT 'forged', 1, {place}, NULL, {columns} FROM audit WHERE seq = 4",
    )
    found = await verify_audit(store, sealer)
    assert [(fault.kind, fault.record_id) for fault in found.faults] == [("added", "forged")]
    assert (found.is_whole, found.unchained) == (False, 0)


async def test_records_from_before_the_chain_are_counted(
    store: Store, sealer: ChainSigner, file: Path
) -> None:
    await written(store, sealer, 2)
    change(file, "UPDATE audit SET seq = NULL, chain = NULL")
    change(file, "UPDATE audit_state SET seq = 0, chain = ''")
    found = await verify_audit(store, ChainSigner(os.urandom(32)))
    assert (found.faults, found.unchained, found.foreign) == ((), 2, 1)


def test_the_hash_is_what_the_documentation_says() -> None:
    assert chain.following("", b"x") == hashlib.sha256(b"x").hexdigest()
    assert chain.following("ab", b"x") == hashlib.sha256(b"abx").hexdigest()


async def test_the_file_of_signed_places_stays_within_its_size_and_proves_on(
    store: Store, file: Path, tmp_path: Path
) -> None:
    signed = tmp_path / "small.signed"
    sealer = ChainSigner(KEY, file=signed, max_bytes=4_000)
    through = 0
    for _ in range(60):
        await store.audit.append(records(1))
        through = await sign_chain_end(store, sealer, after=through)
    assert signed.stat().st_size <= 4_400
    places = [anchor.seq for anchor in sealer.written()]
    assert places == sorted(places)
    assert places[-1] == 60
    assert places[0] == 1
    change(file, "DELETE FROM audit_anchors")
    change(file, "DELETE FROM audit WHERE seq > 40")
    assert "missing" in {kind for kind, _ in await kinds(store, sealer)}
