"""`toolgate serve` started against a store that is full, read-only or not there yet."""

import json
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.forked import Toolgate
from tests.limits import HANG_S
from tests.outages import ledger_server
from tests.outages.load import Load, until_metric
from tests.postgres import PostgresServer
from tests.real.processes import (
    AnyProcess,
    RunningGateway,
    ended,
    environment,
    gateway,
    isolated,
    wait_until,
)
from tests.server.http_gateway import headers_for, modern
from toolgate.app.app import open_app
from toolgate.audit import ChainSigner, verify_audit
from toolgate.settings import Settings, StoreSettings
from toolgate.store import AuditFilter, make_store
from toolgate.types import Caller

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes rights from root"),
]

RETRYING = "the store cannot be opened, retrying"
WITHOUT_OVERRIDE = """
import ctypes
CAP_DAC_OVERRIDE = 1  # linux/capability.h: root may write to read-only files
library, version_3 = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0)
sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice, for 64 bits
assert library.capget(version_3, sets) == 0
sets[0] &= ~(1 << CAP_DAC_OVERRIDE)
assert library.capset(version_3, sets) == 0
"""
SMALL_FILES = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))  # SQLite's index of its log fits
"""
# For outages that do not end: what happens after the wait does not depend on its length.
SHORT_WAIT = """
from toolgate.cli.serving import _process
assert _process._STORE_WAIT_S > 2
_process._STORE_WAIT_S = 2.0
"""


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A store that cannot be opened until `end` is called."""

    url: str
    reason: str
    """Words of the log that say what is wrong."""
    end: Callable[[psutil.Process], None]
    prelude: str = ""
    """Code that runs in the process before the gateway."""


def full(folder: Path, _: pytest.FixtureRequest | None) -> Outage:
    """A disk that takes no file of more than 40 KB; the database has to be made."""

    def end(process: psutil.Process) -> None:
        _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))

    url = f"sqlite:///{folder / 'toolgate.db'}"
    return Outage(url=url, reason="full|disk I/O", end=end, prelude=SMALL_FILES)


def read_only(folder: Path, _: pytest.FixtureRequest) -> Outage:
    """A database that may only be read, and has not been served from yet."""
    path = folder / "toolgate.db"
    url = f"sqlite:///{path}"

    async def create() -> None:
        store = make_store(url)
        await store.open()
        await store.close()

    anyio.run(create)
    return unwritable(path)


def unwritable(path: Path) -> Outage:
    """A database that may only be read until the outage ends."""
    path.chmod(0o444)

    def end(_: psutil.Process) -> None:
        for file in path.parent.glob(f"{path.name}*"):  # the log of SQLite has the same rights
            file.chmod(0o600)

    return Outage(url=f"sqlite:///{path}", reason="readonly", end=end, prelude=WITHOUT_OVERRIDE)


def unreachable(folder: Path, request: pytest.FixtureRequest) -> Outage:
    """A PostgreSQL whose socket is not there yet."""
    server: PostgresServer = request.getfixturevalue("postgres")
    link = folder / "pg"
    url = server.new_database().replace(server.folder, str(link))
    return Outage(
        url=url,
        reason="No such file|could not connect|connection",
        end=lambda _: link.symlink_to(server.folder),
    )


OUTAGES = pytest.mark.parametrize("outage", [full, read_only, unreachable])


