"""SQLcl as a server, with a program in its place: no SQLcl is at hand in tests."""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App, open_app
from toolgate.databases.connections import Connections
from toolgate.errors import GuardError, ToolgateError
from toolgate.packs.builtin.sql._sqlcl import sqlcl_servers
from toolgate.settings import ConnectionTable, Settings, load
from toolgate.types import Caller
from toolgate.upstream import ToolServices

SECRET = 'Pa"ss; word'
URL = "oracle+oracledb://scott:Pa%22ss%3B%20word@db.example.org:1522/?service_name=FREEPDB1"
PROGRAM = """#!{python}
import json, os, pathlib, sys
home = pathlib.Path(sys.argv[sys.argv.index("-home") + 1])
if "-mcp" not in sys.argv:
    (home / "saved.txt").write_text(sys.stdin.read())
    (home / "arguments.txt").write_text(repr(sys.argv))
    sys.exit({status})
(home / "pid").write_text(str(os.getpid()))
if {dies}:
    sys.exit("java is missing")
TOOLS = [
    {{"name": name, "inputSchema": {{"type": "object"}}}}
    for name in ("run-sql", "run-sqlcl", "list-connections")
]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {{"tools": TOOLS}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        answer = {{"protocolVersion": version,
                  "capabilities": {{"tools": {{}}, "prompts": {{}}, "resources": {{}}}},
                  "serverInfo": {{"name": "sqlcl", "version": "26"}}}}
    elif message["method"] == "tools/call":
        answer = {{"content": [{{"type": "text", "text": "ran " + json.dumps(message["params"])}}]}}
    elif message["method"] not in ("tools/list", "ping"):
        error = {{"code": -32601, "message": "no"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "error": error}}), flush=True)
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": answer}}), flush=True)
"""


def program(folder: Path, *, status: int = 0, dies: bool = False) -> Path:
    path = folder / "sql"
    text = PROGRAM.format(python=sys.executable, status=status, dies=dies)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def services(command: object, url: str = URL) -> ToolServices:
    return ToolServices(
        settings={"sqlcl": True, "sqlcl_command": str(command)},
        connections=Connections({"hr": ConnectionTable(url=url)}),
    )


def test_px_2_each_oracle_connection_gets_a_server_with_a_store_of_its_own(tmp_path: Path) -> None:
    """PX-2: a saved connection per database; the password goes in through standard input."""
    path = program(tmp_path)

    found = sqlcl_servers(services(path), home=tmp_path / "stores")

    store = tmp_path / "stores" / "hr"
    assert found == {
        "sqlcl-hr": {
            "command": str(path),
            "args": ["-home", str(store), "-mcp"],
            "tool_permissions": {"run-sqlcl": False},
        }
    }
    assert (store / "saved.txt").read_text(encoding="utf-8") == (
        'connect -savepwd -save "TOOLGATE_HR" -replace -user "scott" '
        '-password "Pa""ss; word" -url "//db.example.org:1522/FREEPDB1"\nexit\n'
    )
    assert SECRET not in (store / "arguments.txt").read_text(encoding="utf-8")
    assert store.stat().st_mode & 0o077 == 0


