"""What only administrators may see of servers and errors: stderr, paths, process ids, addresses."""

import sqlite3
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from tests.limits import HANG_S
from toolgate.app.app import App, open_app
from toolgate.errors import RpcError, StoreError, ToolgateError
from toolgate.security.guards import ServerSecrets
from toolgate.settings import PermissionTable, ProjectTable, Settings, StoreSettings
from toolgate.store import make_store
from toolgate.testing.web_server import serve_application
from toolgate.types import Caller, Identity, ServerSpec

PASSWORD = "correct-horse-battery"
GITHUB_TOKEN = "ghp_" + "a1B2" * 9
SERVER = f"""
import sys
print("cannot connect with {PASSWORD} and {GITHUB_TOKEN} from /srv/private", file=sys.stderr)
sys.exit(3)
"""
TALKER = """
import json, os, sys
said = f"401 from https://api.example/?key={os.environ['API_KEY']} and {sys.argv[2]}"
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            answer = {"result": {**about, "serverInfo": {"name": "talker", "version": "1"}}}
        case "tools/list":
            names = ("error", "failure", "nonsense")
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            answer = {"result": {"tools": tools}}
        case "tools/call":
            name = message["params"]["name"]
            text = {"type": "text", "text": said}
            answer = {
                "error": {"error": {"code": -32603, "message": said, "data": {said: [said]}}},
                "failure": {"result": {"content": [text], "isError": True}},
                "nonsense": {"result": {"content": said}},
            }[name]
        case _:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
"""A server that shows its configuration in whatever it answers."""

ADMIN = Caller.local()
USER = Caller(
    caller_id="token:1",
    project_id="web",
    identity=Identity(caller_id="token:1", kind="token", token="anna", projects=("web",)),
)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """A gateway whose only server ends at its start, after writing secrets."""
    spec = ServerSpec(
        name="git",
        kind="stdio",
        options={
            "command": sys.executable,
            "args": ["-c", SERVER],
            "env": {"DB_PASSWORD": PASSWORD},
        },
        source=str(tmp_path / "toolgate.toml"),
    )
    settings = Settings(
        auth="required",
        servers=(spec,),
        store=StoreSettings(url=f"sqlite:///{tmp_path / 'toolgate.db'}"),
        project={"web": ProjectTable(servers=("git",))},
        permission=(PermissionTable(to=("everyone",), allow=("*",), source="toolgate.toml"),),
    )
    with anyio.fail_after(HANG_S):
        async with open_app(settings, wait_s=HANG_S) as app:
            yield app


async def test_stderr_pid_and_paths_are_for_administrators(app: App, tmp_path: Path) -> None:
    [seen_by_admin] = app.gateway.servers.statuses(ADMIN)
    [seen_by_user] = app.gateway.servers.statuses(USER)

    assert seen_by_admin.state == seen_by_user.state == "down"
    assert any("/srv/private" in line for line in seen_by_admin.stderr_tail)
    assert "status 3" in str(seen_by_admin.last_error)
    assert str(tmp_path) in seen_by_admin.source
    assert seen_by_user.stderr_tail == ()
    assert (seen_by_user.pid, seen_by_user.source) == (None, "")
    assert seen_by_user.last_error == "It cannot be reached; administrators see why."


async def test_secrets_that_a_server_writes_are_masked_for_everybody(app: App) -> None:
    [status] = app.gateway.servers.statuses(ADMIN)

    assert PASSWORD not in str(status)
    assert GITHUB_TOKEN not in str(status)
    assert "[secret masked]" in str(status.stderr_tail)


async def test_a_call_to_a_server_that_is_down_says_why_to_administrators_only(app: App) -> None:
    call = {"name": "tool_execute", "arguments": {"toolKey": "git:log"}}
    texts = [
        (await app.gateway.call(caller, call, None))["content"][0]["text"]
        for caller in (replace(ADMIN, project_id="web"), USER)
    ]

    assert "status 3" in texts[0]
    assert "cannot connect with [secret masked]" in texts[0]
    assert PASSWORD not in texts[0]
    assert "is down" in texts[1]
    assert "status 3" not in texts[1]
    assert "/srv/private" not in texts[1]


async def test_errors_of_the_store_show_its_address_to_administrators_only(
    tmp_path: Path,
) -> None:
    path = tmp_path / "private" / "toolgate.db"
    store = make_store(f"sqlite:///{path}")
    await store.open()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop table guards")
    with pytest.raises(StoreError) as caught:
        await store.access.guards()
    await store.close()

    assert "private" not in str(caught.value)
    assert "private" in caught.value.full_text


@pytest.mark.parametrize("tool", ["error", "failure", "nonsense"])
async def test_an_error_of_a_server_shows_no_secret_of_its_configuration(
    tmp_path: Path, tool: str
) -> None:
    """A server that fails tends to show the address it called, with the key in it."""
    database = f"postgresql://toolgate:{PASSWORD}@db.example/app"
    options = {
        "command": sys.executable,
        "args": ["-c", TALKER, "--database", database],
        "env": {"API_KEY": "plain-words-only"},
    }
    settings = Settings(
        servers=(ServerSpec(name="talker", kind="stdio", options=options),),
        store=StoreSettings(url=f"sqlite:///{tmp_path / 'toolgate.db'}"),
    )
    with anyio.fail_after(HANG_S):
        async with open_app(settings, wait_s=HANG_S) as app:
            call = {"name": f"talker__{tool}", "arguments": {}}
            try:
                shown = str(await app.gateway.call(ADMIN, call, None))
            except RpcError as error:
                shown = f"{error} {error.data}"

    assert "[secret masked]" in shown
    assert PASSWORD not in shown
    assert "plain-words-only" not in shown


@pytest.mark.parametrize("status", [403, 404, 502, 0], ids=["403", "404", "502", "reset"])
async def test_an_error_of_a_call_shows_the_address_of_its_server_to_administrators_only(
    tmp_path: Path, status: int
) -> None:
    async with failing_server(status) as url:
        settings = Settings(
            auth="required",
            servers=(ServerSpec(name="far", kind="http", options={"url": url}),),
            store=StoreSettings(url=f"sqlite:///{tmp_path / 'toolgate.db'}"),
            permission=(PermissionTable(to=("everyone",), allow=("*",), source="toolgate.toml"),),
        )
        user = replace(USER, project_id="default")
        with anyio.fail_after(HANG_S):
            async with open_app(settings, wait_s=HANG_S) as app:
                shown: list[str] = []
                for caller in (user, ADMIN):
                    try:
                        call = {"name": "far__work", "arguments": {}}
                        shown.append(str(await app.gateway.call(caller, call, None)))
                    except ToolgateError as error:
                        shown.append(error.full_text if caller is ADMIN else str(error))

    assert "127.0.0.1" not in shown[0]
    assert "far" in shown[0]
    assert not status or str(status) in shown[0]
    assert "127.0.0.1" in shown[1]


@asynccontextmanager
async def failing_server(status: int) -> AsyncGenerator[str]:
    """A server over HTTP that lists a tool, and answers its calls with a status; 0: not at all."""

    async def answer(request: web.Request) -> web.StreamResponse:
        message = await request.json() if request.can_read_body else {}
        match message.get("method"):
            case "initialize":
                about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                result = {**about, "serverInfo": {"name": "far", "version": "1"}}
            case "tools/list":
                result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                if status == 0 and request.transport is not None:
                    request.transport.abort()
                return web.Response(status=status or 500, text="no")
            case _:
                return web.Response(status=202 if message else 405)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    application = web.Application()
    application.router.add_route("*", "/mcp", answer)
    async with serve_application(application) as url:
        yield f"{url}/mcp"


def test_secrets_are_known_wherever_a_server_is_given_them() -> None:
    options = {
        "env": {
            "API_KEY": "secret-1",
            "DATABASE_URL": "mysql://root:secret%2D2@db/x",
            "HOME": "/h",
        },
        "headers": {"Authorization": "Bearer secret-3", "Accept": "application/json"},
        "args": ["serve", "--token", "secret-4", "--api-key=secret-5", "-e", "PASSWORD=secret-6"],
        "url": "https://user:secret-7@mcp.example/mcp?access_token=secret-8&page=harmless",
    }
    said = "secret-1 secret%2D2 secret-2 secret-3 secret-4 secret-5 secret-6 secret-7 secret-8 "
    said += "/home serve application/json harmless mcp.example root"
    left = ServerSecrets(options).mask_error(RpcError(1, said)).failed
    assert left == "[secret masked] " * 9 + "/home serve application/json harmless mcp.example root"
