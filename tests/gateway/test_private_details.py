"""What only administrators may see of servers and errors: stderr, paths, process ids, addresses."""

import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App, open_app
from toolgate.errors import StoreError
from toolgate.settings import PermissionTable, ProjectTable, Settings, StoreSettings
from toolgate.store import make_store
from toolgate.types import Caller, Identity, ServerSpec

pytestmark = pytest.mark.anyio

PASSWORD = "correct-horse-battery"
GITHUB_TOKEN = "ghp_" + "a1B2" * 9
SERVER = f"""
import sys
print("connecting with {PASSWORD} and {GITHUB_TOKEN} from /srv/private", file=sys.stderr)
sys.exit(3)
"""
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
    assert "is down" in texts[1]
    assert "status 3" not in texts[1]


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