def test_px_1_a_missing_program_is_a_warning_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PX-1: without the binary the rest works."""
    assert sqlcl_servers(services("no-such-program"), home=tmp_path) == {}
    assert "SQLcl is left out: there is no program 'no-such-program'." in caplog.text


def test_a_store_that_cannot_be_made_leaves_that_connection_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = program(tmp_path, status=3)

    with caplog.at_level(logging.WARNING):
        assert sqlcl_servers(services(path), home=tmp_path / "stores") == {}

    assert [record.message for record in caplog.records] == ["SQLcl is left out"]
    assert SECRET not in caplog.text


def test_px_2_a_password_cannot_end_the_line_that_it_stands_in(tmp_path: Path) -> None:
    url = "oracle://a:x%0Ahost%20ls%0A@db/?service_name=s"

    sqlcl_servers(services(program(tmp_path), url), home=tmp_path / "stores")

    saved = (tmp_path / "stores" / "hr" / "saved.txt").read_text(encoding="utf-8")
    assert len(saved.splitlines()) == 2
    assert '-password "x host ls "' in saved


def settings(folder: Path, sqlcl: Path, *, on: bool = True) -> Settings:
    (folder / "toolgate.toml").write_text(
        f'[store]\nurl = "sqlite:///{folder}/store.db"\n'
        '[packs]\nenable = ["sql"]\ndisable = ["schema"]\n'
        f'[packs.options.sql]\nsqlcl = {str(on).lower()}\nsqlcl_command = "{sqlcl}"\n'
        f'[connections.hr]\nurl = "{URL}"\nsnapshot_every_minutes = 0\n',
        encoding="utf-8",
    )
    return load(cwd=folder, environ={"HOME": str(folder)})


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the connections of SQLcl are saved."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "toolgate" / "sqlcl"


async def say(app: App, tool: str, **arguments: object) -> str:
    result = await app.gateway.calls.execute(Caller.local(), f"sqlcl-hr:{tool}", arguments)
    return str(result["content"][0]["text"])


async def test_a_sql_3_sqlcl_stands_behind_the_gateway_with_a_guard_before_it(
    tmp_path: Path, stores: Path
) -> None:
    """Read-only is enforced by the gateway, not assumed from the upstream."""
    async with open_app(settings(tmp_path, program(tmp_path)), wait_s=HANG_S) as app:
        await app.packs.load()
        await app.gateway.servers.wait_ready(HANG_S)
        fine = await say(app, "run-sql", sql="/* LLM in use is x */ select 1 from dual")
        with pytest.raises(GuardError, match="begins with DELETE"):
            await say(app, "run-sql", sql="delete from orders")
        with pytest.raises(ToolgateError, match="run-sqlcl"):
            await say(app, "run-sqlcl", sqlcl="host ls")

    assert fine.startswith("ran ")
    assert (stores / "hr" / "saved.txt").exists()


async def test_px_3_sqlcl_is_listed_part_by_part_exchanged_and_ended(
    tmp_path: Path, stores: Path
) -> None:
    """Its prompts and resources cannot be listed, its tools can; it ends with its setting."""
    path = program(tmp_path)
    async with open_app(settings(tmp_path, path), wait_s=HANG_S) as app:
        await app.packs.load()
        await app.gateway.servers.wait_ready(HANG_S)
        assert (await say(app, "list-connections")).startswith("ran ")
        process = psutil.Process(int((stores / "hr" / "pid").read_text(encoding="utf-8")))
        await app.reload(settings(tmp_path, path, on=False))
        with pytest.raises(ToolgateError):
            await say(app, "list-connections")
        await anyio.to_thread.run_sync(lambda: psutil.wait_procs([process], timeout=HANG_S))

    assert not process.is_running()


async def test_px_3_another_address_alone_gives_its_server_another_store(
    tmp_path: Path, stores: Path
) -> None:
    """The options of the pack are as they were; the table of the database is not."""
    path = program(tmp_path)
    async with open_app(settings(tmp_path, path), wait_s=HANG_S) as app:
        await app.packs.load()
        await app.gateway.servers.wait_ready(HANG_S)
        there = settings(tmp_path, path)
        moved = {"hr": ConnectionTable(url=URL.replace("db.example.org", "new.example.org"))}
        await app.reload(replace(there, connections=moved))
        await app.packs.load()
        saved = (stores / "hr" / "saved.txt").read_text(encoding="utf-8")
        await app.reload(replace(there, connections={**moved, "pay": there.connections["hr"]}))
        await app.packs.load()
        names = {one.name for one in app.gateway.servers.statuses(Caller.local())}

    assert '-url "//new.example.org:1522/FREEPDB1"' in saved
    assert {"sqlcl-hr", "sqlcl-pay"} <= names


async def test_px_3_a_program_that_ends_at_once_is_named_and_the_rest_works(
    tmp_path: Path, stores: Path
) -> None:
    async with open_app(settings(tmp_path, program(tmp_path, dies=True)), wait_s=HANG_S) as app:
        await app.packs.load()
        await app.gateway.servers.wait_ready(HANG_S)
        with pytest.raises(ToolgateError, match="sqlcl-hr"):
            await say(app, "run-sql", sql="select 1 from dual")
        known = await app.gateway.calls.execute(Caller.local(), "sql:connection_list", {})

    assert known["structuredContent"]["connections"][0]["name"] == "hr"
    assert (stores / "hr" / "pid").exists()
