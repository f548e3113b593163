"""Prompts, resources, templates and skills: found beside tools, read like a call."""

from typing import Any

import anyio
import orjson
import pytest

from tests.limits import HANG_S
from toolgate.errors import ArgumentError, UnknownToolError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

ME = Caller.local()
META = Settings(mode="meta")
SKILL = "docs:skill://refunds/SKILL.md"


def shop() -> FakeUpstream:
    """Tools about an online shop."""
    texts = {
        "list_orders": "List the orders of a customer.",
        "cancel_order": "Cancel an order that was not shipped yet.",
        "get_invoice": "Download the invoice of an order as PDF.",
        "create_coupon": "Create a coupon code with a discount.",
    }
    return FakeUpstream(
        dict.fromkeys(texts, lambda _: text_result("done")),
        definitions={name: {"description": text} for name, text in texts.items()},
    )


def docs() -> FakeUpstream:
    """A server that offers one of everything but tools."""
    return FakeUpstream(
        prompts=(
            {
                "name": "weekly_report",
                "description": "Write the weekly sales report.",
                "arguments": [{"name": "week", "description": "ISO week", "required": True}],
            },
        ),
        resources=(
            {
                "uri": "skill://refunds/SKILL.md",
                "name": "refunds",
                "description": "How to refund a customer",
            },
            {"uri": "docs://opening-hours", "name": "Opening hours of the branches"},
        ),
        templates=(
            {
                "uriTemplate": "manual://{product}/{page}",
                "name": "Product manual",
                "description": "A page of the user manual of a product.",
            },
        ),
    )


async def found(app: Any, query: str, who: Caller = ME, **arguments: Any) -> list[str]:
    request = DiscoverRequest(queries=(query,), **arguments)
    answer = await app.gateway.discovery.discover(who, request)
    return [result.tool_key for result in answer.results]


async def meta(app: Any, tool: str, **arguments: Any) -> Json:
    return await app.gateway.call(ME, {"name": tool, "arguments": arguments}, None)


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("how to refund a customer", SKILL),
        ("write the weekly sales report", "docs:prompt:weekly_report"),
        ("opening hours", "docs:docs://opening-hours"),
        ("page of the product manual", "docs:manual://{product}/{page}"),
    ],
)
@pytest.mark.parametrize("optimization", ["hybrid", "bm25"])
async def test_what_is_no_tool_is_found_first_where_it_fits_best(
    query: str, key: str, optimization: str
) -> None:
    settings = Settings(mode="meta", optimization=optimization)
    async with memory_app({"shop": shop(), "docs": docs()}, settings) as app:
        assert (await found(app, query))[0] == key


async def test_a_skill_that_fits_silences_that_no_tool_does() -> None:
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        answer = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("how to refund a customer",))
        )
    assert answer.fit == "good"
    assert not any("Nothing fits" in notice for notice in answer.notices)
    assert f"{SKILL} [" in answer.text
    assert ", skill]" in answer.text
    first = answer.structured(brief=True)["results"][0]
    assert (first["toolKey"], first["kind"]) == (SKILL, "skill")


async def test_tools_keep_their_places_where_they_fit() -> None:
    async with memory_app({"shop": shop()}, META) as app:
        alone = await found(app, "cancel an order")
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        assert await found(app, "cancel an order") == alone


async def test_a_request_can_ask_for_kinds() -> None:
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        prompts = await meta(app, "tool_discovery", query="sales report", kind="prompt")
        keys = [result["toolKey"] for result in prompts["structuredContent"]["results"]]
        assert keys == ["docs:prompt:weekly_report"]
        tools = await found(app, "how to refund a customer", kinds=("tool",))
        assert all(key.startswith("shop:") for key in tools)
        wrong = await meta(app, "tool_discovery", query="x", kind="skills")
        assert wrong["isError"]
        assert "template" in str(wrong)


async def test_what_is_found_is_read_with_tool_execute() -> None:
    async with memory_app({"docs": docs()}, META) as app:
        skill = await meta(app, "tool_execute", toolKey=SKILL)
        assert skill["content"] == [{"type": "text", "text": "body of skill://refunds/SKILL.md"}]
        page = await meta(
            app,
            "tool_execute",
            toolKey="docs:manual://{product}/{page}",
            arguments={"product": "tea pot/2", "page": 7},
        )
        assert page["content"][0]["text"] == "body of manual://tea%20pot%2F2/7"
        prompt = await meta(
            app, "tool_execute", toolKey="docs:prompt:weekly_report", arguments={"week": "12"}
        )
        assert prompt["content"] == [{"type": "text", "text": "prompt weekly_report"}]


async def test_arguments_that_a_template_lacks_are_named() -> None:
    async with memory_app({"docs": docs()}, META) as app:
        key = "docs:manual://{product}/{page}"
        for arguments, named in (({"product": "x"}, "page"), ({"chapter": "x"}, "chapter")):
            with pytest.raises(ArgumentError, match=named):
                await app.gateway.calls.execute(ME, key, arguments)


