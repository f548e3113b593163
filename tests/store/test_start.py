"""Gateways that start while their store cannot be opened."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate import open_app
from toolgate.errors import StoreError
from toolgate.settings import AuditSettings, Settings, StoreSettings
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json, ServerSpec

WIRES = {"small": FakeUpstream({"ping": lambda _: text_result("pong")})}


def settings_for(path: Path, **more: Any) -> Settings:
    server = ServerSpec(name="small", kind="inprocess", options={"target": "unused"})
    store = StoreSettings(url=f"sqlite:///{path.as_posix()}")
    return Settings(servers=(server,), store=store, **more)


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A store whose folder is a file for now."""
    (tmp_path / "data").write_text("in the way")
    return tmp_path / "data" / "toolgate.db"


class Unblocking(logging.Handler):
    """Makes room for the store as soon as the log says that it is missed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        if "retrying" in record.getMessage():
            self.folder.unlink()


async def test_a_store_that_comes_back_is_waited_for(blocked: Path) -> None:
    log, handler = logging.getLogger("toolgate.app.factories.storage"), Unblocking(blocked.parent)
    log.addHandler(handler)
    try:
        async with open_app(settings_for(blocked), store_wait_s=HANG_S, wires=WIRES) as app:
            assert app.store_problem == ""
    finally:
        log.removeHandler(handler)
    assert blocked.is_file()


async def test_without_a_store_an_open_gateway_runs_and_says_that_nothing_is_kept(
    blocked: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(blocked)
    async with open_app(settings, store_wait_s=0.01, wait_s=HANG_S, wires=WIRES) as app:
        params: Json = {"name": "small__ping", "arguments": {}}
        assert "isError" not in await app.gateway.call(Caller.local(), params, None)
        assert str(blocked) in app.store_problem
    assert "nothing is kept" in caplog.text
    assert blocked.parent.read_text() == "in the way"


async def test_without_a_store_a_closed_gateway_does_not_start(blocked: Path) -> None:
    settings = settings_for(blocked, audit=AuditSettings(on_failure="closed"))
    with pytest.raises(StoreError):
        async with open_app(settings, store_wait_s=0.01):
            pass


async def test_a_command_does_not_run_without_its_store(blocked: Path) -> None:
    with pytest.raises(StoreError):
        async with open_app(settings_for(blocked)):
            pass


async def test_a_broken_store_is_not_replaced_by_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.db"
    path.write_bytes(b"This was a database once." * 1000)
    with anyio.fail_after(HANG_S), pytest.raises(StoreError) as caught:
        async with open_app(settings_for(path), store_wait_s=10 * HANG_S):
            pass
    assert not caught.value.retryable


async def test_a_store_of_no_bytes_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "toolgate.db"
    path.touch()
    async with open_app(settings_for(path), wires=WIRES):
        assert "the store file was empty" in caplog.text
    caplog.clear()
    async with open_app(settings_for(path), wires=WIRES):
        assert "the store file was empty" not in caplog.text


async def test_a_store_of_no_bytes_that_cannot_be_opened_is_not_called_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each retry said so, and a disk that is full leaves such a file."""
    path = tmp_path / "toolgate.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError):
            async with open_app(settings_for(path)):
                pass
    assert path.stat().st_size == 0
    assert "the store file was empty" not in caplog.text
