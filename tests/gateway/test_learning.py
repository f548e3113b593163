"""Learning from use, through the whole gateway: find, call, find again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.errors import ArgumentError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import Discovery
from toolgate.settings import SearchSettings, Settings, UsageSettings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

REAL_TOOLS = Path(__file__).parents[2] / "benchmarks" / "data" / "real_tools.jsonl"
ME = Caller.local(caller_id="me", conversation="c")
QUERY = "let the others know about the party"


def run(params: Json) -> Json:
    wrong = params.get("arguments") == {"fail": True}
    return {**text_result("done"), "isError": True} if wrong else text_result("done")


def upstream(**tools: str) -> FakeUpstream:
    return FakeUpstream(
        dict.fromkeys(tools, run),
        definitions={name: {"description": text} for name, text in tools.items()},
    )


def servers() -> dict[str, object]:
    return {
        "mail": upstream(send_mail="Send a letter to people.", read_mail="Read letters."),
        "chat": upstream(post="Write a message to a room.", rooms="Show rooms."),
        "party": upstream(plan="Plan a party.", guests="Tell who comes to the party."),
        "post": upstream(send_mail="Send a letter to people by post."),
    }


PATIENT = SearchSettings(options={"hybrid": {"embed_timeout_s": 20.0, "embedding_wait_s": 20.0}})
HYBRID = Settings(optimization="hybrid", search=PATIENT)


async def ranked(app: App, query: str = QUERY, **wanted: object) -> list[str]:
    found = await app.gateway.discovery.discover(
        ME, replace(DiscoverRequest(queries=(query,), max_results=7), **wanted)
    )
    return [one.tool_key for one in found.results]


async def test_one_use_raises_a_tool_and_several_callers_put_it_first() -> None:
    """Source document 003, future enhancement 1."""
    request = DiscoverRequest(queries=(QUERY,), max_results=7)
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        before = await app.gateway.discovery.discover(ME, request)
        used = before.results[1].tool_key
        await app.gateway.calls.execute(ME, used, {})
        once = await app.gateway.discovery.discover(ME, request)
        for number in range(4):
            caller = Caller.local(caller_id=f"caller {number}", conversation="c")
            await app.gateway.discovery.discover(caller, request)
            await app.gateway.calls.execute(caller, used, {})
        often = await app.gateway.discovery.discover(ME, request)

    raised = next(tool for tool in once.results if tool.tool_key == used)
    assert "used for similar requests" in raised.explanation
    assert before.results[1].relevance < raised.relevance <= 0.5
    assert once.results[0].tool_key == before.results[0].tool_key
    best = often.results[0]
    assert best.tool_key == used
    assert best.source == "usage"
    assert best.reasons["usage"] > 0.5
    assert {tool.tool_key for tool in often.results} == {tool.tool_key for tool in before.results}


async def test_another_wording_that_leads_to_a_call_teaches_the_first() -> None:
    first, second = "tell everybody about the party", "write to everybody about the party"
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        await ranked(app, first, max_results=1)
        await ranked(app, "read letters", max_results=1)
        assert "chat:post" in await ranked(app, second)
        await app.gateway.calls.execute(ME, "chat:post", {})
        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=(first,), max_results=7)
        )
        assert (await app.gateway.learning.status(ME)).requests == 2

    post = next(tool for tool in found.results if tool.tool_key == "chat:post")
    assert "used for similar requests" in post.explanation


async def test_an_error_and_a_tool_that_was_not_shown_teach_nothing() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        shown = await ranked(app, max_results=1)
        await app.gateway.calls.execute(ME, shown[0], {"fail": True})

        assert (await app.gateway.learning.status(ME)).requests == 0


async def test_it_can_be_switched_off() -> None:
    settings = replace(HYBRID, usage=UsageSettings(enabled=False))
    async with memory_app(servers(), settings, wait_s=HANG_S) as app:
        before = await ranked(app)
        await app.gateway.calls.execute(ME, before[-1], {})

        assert await ranked(app) == before
        assert (await app.store.sizes())["usage_searches"] == 0
        with pytest.raises(ArgumentError, match=r"usage\.enabled"):
            await app.gateway.learning.mark(ME, before[0], right=True)


async def test_a_tool_that_was_marked_wrong_goes_down_and_stays() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        before = await ranked(app, "plan a party")
        await app.gateway.learning.mark(ME, before[0], right=False)

        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("plan a party",), max_results=7)
        )

        wrong = next(one for one in found.results if one.tool_key == before[0])
        assert "called wrong" in wrong.explanation or wrong.source == "exact"


async def test_a_wrong_mark_counts_for_others_once_two_callers_agree() -> None:
    """One mark put the tool that fits best behind others, for everybody in the project."""
    request = DiscoverRequest(queries=("send a letter to people",), max_results=7)

    async def mark(name: str, key: str, *, right: bool) -> None:
        caller = Caller.local(caller_id=name, conversation="c")
        await app.gateway.discovery.discover(caller, request)
        await app.gateway.learning.mark(caller, key, right=right)

    async def first(name: str) -> str:
        caller = Caller.local(caller_id=name, conversation="d")
        return (await app.gateway.discovery.discover(caller, request)).results[0].tool_key

    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        best = await first("ann")
        await mark("bob", best, right=False)
        assert await first("bob") != best
        assert await first("ann") == best
        await mark("cid", best, right=False)
        assert await first("ann") != best
        await mark("bob", best, right=True)
        assert await first("ann") == best
        assert await first("cid") != best


async def test_a_right_mark_takes_back_all_wrong_marks_of_its_caller() -> None:
    request = DiscoverRequest(queries=("send a letter to people",), max_results=7)
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        best = (await app.gateway.discovery.discover(ME, request)).results[0].tool_key
        for right in (False, False, True):
            await app.gateway.discovery.discover(ME, request)
            await app.gateway.learning.mark(ME, best, right=right)

        after = await app.gateway.discovery.discover(ME, request)

    assert after.results[0].tool_key == best


async def test_a_request_with_a_use_and_a_wrong_mark_counts_once() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        best, second, *_ = await ranked(app)
        await app.gateway.learning.mark(ME, best, right=False)
        await app.gateway.calls.execute(ME, second, {})

        assert (await app.gateway.learning.status(ME)).requests == 1


async def test_use_changes_the_order_and_not_whether_the_best_hit_fits() -> None:
    """One caller's use of another tool made the answer say `none` instead of `unsure`."""
    tools = [json.loads(line) for line in REAL_TOOLS.read_text("utf-8").splitlines()]
    chosen = {
        server: upstream(
            **{tool["name"]: tool["description"] for tool in tools if tool["server"] == server}
        )
        for server in ("filesystem", "github", "gitlab", "slack", "memory")
    }
    request = DiscoverRequest(queries=("search the web",), max_results=6)
    async with memory_app(chosen, HYBRID, wait_s=HANG_S) as app:
        before = await app.gateway.discovery.discover(ME, request)
        used = before.results[-1].tool_key
        for number in range(5):
            caller = Caller.local(caller_id="another", conversation=str(number))
            await app.gateway.discovery.discover(caller, request)
            await app.gateway.learning.mark(caller, used, right=True)
        after = await app.gateway.discovery.discover(ME, request)

    assert [result.tool_key for result in after.results].index(used) < 5
    assert after.results[0].tool_key == before.results[0].tool_key
    judged = ("margin", "close_competitors", "kind_served", "kind_agreement", "kind_lead")
    reasons = [found.results[0].reasons for found in (before, after)]
    assert [reasons[0][name] for name in judged] == [reasons[1][name] for name in judged]
    assert after.fit == before.fit


