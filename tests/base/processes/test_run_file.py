"""Run files: how commands find a gateway on the same machine."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolgate.base.processes import run_file

STORE = "sqlite:////data/toolgate.db"
CONFIG = ("/work/a/toolgate.toml",)


def announce(
    folder: Path,
    store: str = STORE,
    configuration: tuple[str, ...] = CONFIG,
    runs_in: str = "",
) -> run_file.RunFile:
    return run_file.write(
        folder,
        address="http://127.0.0.1:7420",
        store=store,
        configuration=configuration,
        started_at="2026-07-28T09:00:00.000Z",
        version="1",
        runs_in=runs_in,
    )


def test_a_running_gateway_is_found_by_its_store(tmp_path: Path) -> None:
    run = announce(tmp_path)
    assert run_file.find(tmp_path, STORE, CONFIG) == run
    assert run_file.find(tmp_path, None, CONFIG) == run
    assert run_file.find(tmp_path, "sqlite:////data/other.db", CONFIG) is None


@pytest.mark.parametrize(
    "other", [("",), ("/work/b/toolgate.toml",), (*CONFIG, "/work/a/more.json")], ids=len
)
def test_a_gateway_of_another_configuration_is_not_taken_for_it(
    other: tuple[str, ...], tmp_path: Path
) -> None:
    run = announce(tmp_path)
    assert run_file.find(tmp_path, STORE, other) is None
    assert run_file.find(tmp_path, None, other) is None
    assert run_file.find_all(tmp_path, STORE) == [run]


def test_a_gateway_without_configuration_is_found_by_those_who_have_none(tmp_path: Path) -> None:
    run = announce(tmp_path, configuration=("",))
    assert run_file.find(tmp_path, STORE, ("",)) == run


def test_a_gateway_is_found_by_the_folder_where_it_runs_if_that_matters(tmp_path: Path) -> None:
    run = announce(tmp_path, runs_in="/work/a")

    assert run_file.find(tmp_path, STORE, CONFIG, runs_in="/work/a") == run
    assert run_file.find(tmp_path, STORE, CONFIG, runs_in="/work/b") is None
    assert run_file.find(tmp_path, STORE, CONFIG) == run


def test_a_removed_announcement_is_found_no_more_and_may_be_removed_twice(tmp_path: Path) -> None:
    run = announce(tmp_path)
    run_file.remove(run)
    run_file.remove(run)
    assert run_file.find(tmp_path, STORE, CONFIG) is None


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are those of POSIX")
def test_only_its_user_may_read_the_key(tmp_path: Path) -> None:
    run = announce(tmp_path / "data" / "run")
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600
    for folder in (tmp_path / "data" / "run", tmp_path / "data"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_every_gateway_has_a_key_of_its_own(tmp_path: Path) -> None:
    assert announce(tmp_path).key != announce(tmp_path).key


@pytest.mark.skipif(sys.platform == "win32", reason="whether a process lives is not asked there")
def test_the_file_of_a_dead_process_is_removed_by_whoever_finds_it(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    run = announce(tmp_path)
    left_over = run.path.with_name(run.path.name.replace(f"-{os.getpid()}.", f"-{ended.pid}."))
    left_over.write_text(
        run.path.read_text("utf-8").replace(f'"pid": {os.getpid()}', f'"pid": {ended.pid}'), "utf-8"
    )
    run.path.unlink()
    assert run_file.read_all(tmp_path)
    assert run_file.find(tmp_path, STORE, CONFIG) is None
    assert not left_over.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x"}', '{"address": 1', "\x00"])
def test_a_damaged_run_file_is_ignored(tmp_path: Path, text: str) -> None:
    run = announce(tmp_path)
    run.path.write_text(text, "utf-8")
    assert run_file.find(tmp_path, STORE, CONFIG) is None
    assert run_file.read_all(tmp_path) == []


def test_a_password_of_the_store_is_not_written(tmp_path: Path) -> None:
    url = "postgresql://toolgate:hunter2@db.example.org/toolgate"
    run = announce(tmp_path, store=url)
    assert "hunter2" not in run.path.read_text("utf-8")
    assert run_file.find(tmp_path, url, CONFIG) == run
    assert run_file.without_password(STORE) == STORE


def test_a_folder_that_does_not_exist_has_no_gateways(tmp_path: Path) -> None:
    assert run_file.read_all(tmp_path / "absent") == []


def test_the_digest_of_files_tells_whether_one_of_them_has_changed(tmp_path: Path) -> None:
    config, absent = tmp_path / "toolgate.toml", tmp_path / "more.json"
    config.write_text("mode = 'all'", encoding="utf-8")
    files = (str(config), str(absent))
    run = run_file.write(
        tmp_path / "run",
        address="http://127.0.0.1:7420",
        store=STORE,
        configuration=CONFIG,
        started_at="2026-07-28T09:00:00.000Z",
        version="1",
        files=files,
    )
    found = run_file.find(tmp_path / "run", STORE, CONFIG)
    assert found == run
    assert run.files == files
    assert run.digest == run_file.digest_of(files)
    absent.write_text("{}", encoding="utf-8")
    assert run.digest != run_file.digest_of(files)
    absent.unlink()
    config.write_text("mode = 'code'", encoding="utf-8")
    assert run.digest != run_file.digest_of(files)
