"""The account of tokens is what a scripted conversation asked for, and tells losses as losses."""

from dataclasses import replace

import pytest

from tests.telemetry.test_metrics import opened
from toolgate.cost import account
from toolgate.metatools import DiscoverRequest
from toolgate.settings import Settings
from toolgate.types import Caller

pytestmark = pytest.mark.anyio

ME = Caller(client="tester", conversation="one")


async def test_a_conversation_pays_for_its_menu_its_searches_and_its_calls() -> None:
    async with opened(Settings(optimization="bm25", mode="meta")) as (app, client):
        found = await app.gateway.discover(ME, DiscoverRequest(queries=("good",)))
        for _ in range(3):
            await app.gateway.execute(ME, "a:good", {"x": 1})
        await app.gateway.execute(ME, "a:bad", {})
        await app.recorder.flush()
        told = await account(app, ME, "2000-01-01")
        [task] = told.tasks
        assert (task.of.calls, task.of.failed, task.of.repeats, task.of.searches) == (4, 1, 2, 1)
        assert task.of.search_tokens == found.tokens
        assert task.tokens == task.menu_tokens + task.of.search_tokens + task.call_tokens
        assert told.saved_tokens < 0, "four small tools are cheaper when all are listed"

        answer = (await client.get("/api/v1/cost?days=1")).json()
        assert answer["tasks"][0]["saved_tokens"] == told.saved_tokens
        assert answer["tasks"][0]["turns"] == 5
        use = (await client.get("/api/v1/tools/usage?days=1")).json()
        assert [(one["tool"], one["calls"], one["success_share"]) for one in use["tools"]] == [
            ("a:good", 3, 1.0),
            ("a:bad", 1, 0.0),
        ]
        assert use["never_used_servers"] == ["b"]
        assert (await client.get("/api/v1/cost?days=none")).status_code == 400


async def test_conversations_are_told_apart() -> None:
    async with opened(Settings(optimization="bm25")) as (app, _):
        for name in ("one", "two"):
            await app.gateway.execute(replace(ME, conversation=name), "a:good", {})
        await app.recorder.flush()
        told = await account(app, ME, "2000-01-01")
        assert {task.of.conversation for task in told.tasks} == {"one", "two"}
        assert [task.of.repeats for task in told.tasks] == [0, 0]
