"""Where the audit is written beside the store, and what happens when it cannot be written."""

import csv
import gzip
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from tests.audit.test_chain import records
from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.audit import (
    EXPORT_FORMATS,
    FileSink,
    Receipts,
    Recorder,
    SyslogSink,
    as_ocsf,
    sinks_of,
)
from toolgate.errors import SettingError, StoreError
from toolgate.settings import AuditSettings, ProjectTable, Settings
from toolgate.store import AuditFilter, make_store
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import AuditRecord, Caller, Identity, Json

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FULL = AuditRecord(
    record_id="r1",
    at="2026-11-22T12:00:00.123Z",
    action="call",
    project_id="web",
    caller_id="token:1",
    server="git",
    target="git:push",
    status="guard",
    duration_ms=12.4,
    detail={"reason": '=1+1, "quoted"\nline'},
    query="=HYPERLINK(1)",
)


# Forms


def test_lines_of_json_and_csv_hold_all_fields() -> None:
    head, line = EXPORT_FORMATS["jsonl"]
    assert head == ""
    assert AuditRecord(**json.loads(line(FULL))) == FULL
    head, line = EXPORT_FORMATS["csv"]
    (row,) = csv.DictReader((head + line(FULL)).splitlines(keepends=True))
    assert (row["record_id"], row["duration_ms"], row["parent_id"]) == ("r1", "12.4", "")
    assert json.loads(row["detail"]) == FULL.detail
    assert row["query"] == "'=HYPERLINK(1)"  # no formula in a spreadsheet


def test_an_event_of_ocsf_has_what_its_class_requires() -> None:
    """https://schema.ocsf.io/1.3.0/classes/api_activity"""
    event = as_ocsf(FULL)
    for name in ("activity_id", "actor", "api", "category_uid", "class_uid", "metadata",
                 "severity_id", "src_endpoint", "time", "type_uid"):  # fmt: skip
        assert name in event
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert (event["class_uid"], event["status_id"], event["severity_id"]) == (6003, 2, 3)
    assert event["time"] == 1_795_348_800_123
    assert event["api"]["response"] == {"code": 1, "error": "guard"}
    assert as_ocsf(replace(FULL, status="ok"))["status_id"] == 1
    json.dumps(event)


# Files


def file_place(path: Path, **more: Any) -> FileSink:
    return FileSink(AuditSettings(sinks=("file",), file=str(path), **more))


async def test_a_file_has_a_line_for_each_record_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "log" / "audit.jsonl"
    place = file_place(path)
    written = records(3)
    await place.append(written[:2])
    await place.append(written[2:])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["record_id"] for line in lines] == [r.record_id for r in written]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_full_file_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.csv"
    place = file_place(path, file_max_mb=1, file_kept=2, file_format="csv")
    large = [replace(one, query="x" * 700_000) for one in records(4)]
    for one in large:
        await place.append([one])
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["audit.csv", "audit.csv.1", "audit.csv.2"]
    assert all(one.read_text().startswith("record_id,") for one in tmp_path.iterdir())
    assert large[3].record_id in path.read_text()
    assert large[0].record_id not in "".join(one.read_text() for one in tmp_path.iterdir())


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes: writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes_none = sys.dont_write_bytecode
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode = True  # half of it would be kept
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_none
        signal.signal(signal.SIGXFSZ, ignored)


async def test_a_full_disk_leaves_no_half_of_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    place = file_place(path)
    await place.append(records(1))
    before = path.read_bytes()
    with full_disk(len(before) + 1_000), pytest.raises(StoreError, match="cannot be written"):
        await place.append(records(100))
    assert path.read_bytes() == before
    await place.append(records(1))
    assert len(path.read_bytes().splitlines()) == 2


# Syslog


@pytest.mark.parametrize("scheme", ["udp", "tcp", "unix"])
async def test_syslog_gets_a_message_for_each_record(scheme: str, tmp_path: Path) -> None:
    family = socket.AF_UNIX if scheme == "unix" else socket.AF_INET
    kind = socket.SOCK_STREAM if scheme == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, kind) as server:
        server.settimeout(HANG_S)
        if scheme == "unix":
            path = os.path.relpath(tmp_path / "log")
            server.bind(path)
            address = f"unix:{tmp_path / 'log'}"
        else:
            server.bind(("127.0.0.1", 0))
            address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        if scheme == "tcp":
            server.listen()
        (written,) = records(1)
        await SyslogSink(address).append([written])
        if scheme == "tcp":
            with server.accept()[0] as connection:
                connection.settimeout(HANG_S)
                raw = connection.recv(65_536)
            size, _, message = raw.partition(b" ")
            assert int(size) == len(message)
        else:
            message = server.recv(65_536)
    head, _, body = message.partition(b" - {")
    assert head.startswith(b"<110>1 2026-11-22T12:00:00.000Z ")
    assert b" toolgate " in head
    assert json.loads(b"{" + body)["record_id"] == written.record_id