def starting(
    folder: Path, outage: Outage, on_failure: str = "open", **more: Any
) -> AbstractContextManager[RunningGateway]:
    """A gateway that starts while its store has an outage."""
    command = [ledger_server.__file__, str(folder / "ledger.txt")]
    servers = {"ledger": {"command": sys.executable, "args": command}}
    settings: dict[str, Any] = {
        "mode": "all",
        "auth": more.pop("auth", "local"),
        "authn": more.pop("authn", {}),
        "store": {"url": outage.url},
        "audit": {"on_failure": on_failure},
        "project": {"web": {"read_only": True}},
    }
    return gateway(folder, servers, settings, prelude=outage.prelude, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "gateway"
    path.mkdir()
    return path


def log_has(log: Path, text: str) -> bool | None:
    return True if text in log.read_text("utf-8", errors="replace") else None


@OUTAGES
@pytest.mark.parametrize("on_failure", ["open", "closed"])
async def test_a_store_that_becomes_usable_is_opened(
    outage: Callable[[Path, pytest.FixtureRequest], Outage],
    on_failure: str,
    folder: Path,
    request: pytest.FixtureRequest,
) -> None:
    store = await anyio.to_thread.run_sync(outage, folder, request)

    def repair(process: AnyProcess, log: Path) -> None:
        wait_until(lambda: log_has(log, RETRYING), within_s=HANG_S, what="a retry")
        store.end(psutil.Process(process.pid))

    with starting(folder, store, on_failure, on_start=repair) as running:
        running.wait_ready("ledger")
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(5)
        log = running.log.read_text("utf-8")
        await until_metric(running, "toolgate_store_up", 1)
    assert re.search(store.reason, log, re.IGNORECASE), log
    assert "nothing is kept" not in log
    opened = make_store(store.url)
    await opened.open()
    try:
        assert {token.name for token in await opened.access.tokens()} >= set(load.tokens)
    finally:
        await opened.close()


@OUTAGES
async def test_with_open_a_gateway_without_its_store_runs_and_says_so(
    outage: Callable[[Path, pytest.FixtureRequest], Outage],
    folder: Path,
    request: pytest.FixtureRequest,
) -> None:
    store = await anyio.to_thread.run_sync(outage, folder, request)
    store = replace(store, prelude=SHORT_WAIT + store.prelude)
    with starting(folder, store) as running:
        running.wait_ready("ledger")
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(5)
        assert load.refused == []
        assert running.metric("toolgate_store_up") == 0
        wait_until(
            lambda: log_has(running.log, "WARNING: nothing is kept until the store works again"),
            within_s=HANG_S,
            what="a warning",
        )
    assert (folder / "ledger.txt").read_text().count("\n") >= 5


async def test_a_gateway_without_its_store_starts_anew_once_it_can_be_opened(
    folder: Path, postgres: PostgresServer
) -> None:
    """On the same port and with the tokens of the store; somebody had to restart it.

    It is not the port of its public address, and a configuration that is wrong by now is not used.
    """
    link = folder / "pg"
    link.symlink_to(postgres.folder)
    url = postgres.new_database().replace(postgres.folder, str(link))
    async with open_app(Settings(store=StoreSettings(url=url))) as app:
        created = await app.gateway.admin.create_token(Caller.local(), "anna", roles=("admin",))
    link.unlink()
    store = Outage(url=url, reason="", end=lambda _: None, prelude=SHORT_WAIT)
    public = {"resource": "https://gateway.example/mcp"}
    with starting(folder, store, auth="required", authn=public) as running:
        running.wait_ready("ledger")
        with pytest.raises(urllib.error.HTTPError) as refused:
            await anyio.to_thread.run_sync(call_as, running, created.secret, "before")
        assert refused.value.code == 401
        running.config.write_text("mode = 1", "utf-8")
        link.symlink_to(postgres.folder)

        def called() -> str | None:
            try:
                return call_as(running, created.secret, "after")
            except (urllib.error.URLError, ConnectionError):
                return None

        def call() -> str:
            return wait_until(called, within_s=HANG_S, what="a gateway with its store")

        assert "after" in await anyio.to_thread.run_sync(call)
        log = running.log.read_text("utf-8")
    assert "the store can be used again" in log
    assert "Traceback" not in log
    assert (folder / "ledger.txt").read_text().split() == ["after"]


async def test_a_new_store_is_kept_once_its_disk_has_room(folder: Path) -> None:
    """What was made in memory meanwhile is in it, and its audit log verifies."""
    store = full(folder, None)
    store = replace(store, prelude=SHORT_WAIT + store.prelude)
    with starting(folder, store, auth="required") as running:
        running.wait_ready("ledger")
        body = json.dumps({"name": "anna", "allow": ["ledger"]}).encode()
        headers = {"X-Toolgate-Key": running.run.key, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{running.run.address}/api/v1/tokens", body, headers)
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            token = json.load(answer)["token"]
        assert "before" in await anyio.to_thread.run_sync(call_as, running, token, "before")
        assert running.metric("toolgate_store_up") == 0
        store.end(psutil.Process(running.run.pid))
        await until_metric(running, "toolgate_store_up", 1)
        assert "after" in await anyio.to_thread.run_sync(call_as, running, token, "after")
    reopened = make_store(store.url)
    await reopened.open()
    try:
        calls = await reopened.audit.select(AuditFilter(action="call", limit=100))
        verified = await verify_audit(reopened, ChainSigner(bytes(32)))
    finally:
        await reopened.close()
    assert [record.phase for record in calls].count("outcome") == 2
    assert not verified.faults
    assert verified.last > 2
    with starting(folder, replace(store, prelude=""), auth="required") as running:
        running.wait_ready("ledger")
        assert "again" in await anyio.to_thread.run_sync(call_as, running, token, "again")


@OUTAGES
def test_with_closed_a_gateway_without_its_store_ends_with_the_reason(
    outage: Callable[[Path, pytest.FixtureRequest], Outage],
    folder: Path,
    request: pytest.FixtureRequest,
) -> None:
    store = outage(folder, request)
    config = folder / "toolgate.toml"
    config.write_text(
        f'[store]\nurl = "{store.url}"\n[audit]\non_failure = "closed"\n[serve]\nport = 0\n'
    )
    log = folder / "gateway.log"
    with log.open("wb") as output:
        process = Toolgate(
            ("serve", "--config", str(config)),
            env=environment(isolated(folder)),
            cwd=folder,
            output=output.fileno(),
            prelude=SHORT_WAIT + store.prelude,
        )
    with ended(process):
        status = process.wait(HANG_S)
    said = log.read_text("utf-8")
    assert status not in {0, -signal.SIGKILL, -signal.SIGXFSZ}, said
    assert re.search(store.reason, said, re.IGNORECASE), said
    assert "Traceback" not in said


def call_as(running: RunningGateway, token: str, entry: str) -> str:
    """What a call of the ledger answers to the owner of a token."""
    message = modern("tools/call", {"name": "ledger__book", "arguments": {"entry": entry}})
    request = urllib.request.Request(
        running.url,
        json.dumps(message).encode(),
        {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
            **headers_for(message),
        },
    )
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return answer.read().decode()


def disk_full(path: Path) -> Outage:
    return replace(full(path.parent, None), url=f"sqlite:///{path}")


def disk_without_room(path: Path) -> Outage:
    """A disk that has not even room for the index of SQLite's log."""
    store = disk_full(path)
    return replace(store, prelude=store.prelude.replace("40_000", "20_000"))


@pytest.mark.parametrize("outage", [disk_full, disk_without_room, unwritable])
async def test_a_store_in_use_that_cannot_be_written_is_served_at_once_and_written_later(
    outage: Callable[[Path], Outage], folder: Path
) -> None:
    """Its tokens keep working: a store in memory would know none of them."""
    path = folder / "toolgate.db"
    healthy = Outage(url=f"sqlite:///{path}", reason="", end=lambda _: None)
    with starting(folder, healthy, auth="required") as running:
        running.wait_ready("ledger")
        body = json.dumps({"name": "anna", "allow": ["ledger"]}).encode()
        headers = {"X-Toolgate-Key": running.run.key, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{running.run.address}/api/v1/tokens", body, headers)
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            token = json.load(answer)["token"]
    store = outage(path)
    with starting(folder, store, auth="required") as running:
        running.wait_ready("ledger")
        while not await anyio.to_thread.run_sync(running.metric, "toolgate_audit_failing"):
            answer = await anyio.to_thread.run_sync(call_as, running, token, "while broken")
            assert "while broken" in answer
        store.end(psutil.Process(running.run.pid))
        await until_metric(running, "toolgate_audit_failing", 0)
        await until_metric(running, "toolgate_audit_pending", 0)
        log = running.log.read_text("utf-8")
        assert running.metric("toolgate_audit_dropped_total") == 0
    assert "nothing is kept" not in log
    reopened = make_store(store.url)
    await reopened.open()
    try:
        records = await reopened.audit.select(AuditFilter(action="call", limit=100))
    finally:
        await reopened.close()
    assert {record.phase for record in records} == {"intent", "outcome"}
