"""Processes of one PostgreSQL database hear of changes at once, also after a lost connection."""

import anyio
import pytest

from tests.limits import HANG_S
from tests.postgres import PostgresServer
from tests.store.stores import make_sql_store
from toolgate.store import StoredGuard

pytestmark = pytest.mark.real

LONG_S = 10 * HANG_S


async def test_a_change_in_another_process_ends_the_wait(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    here, there = make_sql_store(url), make_sql_store(url)
    await here.open()
    await there.open()
    await here.access.wait_for_change(0.0)  # connects; from now on nothing is missed
    await there.access.save_guard(StoredGuard(guard_id="g", settings={}))
    with anyio.fail_after(HANG_S):
        await here.access.wait_for_change(LONG_S)
    await here.close()
    await there.close()


async def test_without_a_connection_the_wait_still_ends(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    store = make_sql_store(url)
    await store.open()
    await store.access.wait_for_change(0.0)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN toolgate%'"
    )
    with anyio.fail_after(HANG_S):
        await store.access.wait_for_change(0.2)
        await store.access.wait_for_change(0.2)
    await store.close()


async def test_the_end_of_a_session_is_heard_by_its_id(postgres: PostgresServer) -> None:
    url = postgres.new_schema()
    here, there = make_sql_store(url), make_sql_store(url)
    await here.open()
    await there.open()
    await here.access.wait_for_change(0.0)
    ended = {f"session-{number}" for number in range(3)}
    for session_id in ended:
        await there.access.announce_session_end(session_id)
    heard: set[str] = set()
    with anyio.fail_after(HANG_S):
        while heard & ended != ended:  # other tests use the same channel
            heard.update(await here.access.wait_for_change(LONG_S))
    await here.close()
    await there.close()
