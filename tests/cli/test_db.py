"""`toolgate db`: the store is upgraded, checked, backed up and restored by command."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Run
from tests.postgres import PostgresServer
from toolgate.cli import run
from toolgate.settings import data_dir, default_store_url
from toolgate.store import AuditFilter, make_store
from toolgate.store.engine.tables import REVISIONS
from toolgate.testing.contracts.store import sample_record
from toolgate.types import AuditRecord

Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def db(capsys: pytest.CaptureFixture[str]) -> Answer:
    """`db("check")`: exit status, standard output, standard error."""

    def answer(*argv: str) -> tuple[int, str, str]:
        status = run(["db", *argv])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return answer


def seed(*records: AuditRecord, url: str = "") -> None:
    async def write() -> None:
        store = make_store(url or default_store_url())
        await store.open()
        await store.audit.append(records)
        await store.close()

    anyio.run(write)


def kept(url: str = "") -> list[AuditRecord]:
    """The records, but those that a restore adds."""

    async def read() -> list[AuditRecord]:
        store = make_store(url or default_store_url())
        await store.open()
        found = await store.audit.select(AuditFilter())
        await store.close()
        return [record for record in found if record.action != "db_restore"]

    return anyio.run(read)


def test_the_real_command_backs_up_and_restores(program: Run, tmp_path: Path) -> None:
    """Through the entry point, as a person types it."""
    seed(sample_record(1))
    backup = tmp_path / "backup.db"

    made = program("db", "backup", str(backup))
    seed(sample_record(2))
    restored = program("db", "restore", str(backup))

    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith(f"Wrote {backup}, ")
    assert restored.returncode == 0
    assert restored.stdout == f"Restored 3 rows from {backup}.\n"
    assert restored.stderr.startswith(f"Backup of the previous content: {data_dir() / 'backups'}")
    assert kept() == [sample_record(1)]


@pytest.mark.parametrize("words", [["check"], ["backup", "there.db"]], ids=lambda words: words[0])
def test_without_a_store_nothing_is_found_and_none_is_made(
    words: list[str], db: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    status, out, err = db(*words)

    assert (status, out) == (3, "")
    assert err == (
        f"There is no store yet at {default_store_url()}. Toolgate creates it at the first start.\n"
    )
    assert not data_dir().exists()
    assert not Path("there.db").exists()


def test_a_check_shows_schema_and_rows(db: Answer) -> None:
    seed(sample_record(1))

    status, out, _ = db("check", "--json")

    answer = json.loads(out)
    assert status == 0
    assert answer["store"] == default_store_url()
    assert (answer["schema"], answer["problems"]) == (REVISIONS[-1], [])
    assert answer["sizes"].pop("total") > 0
    assert {name: rows for name, rows in answer["sizes"].items() if rows} == {
        "projects": 1,
        "audit": 1,
        "audit_state": 1,
    }
    status, out, _ = db("check")
    assert status == 0
    assert out.startswith(
        f"The store {default_store_url()} is intact, with schema {REVISIONS[-1]}.\n"
    )
    assert "audit\t1\n" in out


def test_a_check_that_finds_problems_fails(db: Answer) -> None:
    seed()
    with closing(sqlite3.connect(data_dir() / "toolgate.db")) as file:
        file.execute("DROP TABLE results")

    assert db("check") == (1, "results is missing.\n", "")
    status, out, _ = db("check", "--json")
    assert status == 1
    assert json.loads(out)["problems"] == ["results is missing."]


def test_an_upgrade_says_what_it_did(db: Answer) -> None:
    status, out, _ = db("upgrade")
    assert (status, out) == (
        0,
        f"The store {default_store_url()} was created with schema {REVISIONS[-1]}.\n",
    )

    status, out, _ = db("upgrade", "--json")
    assert json.loads(out) == {
        "store": default_store_url(),
        "before": REVISIONS[-1],
        "after": REVISIONS[-1],
        "copy": None,
    }
    assert db("upgrade")[1].endswith(f"is up to date, with schema {REVISIONS[-1]}.\n")


def test_a_newer_store_is_refused_as_a_wrong_configuration(db: Answer) -> None:
    seed()
    with closing(sqlite3.connect(data_dir() / "toolgate.db")) as file:
        file.execute("UPDATE toolgate_schema SET version_num = '9999'")
        file.commit()

    status, out, err = db("upgrade")

    assert (status, out) == (2, "")
    assert "has schema '9999', made by a newer Toolgate." in err
    assert err.count("\n") == 1


def test_a_file_that_exists_is_replaced_only_by_force(db: Answer, tmp_path: Path) -> None:
    seed(sample_record(1))
    file = tmp_path / "backup.db"
    file.write_text("mine", encoding="utf-8")

    status, out, err = db("backup", str(file))
    assert (status, out) == (2, "")
    assert err == (
        f"toolgate: The file {file} exists. Choose another one, or replace it with --force.\n"
    )
    assert file.read_text(encoding="utf-8") == "mine"
    assert db("backup", str(tmp_path))[0] == 2

    status, out, _ = db("backup", str(file), "--force", "--json")
    assert status == 0
    assert json.loads(out) == {
        "store": default_store_url(),
        "file": str(file),
        "bytes": file.stat().st_size,
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_restore_names_its_rows_and_keeps_what_was_there(db: Answer, tmp_path: Path) -> None:
    seed(sample_record(1))
    db("backup", str(tmp_path / "backup.db"))
    seed(sample_record(2))

    status, out, _ = db("restore", str(tmp_path / "backup.db"), "--json")

    answer = json.loads(out)
    assert status == 0
    assert (answer["file"], answer["rows"]["audit"]) == (str(tmp_path / "backup.db"), 1)
    db("restore", answer["before"])
    assert kept() == [sample_record(2), sample_record(1)]


def test_what_is_no_backup_is_refused_and_nothing_is_left_behind(
    db: Answer, tmp_path: Path
) -> None:
    seed(sample_record(1))
    (tmp_path / "letter.txt").write_text("Dear store, " * 100, encoding="utf-8")

    for name in ("letter.txt", "absent.db"):
        status, out, err = db("restore", str(tmp_path / name))
        assert (status, out) == (1, "")
        assert err.startswith("toolgate: The ")
        assert name in err
    assert kept() == [sample_record(1)]
    assert list((data_dir() / "backups").iterdir()) == []


def test_a_restore_into_nothing_makes_the_store(db: Answer, tmp_path: Path) -> None:
    """A new machine."""
    seed(sample_record(1), url=f"sqlite:///{tmp_path / 'old.db'}")

    status, out, err = db("restore", str(tmp_path / "old.db"))

    assert (status, err) == (0, "")
    assert out == f"Restored 3 rows from {tmp_path / 'old.db'}.\n"
    assert kept() == [sample_record(1)]


@pytest.mark.real
def test_a_store_moves_from_sqlite_to_postgres(
    db: Answer, tmp_path: Path, postgres: PostgresServer
) -> None:
    """As somebody does who grows past one machine."""
    seed(sample_record(1), sample_record(2))
    db("backup", str(tmp_path / "backup.db"))
    url = postgres.new_database()
    config = tmp_path / "toolgate.toml"
    config.write_text(f'[store]\nurl = "{url}"\n', encoding="utf-8")

    status, out, err = db("restore", str(tmp_path / "backup.db"), "--config", str(config))

    assert (status, err) == (0, "")
    assert out == f"Restored 4 rows from {tmp_path / 'backup.db'}.\n"
    assert kept(url) == [sample_record(2), sample_record(1)]
    assert db("check", "--config", str(config))[0] == 0
    assert db("backup", str(tmp_path / "back.db"), "--config", str(config))[0] == 0