async def test_describing_shows_what_a_prompt_needs() -> None:
    async with memory_app({"docs": docs()}, META) as app:
        described = await app.gateway.discovery.describe(ME, ["docs:prompt:weekly_report", SKILL])
    prompt, skill = described.tools
    assert prompt["inputSchema"]["required"] == ["week"]
    assert (skill["kind"], skill["description"]) == ("skill", "How to refund a customer")


async def test_long_contents_are_paged() -> None:
    async with memory_app({"docs": docs()}, META) as app:
        long = {"product": "word" * 100_000, "page": "1"}
        key = "docs:manual://{product}/{page}"
        result = await meta(app, "tool_execute", toolKey=key, arguments=long)
    assert len(orjson.dumps(result)) < 200_000
    assert "result_read" in str(result)


async def test_a_tool_with_the_key_of_a_prompt_stays_reachable() -> None:
    upstream = docs()
    upstream.tools["prompt:weekly_report"] = lambda _: text_result("the tool")
    async with memory_app({"docs": upstream}, META) as app:
        result = await app.gateway.calls.execute(ME, "docs:prompt:weekly_report", {})
    assert result == text_result("the tool")


async def test_contents_that_a_caller_may_not_read_are_not_there() -> None:
    settings = Settings(mode="meta", auth="required")
    reader = Caller(caller_id="ann", identity=Identity(caller_id="ann", kind="token"))
    async with memory_app({"shop": shop(), "docs": docs()}, settings) as app:
        await app.gateway.admin.add_permissions(
            ME, effect="allow", patterns=["shop", "prompt=docs:*"], to=["everyone"]
        )
        for by_kind in ((), ("skill", "resource", "template")):
            keys = await found(app, "how to refund a customer", who=reader, kinds=by_kind)
            assert not any(key.startswith("docs:") for key in keys)
        with pytest.raises(UnknownToolError):
            await app.gateway.calls.execute(reader, SKILL, {})
        with pytest.raises(UnknownToolError):
            await app.gateway.discovery.describe(reader, [SKILL])
        report = await found(app, "write the weekly sales report", who=reader)
        assert report[0] == "docs:prompt:weekly_report"


async def test_changes_of_the_lists_reach_the_search() -> None:
    upstream = docs()
    async with memory_app({"shop": shop(), "docs": upstream}, META) as app:
        assert (await found(app, "how to refund a customer"))[0] == SKILL
        upstream.resources = ()
        await upstream.announce("notifications/resources/list_changed")
        with anyio.fail_after(HANG_S):
            while SKILL in await found(app, "how to refund a customer"):
                await anyio.sleep(0.01)


async def test_without_a_search_nothing_is_added() -> None:
    settings = Settings(mode="meta", optimization="off")
    async with memory_app({"shop": shop(), "docs": docs()}, settings) as app:
        assert not any(key.startswith("docs:") for key in await found(app, "refund"))


async def test_tools_far_behind_a_skill_that_fits_are_left_out() -> None:
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        answer = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("how to refund a customer",))
        )
        least = 0.08 * max(result.relevance for result in answer.results)
        assert all(result.relevance >= least for result in answer.results[2:])


async def test_a_skill_for_one_step_leaves_the_other_steps_in_their_order() -> None:
    steps = ("cancel an order", "how to refund a customer", "create a coupon")
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        answer = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=steps))
    keys = [result.tool_key for result in answer.results]
    assert keys[0] == "shop:cancel_order"
    assert {SKILL, "shop:create_coupon"} < set(keys)


async def test_a_step_that_only_prompts_may_fit_is_judged_by_them() -> None:
    async with memory_app({"shop": shop(), "docs": docs()}, META) as app:
        for query in ("order a pizza", "book a flight", "manual of a lawn mower"):
            answer = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=(query,)))
            said = [notice for notice in answer.notices if "fit" in notice]
            assert bool(said) == (answer.fit != "good"), query
            shown = [result.relevance for result in answer.results if not result.weak]
            assert shown == sorted(shown, reverse=True)


async def test_no_step_of_a_long_request_is_lost() -> None:
    texts = {
        "list_branches": "List the branches of a repository.",
        "send_email": "Send an email to somebody.",
        "create_issue": "Create an issue in a tracker.",
        "read_file": "Read the content of a file.",
        "current_time": "Tell the current time in a time zone.",
        "create_workbook": "Create a new workbook for spreadsheets.",
        "translate_text": "Translate a text to another language.",
    }
    tools = FakeUpstream(
        dict.fromkeys(texts, lambda _: text_result("done")),
        definitions={name: {"description": text} for name, text in texts.items()},
    )
    async with memory_app({"office": tools}, META) as app:
        steps = tuple(name.replace("_", " ") for name in texts)
        answer = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=steps))
        assert {f"office:{name}" for name in texts} <= set(answer.shown_keys)
        few = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=steps, max_results=3)
        )
        assert len(few.results) == 3