async def test_a_syslog_that_is_not_there_is_an_error_of_the_place() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(StoreError, match="does not accept the audit log"):
        await SyslogSink(address).append(records(1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (AuditSettings(sinks=("file",)), "audit.file does not say which"),
        (AuditSettings(sinks=("syslog",), syslog="nowhere"), "audit.syslog is 'nowhere'"),
        (AuditSettings(sinks=("syslog",), syslog="udp://host:port"), "audit.syslog is"),
    ],
)
def test_a_place_that_is_not_said_is_refused(settings: AuditSettings, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        sinks_of(settings)


async def test_opentelemetry_gets_the_records_as_logs() -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    taken: list[bytes] = []

    async def serve(stream: Any) -> None:
        async with stream:
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += await stream.receive()
            head, _, body = raw.partition(b"\r\n\r\n")
            size = next(
                int(line.split(b":")[1])
                for line in head.splitlines()
                if line.lower().startswith(b"content-length")
            )
            while len(body) < size:
                body += await stream.receive()
            taken.append(head + b"\r\n\r\n" + body)
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        settings = AuditSettings(sinks=("otel",), otel_endpoint=f"http://127.0.0.1:{port}/v1/logs")
        (place,) = sinks_of(settings)
        record = replace(FULL, detail={"trace_id": "0af7651916cd43dd8448eb211c80319c"})
        with anyio.fail_after(HANG_S):
            await place.append([record])
        tasks.cancel_scope.cancel()
    head, _, body = taken[0].partition(b"\r\n\r\n")
    if b"content-encoding: gzip" in head.lower():
        body = gzip.decompress(body)
    sent = ExportLogsServiceRequest.FromString(body)
    log = sent.resource_logs[0].scope_logs[0].log_records[0]
    assert log.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert json.loads(log.body.string_value)["record_id"] == "r1"


# Open and closed


class Broken:
    """A place that can be broken, like a store that is full or read-only."""

    def __init__(self) -> None:
        self.is_broken = False
        self.kept: list[AuditRecord] = []

    async def append(self, records: Any) -> None:
        if self.is_broken:
            raise StoreError("The store failed: attempt to write a readonly database.")
        self.kept += records


async def test_what_must_be_kept_is_kept_before_anything_happens() -> None:
    place = Broken()
    recorder = Recorder(place, flush_interval_s=60)
    receipts = Receipts(recorder, keep_queries=lambda: True, is_closed=lambda p: p == "web")
    async with receipts.around(Caller.local(project_id="web"), "call", "a", "a:b"):
        assert [one.phase for one in place.kept] == ["intent"]
    place.is_broken = True
    with pytest.raises(StoreError):
        async with receipts.around(Caller.local(project_id="web"), "call", "a", "a:b"):
            raise AssertionError("it must not begin")
    with pytest.raises(StoreError):
        await receipts.wait_written(Caller.local(project_id="web"))
    async with receipts.around(Caller.local(), "call", "a", "a:b"):
        pass  # of an open project: goes on
    place.is_broken = False
    assert await recorder.flush()
    ended = [one.status for one in place.kept if one.phase == "outcome"]
    assert ended == ["ok", "store", "ok"]
    await recorder.aclose()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may look into; those of pytest hide from who is not their owner."""
    with TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.mark.parametrize("fault", ["full disk", "read-only", "read-only file"])
async def test_a_closed_project_does_nothing_that_is_not_recorded_and_an_open_one_goes_on(
    fault: str, open_folder: Path
) -> None:
    ran: list[Json] = []

    def push(params: Json) -> Json:
        ran.append(params["arguments"])
        return text_result("pushed")

    settings = Settings(
        project={"web": ProjectTable(audit="closed")}, audit=AuditSettings(on_failure="open")
    )
    upstream = FakeUpstream({"push": push})
    url = f"sqlite:///{open_folder}/toolgate.db"
    async with memory_app({"git": upstream}, settings, store_url=url) as app:
        who = Identity(projects=("web",))
        closed = Caller(caller_id="local", project_id="web", identity=who)
        params: Json = {"name": "git__push", "arguments": {"n": 1}}
        assert "isError" not in await app.gateway.call(closed, params, None)
        await app.recorder.flush()
        with broken(fault, app):
            with pytest.raises(StoreError):
                await app.gateway.calls.execute(closed, "git:push", {"n": 2})
            assert ran == [{"n": 1}]
            assert "isError" not in await app.gateway.call(Caller.local(), params, None)
            assert ran == [{"n": 1}, {"n": 1}]
        with anyio.fail_after(HANG_S):
            while not await app.recorder.flush():
                await anyio.lowlevel.checkpoint()
        assert "isError" not in await app.gateway.call(closed, params, None)
        await app.recorder.flush()
        kept = await app.store.audit.select(AuditFilter(action="call", phase="outcome"))
        assert sorted(one.status for one in kept) == ["ok", "ok", "ok", "store"]


READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM projects").fetchall()
print("read", flush=True)
sys.stdin.read()
"""


async def test_a_store_that_was_read_only_for_a_while_is_written_again(open_folder: Path) -> None:
    """SQLite never writes on a connection that it opened when it could not write the file."""
    path = open_folder / "toolgate.db"
    store = make_store(f"sqlite:///{path}")
    await store.open()
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:  # keeps the files beside it
        assert reader.stdout is not None
        assert await anyio.to_thread.run_sync(reader.stdout.readline) == b"read\n"
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").chmod(0o666)
        with not_writable(path, store):
            await store.projects.list_all()
            with pytest.raises(StoreError, match="readonly"):
                await store.projects.add_references(["web"])
        for number in range(5):
            await store.projects.add_references([f"web{number}"])
        reader.communicate()
    await store.close()


KILLED = """
import os, signal, sys, anyio
from toolgate.settings import AuditSettings, Settings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

def push(params):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    settings = Settings(audit=AuditSettings(on_failure="closed"))
    git = FakeUpstream({"push": push})
    async with memory_app({"git": git}, settings, store_url=sys.argv[1]) as app:
        await app.gateway.calls.execute(Caller.local(), "git:push", {"n": 1})

anyio.run(main)
"""


async def test_a_kill_in_the_middle_of_a_call_leaves_its_intent_where_nothing_goes_unrecorded(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", KILLED, url], capture_output=True, timeout=HANG_S, check=False
        )
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    store = make_store(url)
    await store.open()
    kept = await store.audit.select(AuditFilter(action="call"))
    await store.close()
    assert [(one.phase, one.target) for one in kept] == [("intent", "git:push")]


async def changes_of(app: App) -> Json:
    """What administrators have made."""
    return {
        "tokens": [replace(one, last_used_at=None) for one in await app.store.access.tokens()],
        "rules": await app.store.access.permissions(),
        "projects": await app.store.projects.list_all(),
        "servers": [(one.name, one.enabled, one.tool_permissions) for one in app._catalog.specs],
    }


async def test_what_administrators_change_is_recorded_first_where_nothing_goes_unrecorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(auth="required", audit=AuditSettings(on_failure="closed"))
    async with memory_app({"git": FakeUpstream()}, settings) as app:
        admin, manage, me = app.gateway.admin, app.gateway.manage, Caller.local()
        await admin.save_project(me, "web", new=True)
        await admin.create_token(me, "anna")
        (rule,) = await admin.add_permissions(me, effect="allow", patterns=["*"], to=["everyone"])
        await app.recorder.flush()
        kept = await app.store.audit.select(AuditFilter(action="token_create", oldest_first=True))
        assert [(one.phase, one.status) for one in kept] == [("intent", "ok"), ("outcome", "ok")]
        assert kept[0].detail["token"] == "anna"
        assert kept[1].parent_id == kept[0].record_id
        before = await changes_of(app)

        async def refuse(_: Any) -> None:
            raise StoreError("The store failed: database or disk is full.")

        with monkeypatch.context() as patch:
            patch.setattr(app.store.audit, "append", refuse)
            for refused in (
                lambda: admin.create_token(me, "ben"),
                lambda: admin.rotate_token(me, "anna"),
                lambda: admin.revoke_token(me, "anna"),
                lambda: admin.delete_token(me, "anna"),
                lambda: admin.save_project(me, "web", settings={"read_only": True}),
                lambda: admin.delete_project(me, "web"),
                lambda: admin.add_permissions(me, effect="deny", patterns=["*"], to=["everyone"]),
                lambda: admin.remove_permissions(me, [rule.permission_id]),
                lambda: manage.servers.enable(me, "git", False),
                lambda: manage.servers.remove(me, "git"),
                lambda: manage.servers.allow_tools(me, "git", ["echo"], allowed=False),
            ):
                with pytest.raises(StoreError, match="The audit log could not be written"):
                    await refused()
            assert await changes_of(app) == before
        with anyio.fail_after(HANG_S):
            while not await app.recorder.flush():
                await anyio.lowlevel.checkpoint()
        await admin.delete_token(me, "anna")
        await app.recorder.flush()
        ended = await app.store.audit.select(AuditFilter(action="token_delete", phase="outcome"))
        assert [one.status for one in ended] == ["ok", "store"]


async def test_administrators_go_on_where_the_audit_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(_: Any) -> None:
        raise StoreError("The store failed: database or disk is full.")

    async with memory_app({}, Settings(auth="required")) as app:
        with monkeypatch.context() as patch:
            patch.setattr(app.store.audit, "append", refuse)
            await app.gateway.admin.create_token(Caller.local(), "anna")
        with anyio.fail_after(HANG_S):
            while not await app.recorder.flush():
                await anyio.lowlevel.checkpoint()
        (made,) = await app.store.audit.select(AuditFilter(action="token_create"))
        assert (made.phase, made.status) == ("outcome", "ok")


@contextmanager
def not_writable(path: Path, store: Any) -> Iterator[None]:
    """Nobody may write a file, nor beside it; root, who always may, is somebody else meanwhile."""
    user = os.geteuid()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    store._engine.dispose()  # what is open already would go on being written
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
        path.parent.chmod(0o755)
        path.chmod(0o644)


@contextmanager
def broken(fault: str, app: Any) -> Iterator[None]:
    """The store takes nothing: no page more, or nothing at all."""
    store = app.store
    if fault == "read-only file":
        with not_writable(Path(store.url.removeprefix("sqlite:///")), store):
            yield
        return
    if fault == "read-only":
        before = store.write

        async def refuse(work: Any) -> Any:
            def run(opened: Any) -> Any:
                opened.exec_driver_sql("PRAGMA query_only = ON")
                try:
                    return work(opened)
                finally:
                    opened.exec_driver_sql("PRAGMA query_only = OFF")

            return await before(run)

        store.write = refuse
        yield
        store.write = before
        return
    with full_disk(0):
        yield


async def test_what_full_keeps_has_no_secrets_and_hashes_keep_shapes_alone() -> None:
    async with memory_app(
        {"git": FakeUpstream({"push": lambda _: text_result(f"key {KEY}")})}
    ) as app:
        for audit in ("hashes", "full"):
            spec = replace(app._catalog.specs[0], audit=audit)
            receipts = Receipts(
                app.recorder,
                keep_queries=lambda: True,
                mask=lambda value: json.loads(json.dumps(value).replace(KEY, "[masked]")),
            )
            async with receipts.around(
                Caller.local(),
                "call",
                "git",
                "git:push",
                spec=spec,
                arguments={"token": KEY, "n": [1, 2]},
            ) as done:
                done({"content": [{"type": "text", "text": KEY}]})
        await app.recorder.flush()
        kept = await app.store.audit.select(AuditFilter(action="call", oldest_first=True))
    assert KEY not in str(kept)
    shape = {"token": "text 40", "n": "list 2"}
    assert [one.detail.get("shape") for one in kept] == [shape, None, shape, None]
    assert [set(one.detail) - {"entry_point"} for one in kept] == [
        {"shape"},
        {"tokens"},
        {"shape", "arguments"},
        {"tokens", "result"},
    ]
    assert kept[2].detail["arguments"] == {"token": "[masked]", "n": [1, 2]}


async def test_a_receipt_names_decision_trace_and_request_at_the_server() -> None:
    async with memory_app({"git": FakeUpstream({"push": lambda _: text_result("x")})}) as app:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        params = {"name": "git__push", "arguments": {}, "_meta": {"traceparent": trace}}
        await app.gateway.call(Caller.local(), params, None)
        await app.recorder.flush()
        intent, outcome = await app.store.audit.select(
            AuditFilter(action="call", oldest_first=True)
        )
    assert intent.detail["decision"] == "The local user may do everything."
    assert intent.detail["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert outcome.parent_id == intent.record_id
    assert outcome.detail["tokens"] > 0
