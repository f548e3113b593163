"""A store that is slow or gone: pages say so, what was typed stays, and nothing counts as saved."""

import html
import re
import sqlite3
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import psycopg
import pytest

from tests.console.console_client import Console, visible_text
from tests.console.console_client import open_console as console
from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.settings import AuditSettings, ServeSettings, Settings
from toolgate.store import SqlAccess
from toolgate.types import Caller

ADMIN = Caller.local()
SOON = Settings(serve=ServeSettings(console_wait_s=0.3))


def opened(url: str, settings: Settings = SOON) -> AbstractAsyncContextManager[Console]:
    """A console over a store that is somewhere, for which it does not wait long."""
    return console(settings=settings, store_url=url)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Another program that writes, and does not end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@asynccontextmanager
async def held(place: Console) -> AsyncGenerator[None]:
    """Nothing is read or written as long as this lasts."""
    store = place.app.store
    assert isinstance(store, SqlAccess)
    begun, release = anyio.Event(), threading.Event()

    def hold(_: object) -> None:
        anyio.from_thread.run_sync(begun.set)
        release.wait(HANG_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.writing, hold)
        with anyio.fail_after(HANG_S):
            await begun.wait()
        try:
            yield
        finally:
            release.set()


def fields_of(page: str) -> dict[str, str]:
    """What a page offers to send again."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)
    return dict(found)


async def names(place: Console) -> list[str]:
    return [one.name for one in await place.app.gateway.admin.projects(ADMIN)]


async def test_a_form_at_a_locked_file_is_not_saved_and_can_be_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.db"
    async with opened(f"sqlite:///{path}") as place:
        csrf = await place.csrf()
        with locked(path):
            answer = await place.send("projects", 503, csrf=csrf, name="typed")
            told = visible_text(Console.checked(answer))
            assert "Nothing was saved The store is slow." in told
            assert "did not answer within 0.3 s" in told
            assert "name typed" in told
            assert "typed" not in visible_text(await place.page("projects"))
        assert "typed" not in await names(place)
        again = fields_of(answer.text)
        with locked(path):
            config = '{"command": "sleep", "args": ["1"], "env": {"API_KEY": "hush-1234"}}'
            wanted = f'{{"name": "sleeper", "config": {config}}}'
            answer = await place.send("servers/save", 503, csrf=csrf, take=wanted)
            told = visible_text(answer.text)
            assert "Nothing was saved" in told
            assert '"sleep"' in told
            assert "hush-1234" not in told
            assert html.unescape(fields_of(answer.text)["take"]) == wanted
            assert place.app.gateway.servers.status(ADMIN, "sleeper") is None
    # On a busy machine, a healthy store can take longer than the short wait of that console.
    async with opened(f"sqlite:///{path}", Settings()) as patient:
        fields: dict[str, Any] = {**again, "csrf": await patient.csrf()}
        await patient.send("projects", **fields)
        assert "typed" in await names(patient)


@pytest.mark.real
async def test_a_form_at_a_locked_table_is_not_saved(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    async with opened(url) as place:
        csrf = await place.csrf()
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE projects IN EXCLUSIVE MODE")
            answer = await place.send("projects", 503, csrf=csrf, name="typed")
            assert "Nothing was saved The store is slow." in visible_text(answer.text)
            other.rollback()
        await place.send("projects", csrf=csrf, name="later")
        found = await names(place)
        assert "later" in found
        assert "typed" not in found


async def test_a_page_says_that_the_store_is_slow() -> None:
    async with opened("sqlite://") as place:
        await place.page("projects")
        async with held(place):
            page = await place.page("audit", 503, period="all")
            told = visible_text(page)
            assert "The store is slow" in told
            assert "Nothing was saved" in told
            assert 'href="/console/audit?period=all">Try again' in page
        await place.page("audit")


async def test_the_first_form_of_a_process_says_so_too() -> None:
    """Before a page was ever shown the key of forms has to be read."""
    async with opened("sqlite://") as place:
        async with held(place):
            answer = await place.send("projects", 503, csrf="0" * 64, name="typed")
            assert "Nothing was saved" in visible_text(answer.text)
            assert fields_of(answer.text) == {"csrf": "0" * 64, "name": "typed"}
        await place.send("projects", 403, csrf="0" * 64, name="typed")
        assert "typed" not in await names(place)


async def test_logging_in_at_a_slow_store_shows_no_token() -> None:
    async with opened("sqlite://", replace(SOON, auth="required")) as place:
        made = await place.app.gateway.admin.create_token(ADMIN, "anna", roles=["admin"])
        csrf = await place.csrf()
        async with held(place):
            answer = await place.send("login", 503, csrf=csrf, token=made.secret)
            assert made.secret not in visible_text(answer.text)
            assert fields_of(answer.text)["token"] == made.secret
            assert answer.headers["cache-control"] == "no-store"
        done = await place.client.post("/console/login", data=fields_of(answer.text))
        assert done.status_code == 303


async def test_what_a_tool_gave_is_shown_whatever_the_store_does() -> None:
    async with opened("sqlite://") as place:
        await place.page("tool", key="notes:add")
        csrf = await place.csrf()
        async with held(place):
            answer = await place.send("tool", 200, csrf=csrf, key="notes:add", a0="hello")
            assert "added 'hello'" in visible_text(answer.text)


async def test_a_form_waits_no_longer_for_the_audit_either() -> None:
    """Where nothing may go unrecorded, a change begins once its intention is kept."""
    closed = replace(SOON, audit=AuditSettings(on_failure="closed"))
    async with opened("sqlite://", closed) as place:
        csrf = await place.csrf()
        async with held(place):
            answer = await place.send("projects", 503, csrf=csrf, name="web")
            assert "Nothing was saved The store is slow." in visible_text(answer.text)
        assert await place.app.recorder.flush()
        assert "web" not in await names(place)


async def test_a_store_that_is_gone_is_said_and_what_was_typed_stays() -> None:
    closed = replace(SOON, audit=AuditSettings(on_failure="closed"))
    async with opened("sqlite://", closed) as place:
        csrf = await place.csrf()
        await place.app.store.close()
        for _ in range(3):
            await place.app.store.close()
        answer = await place.send("projects", 503, csrf=csrf, name="web")
        told = visible_text(answer.text)
        assert "Nothing was saved" in told
        assert "The store failed" in told
        assert fields_of(answer.text)["name"] == "web"
        answer = await place.send("tool", 503, csrf=csrf, key="notes:add", a0="hello")
        told = visible_text(answer.text)
        assert "The action may have run" in told
        assert "Check the page before you submit it again" in told
        assert "a0 hello" in told


async def test_a_page_that_takes_too_long_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened("sqlite://", Settings()) as place:
        await place.page("audit")
        with monkeypatch.context() as patch:
            patch.setattr("toolgate.console.application._SLOW_S", 0.0)
            page = await place.page("audit", 503, period="all")
        assert "took too long" in visible_text(page)
        assert 'href="/console/audit?period=all">Try again' in page