async def test_near_equal_tools_are_named_with_each_other() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        await app.gateway.discovery.groups(ME)

        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("send a letter",))
        )

        alternatives = {one.tool_key: one.alternatives for one in found.results}
        assert alternatives["mail:send_mail"] == ("post:send_mail",)
        assert "same as: post:send_mail" in found.text


async def test_tools_used_together_are_offered_with_a_hit() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        for _ in range(3):
            for query, key in (
                ("who comes to the party", "party:guests"),
                ("write a message to a room", "chat:post"),
            ):
                assert key in await ranked(app, query)
                await app.gateway.calls.execute(ME, key, {})

        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("who comes to the party",), max_results=1)
        )

        assert found.results[0].tool_key == "party:guests"
        assert [key for key, _ in found.results[0].used_with] == ["chat:post"]
        assert "often used with: chat:post" in found.text


async def test_a_tool_used_in_the_same_conversations_rises_behind_the_best_hit() -> None:
    steps = "plan a party and then read the letters of people"
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        before = await ranked(app, steps)
        first, last = before[0], before[-1]
        for number in range(8):
            caller = Caller.local(caller_id=f"caller {number}", conversation="c")
            for key in (first, last):
                await app.gateway.discovery.discover(caller, DiscoverRequest(queries=(key,)))
                await app.gateway.calls.execute(caller, key, {})
        request = DiscoverRequest(queries=(steps,), max_results=7)
        after = (await app.gateway.discovery.discover(ME, request)).results

    keys = [tool.tool_key for tool in after]
    assert keys[0] == first
    assert keys.index(last) < before.index(last)
    assert after[keys.index(last)].reasons["habit"] > 0
    assert "often used" in after[keys.index(last)].explanation
    assert set(before) <= set(keys)


