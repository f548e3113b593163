"""The account of tokens is what a scripted conversation asked for, and tells losses as losses."""

from dataclasses import replace

import anyio
import pytest

from tests.console.console_client import visible_text
from tests.limits import HANG_S
from tests.telemetry.test_metrics import opened
from toolgate.audit import compare_searches
from toolgate.base.ids import utc_now
from toolgate.errors import ApprovalError, CatalogError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import GuardTable, Settings
from toolgate.store import AuditFilter
from toolgate.telemetry.cost import cost_report
from toolgate.types import Caller

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
        assert use["never_used_servers"] == [], "nobody can know on the first day"
        assert (await client.get("/api/v1/cost?days=none")).status_code == 400
        assert (await client.get("/console/cost")).is_success
        app.gateway.listing._receipts.flush()
        await app.recorder.flush()
        assert await app.store.audit.select(AuditFilter(action="list")) == [], "nobody listed tools"


async def test_a_server_counts_as_never_used_after_two_weeks() -> None:
    async with opened() as (app, client):
        await app.gateway.calls.execute(ME, "a:good", {})

        async def age(server: str, days: float) -> None:
            rows = await app.store.catalog.fingerprints("default", server)
            seen_at = utc_now(plus_s=-days * 86_400)
            await app.store.catalog.save_fingerprints(
                [replace(row, seen_at=seen_at) for row in rows]
            )

        async def never_used(days: int) -> list[str]:
            use = (await client.get(f"/api/v1/tools/usage?days={days}")).json()
            return use["never_used_servers"]

        assert await never_used(30) == []
        for server in ("a", "b"):
            await age(server, 13.9)
        assert await never_used(30) == []
        for server in ("a", "b"):
            await age(server, 14.1)
        assert await never_used(1) == await never_used(30) == ["b"]


async def test_what_people_try_is_no_conversation_and_each_record_has_its_entry_point() -> None:
    async with opened(Settings(optimization="bm25", mode="meta")) as (app, client):
        body = {"query": "good"}
        headers = {"User-Agent": "toolgate-cli/0.1.0"}
        assert (await client.post("/api/v1/discover", json=body, headers=headers)).is_success
        await client.get("/console/search?q=good")
        assert (await client.get("/api/v1/cost?days=1")).json()["tasks"] == []
        assert await compare_searches(app.store) == []

        agent = {"User-Agent": "agent/1"}
        assert (await client.post("/api/v1/discover", json=body, headers=agent)).is_success
        await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("good",)))
        [mine, theirs] = (await client.get("/api/v1/cost?days=1")).json()["tasks"]
        assert {mine["client"], theirs["client"]} == {"tester", "agent/1"}
        records = await app.store.audit.select(AuditFilter(action="discover"))
        assert {(row.client, row.detail["entry_point"]) for row in records} == {
            ("toolgate-cli/0.1.0", "cli"), ("console", "console"), ("agent/1", "rest"),
            ("tester", "python"),
        }  # fmt: skip


async def test_a_call_that_waits_for_approval_has_not_failed() -> None:
    ask = GuardTable(tools=("a:good",), approver="user")
    async with opened(Settings(optimization="bm25", guard=(ask,))) as (app, client):
        with pytest.raises(ApprovalError) as waiting:
            await app.gateway.calls.execute(ME, "a:good", {})
        with pytest.raises(CatalogError):
            await app.gateway.calls.execute(ME, "a:none", {})
        await app.recorder.flush()
        failed = await app.store.audit.select(AuditFilter(action="call", failed=True))
        assert [row.status for row in failed] == ["unknown_tool"]
        counts = await app.store.audit.call_counts("2000-01-01")
        [task] = (await client.get("/api/v1/cost?days=1")).json()["tasks"]
        assert (sum(row.errors for row in counts), task["calls"], task["failed"]) == (1, 2, 1)

        approvals, approval_id = app.gateway.approvals, waiting.value.approval_id
        code = approvals._approvals.codes.code_of(approval_id)
        await approvals.decide(Caller.local(), approval_id, approve=False, via="rest", code=code)
        with pytest.raises(ApprovalError):
            await app.gateway.calls.execute(ME, "a:good", {})
        [task] = (await client.get("/api/v1/cost?days=1")).json()["tasks"]
        assert task["failed"] == 2, "a person has refused it"


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
    assert f"Overhead {-answer['saved_tokens']:,} tokens Listing every tool would" in page
    assert f"{answer['tokens']:,} tokens in 1 conversation" in page
    for name in ("tokens", "listed_tokens", "search_tokens", "turns", "saved_tokens"):
        assert f" {task[name]:,} " in page
    assert "Token overhead today" in home
    assert use["pins"] == ["a:good"]
    assert "consider pinning: a:good" in page
    assert "consider removing" not in page


async def test_what_takes_long_to_count_is_counted_beside_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolgate.console.counts_cache._FEW", 2)
    async with opened(Settings(optimization="bm25")) as (app, client):
        for _ in range(3):
            await app.gateway.calls.execute(ME, "a:good", {"x": 1})
        await app.recorder.flush()
        first = await client.get("/console/cost")
        assert "This period has many records" in visible_text(first.text)
        assert first.headers["refresh"] == "2"
        with anyio.fail_after(HANG_S):
            while "This period has many records" in visible_text(
                (await client.get("/console/cost")).text
            ):
                pass
        later = await client.get("/console/cost")
        assert "in 1 conversation" in visible_text(later.text)
        assert "refresh" not in later.headers
        home = await client.get("/console")
        assert "Counting the calls of this period…" in visible_text(home.text)
        assert home.headers["refresh"] == "2"
        with anyio.fail_after(HANG_S):
            while "Counting" in visible_text((await client.get("/console")).text):
                pass
        home = await client.get("/console")
        assert "Calls 3 in the last hour" in visible_text(home.text)
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
