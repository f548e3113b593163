"""`toolgate audit verify` after a restore, without the key, and with signatures kept outside."""

import sqlite3
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Command, Run
from toolgate.audit import ChainSigner, sign_chain_end
from toolgate.base.ids import new_id
from toolgate.settings import audit_files, audit_key, data_dir, default_store_url
from toolgate.store import make_store
from toolgate.testing.contracts.store import sample_record

_MOVED = "UPDATE audit_anchors SET at = '2031-01-01T00:00:00.000Z' WHERE kind = 'restored'"


def write(count: int) -> None:
    """Records as a gateway writes and signs them."""

    async def write_and_sign() -> None:
        store = make_store(default_store_url())
        await store.open()
        await store.audit.append([sample_record(1, record_id=new_id()) for _ in range(count)])
        await sign_chain_end(store, ChainSigner(audit_key(), file=audit_files()[1]), after=0)
        await store.close()

    anyio.run(write_and_sign)


def execute(statement: str) -> None:
    """What somebody does who can write to the store."""
    with sqlite3.connect(data_dir() / "toolgate.db") as connection:
        assert connection.execute(statement).rowcount > 0


def test_the_audit_can_be_verified_after_a_restore(
    folder: Path, toolgate: Run, tmp_path: Path
) -> None:
    """Regression: signatures of records after the backup made a restore look like a theft."""
    backup = tmp_path / "backup.db"
    assert toolgate("call", "small:echo", "--arg", "text=1").returncode == 0
    assert toolgate("db", "backup", str(backup)).returncode == 0
    write(5)
    assert toolgate("db", "restore", str(backup)).returncode == 0
    restored = toolgate("audit", "verify")
    assert toolgate("call", "small:echo", "--arg", "text=2").returncode == 0
    continued = toolgate("audit", "verify")

    assert restored.returncode == 0, restored.stderr
    assert restored.stdout.startswith(f"Restored from {backup} at ")
    assert continued.returncode == 0, continued.stderr
    assert continued.stdout.startswith(f"Restored from {backup} at ")
    assert "no changes" in continued.stdout


def test_restoring_an_older_branch_can_be_verified(command: Command, tmp_path: Path) -> None:
    """A backup from before an earlier restore: both abandoned branches were signed."""
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    write(1)
    command("db", "backup", str(first))
    write(3)
    command("db", "backup", str(second))
    command("db", "restore", str(first))
    write(4)
    command("db", "restore", str(second))
    write(1)

    done = command("audit", "verify", "--json")

    answer = done.json
    assert (done.status, answer["whole"]) == (0, True)
    assert [restore["file"] for restore in answer["restores"]] == [str(second)]


def test_a_restored_backup_whose_records_were_changed_is_found_out(
    command: Command, tmp_path: Path
) -> None:
    """A restore excuses records that are gone, not records that are others."""
    backup = tmp_path / "backup.db"
    write(2)
    command("db", "backup", str(backup))
    with sqlite3.connect(backup) as connection:
        connection.execute("UPDATE audit SET target = 'small:other' WHERE seq = 1")
    command("db", "restore", str(backup))

    done = command("audit", "verify")

    assert done.status == 1
    assert done.out.splitlines()[1].startswith("changed: ")


@pytest.mark.parametrize(
    "statement",
    [
        # A record cut off, and a restore claimed without the key, or an older one moved.
        "INSERT INTO audit_anchors SELECT seq - 1, 'restored', chain, '2031-01-01T00:00:00.000Z',"
        ' key_id, signature, \'{"file": "x", "through": 1, "parent": ""}\''
        " FROM audit_anchors WHERE kind = 'end' ORDER BY seq DESC LIMIT 1",
        _MOVED,
    ],
    ids=["claimed", "moved"],
)
def test_nobody_without_the_key_can_claim_a_restore(
    statement: str, command: Command, tmp_path: Path
) -> None:
    """Who can write to the store removes records and says that they went with a restore."""
    backup = tmp_path / "backup.db"
    write(2)
    command("db", "backup", str(backup))
    command("db", "restore", str(backup))
    write(3)
    execute(statement)
    execute("DELETE FROM audit WHERE seq > (SELECT max(seq) - 2 FROM audit)")
    execute(
        "UPDATE audit_state SET seq = (SELECT max(seq) FROM audit),"
        " chain = (SELECT chain FROM audit ORDER BY seq DESC LIMIT 1)"
    )

    done = command("audit", "verify")

    assert done.status == 1
    kinds = {line.partition(":")[0] for line in done.out.splitlines()}
    assert {"forged", "missing"} <= kinds


def test_a_process_that_runs_on_after_a_restore_signs_the_restored_chain(
    command: Command, tmp_path: Path
) -> None:
    """Its last signature was beyond the end of the backup."""
    backup = tmp_path / "backup.db"
    write(2)
    command("db", "backup", str(backup))
    write(8)
    command("db", "restore", str(backup))
    write(1)

    done = command("audit", "verify", "--json")

    assert (done.json["faults"], done.status) == ([], 0)
    assert done.json["signed_through"] == done.json["last"] == 4


def test_without_its_key_the_audit_cannot_be_verified(command: Command) -> None:
    """Regression: a fresh key was made, and the audit passed for intact."""
    write(1)
    key, _ = audit_files()
    original = key.read_text("utf-8")
    key.unlink()

    missing = command("audit", "verify")
    as_json = command("audit", "verify", "--json")
    is_made = key.exists()
    key.write_text("ab" * 32, "utf-8")
    other = command("audit", "verify")
    key.write_text(original, "utf-8")
    restored = command("audit", "verify")

    assert (missing.status, is_made) == (1, False)
    assert f"The audit log cannot be verified: its key {key} is missing." in missing.err
    assert (as_json.status, as_json.json["verifiable"], as_json.json["whole"]) == (1, False, False)
    assert other.status == 1
    assert "The audit log cannot be verified: its key is another." in other.err
    assert restored.status == 0
