"""`kill -9` under load: what was confirmed is there, and what was cut off is told apart."""

import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.limits import HANG_S
from tests.outages.load import Load, OnFailure, Site, site
from tests.postgres import PostgresServer
from tests.real.processes import PROBE_SERVER, RunningGateway, gateway
from tests.server.http_gateway import headers_for, modern
from toolgate.types import Json

pytestmark = pytest.mark.real

ACCEPT = "application/json, text/event-stream"
CALLS = 60
"""Answered before the kill; which calls are under way then is left to chance."""


@pytest.mark.parametrize(("database", "on_failure"), [("sqlite", "open"), ("postgres", "closed")])
async def test_nothing_confirmed_is_lost_when_the_gateway_is_killed_under_load(
    database: str, on_failure: OnFailure, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres") if database == "postgres" else None
    place = site(tmp_path, on_failure, server)
    with place.gateway() as first:
        load = Load(address=first.run.address, key=first.run.key)
        async with load.running():
            await load.until_answered(CALLS)
            written = 0.0
            with anyio.fail_after(HANG_S):
                while not written:  # metrics are those of a moment ago while the machine is busy
                    written = await anyio.to_thread.run_sync(
                        first.metric, "toolgate_audit_written_total"
                    )
            os.kill(first.run.pid, signal.SIGKILL)
    with place.gateway() as second:
        names = {row["name"] for row in second.get("/api/v1/tokens")["tokens"]}
        await _until_all_calls_have_an_outcome(place)
        place.verify(second)
    records = await place.records()
    n_records = len(await place.records(action=None))

    outcomes = {str(one.detail["trace_id"]): one for one in records if one.phase == "outcome"}
    done = set(place.entries())
    assert set(load.answered) <= done
    assert len(load.tokens) >= 1
    assert set(load.tokens) <= names
    assert n_records >= written > 0, "what the gateway counted as written is gone"
    assert {one.status for one in outcomes.values()} <= {"ok", "unknown", "cancelled"}
    if on_failure == "closed":
        assert done <= outcomes.keys(), "something was done that is not on record"
        assert {outcomes[trace].status for trace in load.answered} <= {"ok", "unknown"}


async def test_calls_of_a_killed_replica_stop_counting_as_running(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """While the other replica's own call goes on counting: it prolongs what it holds."""
    servers = {"probe": {"command": PROBE_SERVER[0], "args": list(PROBE_SERVER[1:])}}
    settings: dict[str, Any] = {
        "mode": "all",
        "store": {"url": postgres.new_database()},
        "limits": {"concurrent_calls": 2},
    }
    slow = {"name": "probe__slow", "arguments": {"seconds": HANG_S}}
    quick = {"name": "probe__echo", "arguments": {"text": "here"}}
    async with aiohttp.ClientSession() as http, anyio.create_task_group() as tasks:

        async def answer(replica: RunningGateway, params: Json) -> str:
            message = modern("tools/call", params)
            headers = {"Accept": ACCEPT, **headers_for(message)}
            try:
                async with http.post(replica.url, json=message, headers=headers) as response:
                    return await response.text()
            except aiohttp.ClientError:
                return ""

        async def until_running(replica: RunningGateway, count: int) -> None:
            while await anyio.to_thread.run_sync(replica.metric, "toolgate_running") < count:
                await anyio.sleep(0.02)

        with gateway(tmp_path / "b", servers, settings) as survivor:
            with gateway(tmp_path / "a", servers, settings) as victim:
                for replica in (victim, survivor):
                    replica.wait_ready("probe")
                    tasks.start_soon(answer, replica, slow)
                    with anyio.fail_after(HANG_S):
                        await until_running(replica, 1)
                with anyio.fail_after(HANG_S):
                    while "2 may run at the same time" not in await answer(survivor, quick):
                        await anyio.sleep(0.02)
                os.kill(victim.run.pid, signal.SIGKILL)
            with anyio.fail_after(HANG_S):
                while "here" not in await answer(survivor, quick):
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()


async def _until_all_calls_have_an_outcome(place: Site) -> None:
    with anyio.fail_after(HANG_S):
        while True:
            records = await place.records()
            ended = {one.parent_id for one in records if one.phase == "outcome"}
            if all(one.record_id in ended for one in records if one.phase == "intent"):
                return
            await anyio.sleep(0.1)
