"""The account of tokens is what a scripted conversation asked for, and tells losses as losses."""

from dataclasses import replace

import anyio
import pytest

from tests.console.console_client import visible_text
from tests.limits import HANG_S
from tests.telemetry.test_metrics import opened
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import Settings
from toolgate.telemetry.cost import cost_report
from toolgate.types import Caller

pytestmark = pytest.mark.anyio

ME = Caller.local(client="tester", conversation="one")


async def test_a_conversation_pays_for_its_menu_its_searches_and_its_calls() -> None:
    async with opened(Settings(optimization="bm25", mode="meta")) as (app, client):
        found = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("good",)))
        for _ in range(3):
            await app.gateway.calls.execute(ME, "a:good", {"x": 1})
        await app.gateway.calls.execute(ME, "a:bad", {})
        await app.recorder.flush()
        told = await cost_report(app, ME, "2000-01-01")
        [task] = told.tasks
        assert (
            task.conversation.calls,
            task.conversation.failed,
            task.conversation.repeats,
            task.conversation.searches,
        ) == (4, 1, 2, 1)
        assert task.conversation.search_tokens == found.tokens
        assert task.tokens == task.menu_tokens + task.conversation.search_tokens + task.call_tokens
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


async def test_the_console_the_interface_and_the_account_agree() -> None:
    async with opened(Settings(optimization="bm25", mode="meta")) as (app, client):
        await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("good",)))
        for _ in range(21):
            await app.gateway.calls.execute(ME, "a:good", {"x": 1})
        answer = (await client.get("/api/v1/cost?days=1")).json()
        use = (await client.get("/api/v1/tools/usage?days=1")).json()
        page = visible_text((await client.get("/console/cost")).text)
        home = visible_text((await client.get("/console")).text)
        await client.get("/console/search?q=good")
        assert (await client.get("/api/v1/cost?days=1")).json()["tasks"] == answer["tasks"]
    [task] = answer["tasks"]
    assert f"{-answer['saved_tokens']:,} extra tokens used" in page
    assert f"{answer['tokens']:,} tokens in 1 conversation" in page
    for name in ("tokens", "listed_tokens", "search_tokens", "turns", "saved_tokens"):
        assert f" {task[name]:,} " in page
    assert "Extra tokens used today" in home
    assert use["pins"] == ["a:good"]
    assert "candidates for pinning: a:good" in page
    assert "candidates for removal: b" in page


async def test_what_takes_long_to_count_is_counted_beside_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolgate.console.counts_cache._FEW", 2)
    async with opened(Settings(optimization="bm25")) as (app, client):
        for _ in range(3):
            await app.gateway.calls.execute(ME, "a:good", {"x": 1})
        await app.recorder.flush()
        first = await client.get("/console/cost")
        assert "Counting continues in the background" in visible_text(first.text)
        assert first.headers["refresh"] == "2"
        with anyio.fail_after(HANG_S):
            while "in the background" in visible_text((await client.get("/console/cost")).text):
                pass
        later = await client.get("/console/cost")
        assert "in 1 conversation" in visible_text(later.text)
        assert "refresh" not in later.headers
        home = await client.get("/console")
        assert "Calls in the last hour – Counting…" in visible_text(home.text)
        assert home.headers["refresh"] == "2"
        with anyio.fail_after(HANG_S):
            while "Counting…" in visible_text((await client.get("/console")).text):
                pass
        home = await client.get("/console")
        assert "3 calls, none failed" in visible_text(home.text)
        assert "refresh" not in home.headers
        # Nobody looked for long: what was counted then is not said of now.
        monkeypatch.setattr("toolgate.console.counts_cache._SHOWN_FOR_S", 0)
        for path in ("", "/cost"):
            page = await client.get(f"/console{path}")
            assert "ounting" in visible_text(page.text)
            assert page.headers["refresh"] == "2"


async def test_conversations_are_told_apart() -> None:
    async with opened(Settings(optimization="bm25")) as (app, _):
        for name in ("one", "two"):
            await app.gateway.calls.execute(replace(ME, conversation=name), "a:good", {})
        await app.recorder.flush()
        told = await cost_report(app, ME, "2000-01-01")
        assert {task.conversation.conversation for task in told.tasks} == {"one", "two"}
        assert [task.conversation.repeats for task in told.tasks] == [0, 0]