async def test_a_group_narrows_the_search_and_an_unknown_one_is_told() -> None:
    settings = replace(HYBRID, groups={"letters": ("mail", "post:*")})
    async with memory_app(servers(), settings, wait_s=HANG_S) as app:
        assert {
            key.partition(":")[0] for key in await ranked(app, "send a letter", group="Letters")
        } == {
            "mail",
            "post",
        }
        with pytest.raises(ArgumentError, match="Groups: letters"):
            await ranked(app, group="leters")
        named = (await app.gateway.discovery.groups(ME))[0]
        assert named == {
            "name": "letters",
            "servers": ["mail", "post"],
            "tools": 3,
            "derived": False,
        }


async def test_a_group_says_which_of_the_servers_asked_for_it_does_not_have() -> None:
    settings = replace(HYBRID, groups={"letters": ("mail", "post:*")})
    async with memory_app(servers(), settings, wait_s=HANG_S) as app:

        async def found(*names: str) -> Discovery:
            wanted = DiscoverRequest(queries=("send a letter",), group="letters", servers=names)
            return await app.gateway.discovery.discover(ME, wanted)

        beside, one, both = await found("chat"), await found("mail"), await found("mail", "chat")

    outside = "Group 'letters' has no tool of server 'chat'."
    assert beside.results == ()
    assert beside.notices[0] == outside
    assert not any("has no tool here" in notice for notice in beside.notices)
    assert outside not in one.notices
    assert {each.server_name for each in both.results} == {"mail"}
    assert outside in both.notices


async def test_a_group_without_a_tool_says_so() -> None:
    settings = replace(HYBRID, groups={"letters": ("fax", "telegraph:*")})
    async with memory_app(servers(), settings, wait_s=HANG_S) as app:
        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("send a letter",), group="Letters")
        )

    assert found.results == ()
    assert found.notices[0] == (
        "Group 'Letters' has no tool: nothing here fits what [groups] names."
    )


async def test_what_was_learned_can_be_forgotten() -> None:
    async with memory_app(servers(), HYBRID, wait_s=HANG_S) as app:
        before = await ranked(app)
        await app.gateway.calls.execute(ME, before[-1], {})
        assert (await app.gateway.learning.status(ME)).requests == 1

        assert await app.gateway.learning.clear(ME) == 1

        assert (await app.gateway.learning.status(ME)).requests == 0
