"""`optimization` and `experiment_percent`: which conversation gets which search, and what it costs.

Sources: source document 004 ("Project Settings"), the issue of the search, and decision 18.
"""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.audit import compare_searches
from toolgate.errors import UnknownPluginError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import Experiment, Variant
from toolgate.search.strategies.off import NoSearch
from toolgate.server.rest.routes.reports import WeekQuery, optimization
from toolgate.server.rest.routing import Call
from toolgate.settings import SearchSettings, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json


def done(params: Json) -> Json:
    return text_result("done")


def servers() -> dict[str, object]:
    return {"files": FakeUpstream({"read_file": done, "write_file": done})}


META = ["tool_discovery", "tool_describe", "tool_execute"]


def settings(optimization: str, share: float = 100, **others: Any) -> Settings:
    """With `auto_tokens = 0` the meta-tools are listed however small the catalog is."""
    discovery = replace(Settings().discovery, auto_tokens=0)
    return Settings(
        optimization=optimization, experiment_percent=share, discovery=discovery, **others
    )


def callers(count: int = 40) -> list[Caller]:
    return [
        Caller.local(client="tester", conversation=f"thread {number}") for number in range(count)
    ]


async def listed(app: App, caller: Caller) -> list[str]:
    return [tool["name"] for tool in json.loads(await app.gateway.listing.list_tools(caller))]


async def found(app: App, caller: Caller) -> list[str]:
    answer = await app.gateway.discovery.discover(caller, DiscoverRequest(queries=("read a file",)))
    return [one.tool_key for one in answer.results]


async def test_off_finds_nothing_says_why_and_lists_the_real_tools() -> None:
    """No client is left without tools."""
    async with memory_app(servers(), settings("off")) as app:
        answer = await app.gateway.discovery.discover(
            Caller.local(), DiscoverRequest(queries=("read a file",))
        )

        assert answer.results == ()
        assert "switched off" in answer.notices[0]
        assert answer.text.startswith("Note: The search for tools is switched off here.")
        assert await listed(app, Caller.local()) == ["files__read_file", "files__write_file"]
        assert "Tools are named server__tool" in app.gateway.listing.instructions(Caller.local())


async def test_with_a_search_the_meta_tools_are_listed() -> None:
    async with memory_app(servers(), settings("bm25")) as app:
        assert await listed(app, Caller.local()) == META
        assert await found(app, Caller.local()) == ["files:read_file", "files:write_file"]


async def test_an_unknown_search_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownPluginError) as refused:
        async with memory_app(servers(), settings("bm52")):
            pass

    assert str(refused.value).startswith("search 'bm52' does not exist. Available: bm25, cloud,")
    assert "Set optimization to one of these" in str(refused.value)


@pytest.mark.parametrize("share", [0, 25, 100])
async def test_a_conversation_without_search_has_the_real_tools(share: int) -> None:
    """Menu and search of one conversation agree, whichever it gets."""
    async with memory_app(servers(), settings("bm25", share)) as app:
        searched = 0
        for caller in callers():
            names, keys = await listed(app, caller), await found(app, caller)
            assert (names == META) == bool(keys)
            assert (names == ["files__read_file", "files__write_file"]) == (not keys)
            searched += bool(keys)

        assert {0: searched == 0, 25: 2 <= searched <= 20, 100: searched == 40}[share]
        assert await found(app, callers()[7]) == await found(app, callers()[7])


def test_a_larger_share_only_adds_conversations() -> None:
    """A stable hash: who has the new search keeps it."""
    main, control = (Variant(name=name, strategy=NoSearch()) for name in ("hybrid", "bm25"))
    before: set[str] = set()
    for share in (0, 1, 10, 50, 90, 100):
        experiment = Experiment(main=main, control=control, share_percent=share)
        now = {
            f"c{at}"
            for at in range(2_000)
            if experiment.variant_for(("p", "who", f"c{at}")) is main
        }

        assert before <= now
        assert abs(len(now) / 20 - share) < 4
        before = now


def test_conversations_of_others_are_other_conversations() -> None:
    """The same name of a session says nothing across callers and projects."""
    main, control = (Variant(name=name, strategy=NoSearch()) for name in ("hybrid", "bm25"))
    experiment = Experiment(main=main, control=control, share_percent=50)
    same = [
        experiment.variant_for((f"p{at}", "who", "thread"))
        is experiment.variant_for(("p", f"who{at}", "thread"))
        for at in range(200)
    ]

    assert 50 < sum(same) < 150


async def test_both_sides_are_compared_by_what_they_cost_and_whether_they_helped() -> None:
    async with memory_app(servers(), settings("bm25", 50)) as app:
        for caller in callers(20):
            if keys := await found(app, caller):
                await app.gateway.calls.execute(caller, keys[0], {})
        await app.recorder.flush()
        reports = {one.optimization: one for one in await compare_searches(app.store)}
        shown = await optimization(Call(app=app, caller=Caller.local()), WeekQuery(days=1))

    bm25, off = reports["bm25"], reports["off"]
    assert bm25.conversations + off.conversations == bm25.searches + off.searches == 20
    assert (bm25.executed_share, off.executed_share) == (1.0, 0.0)
    assert (bm25.without_result, off.without_result) == (0, off.searches)
    assert bm25.tokens_mean > off.tokens_mean > 0
    assert bm25.tokens == pytest.approx(bm25.tokens_mean * bm25.searches, rel=0.01)
    assert 0 < bm25.duration_ms_p50 <= bm25.duration_ms_p95
    assert (shown["optimization"], shown["control"], shown["share_percent"]) == ("bm25", None, 50)
    assert [one["optimization"] for one in shown["searches"]] == ["bm25", None]


async def test_another_search_takes_over_while_running() -> None:
    """New settings are taken over; the tools need not be listed again."""
    async with memory_app(servers(), settings("off")) as app:
        assert await found(app, Caller.local()) == []
        told: list[str] = []
        app.gateway.changes.on_change(lambda change: told.append(change.kind))

        same = app.settings.servers
        with anyio.fail_after(HANG_S):
            await app.reload(replace(settings("bm25"), servers=same))

        assert await found(app, Caller.local()) == ["files:read_file", "files:write_file"]
        assert await listed(app, Caller.local()) == META
        assert "tools" in told


async def test_settings_with_an_unknown_search_change_nothing() -> None:
    async with memory_app(servers(), settings("bm25")) as app:
        with pytest.raises(UnknownPluginError):
            await app.reload(replace(settings("bm52"), servers=()))

        assert await found(app, Caller.local()) == ["files:read_file", "files:write_file"]


async def test_off_shows_no_pinned_tool_either() -> None:
    """They are in the list; what discovery answers is its reason."""
    pinned = settings("off", pinned=("files:read_file",))
    async with memory_app(servers(), pinned) as app:
        assert await found(app, Caller.local()) == []


async def test_vectors_of_the_local_search_can_be_looked_after() -> None:
    """A search that asks another one hides nothing of it."""
    options = {"cloud": {"url": "http://127.0.0.1:1", "local": "hybrid"}}
    cloud = replace(settings("cloud"), search=SearchSettings(options=options))
    async with memory_app(servers(), cloud) as app:
        status = await app.gateway.manage.vectors.status(Caller.local())

        assert [one["search"] for one in status["searches"]] == ["cloud"]
        assert status["searches"][0]["servers"][0]["tools"] == 2
