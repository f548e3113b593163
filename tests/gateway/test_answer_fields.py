"""What a discovery tells beside the tools: source, time, how many were searched, why."""

import pytest

from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import IndexedTexts
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

ME = Caller.local()


def nothing(params: Json) -> Json:
    return text_result("")


def upstream(*names: str) -> FakeUpstream:
    return FakeUpstream(
        dict.fromkeys(names, nothing),
        definitions={name: {"description": f"Does {name.replace('_', ' ')}."} for name in names},
    )


SERVERS = {"mail": upstream("send_mail", "read_mail"), "sky": upstream("weather_forecast")}


@pytest.mark.parametrize(("optimization", "embedded"), [("bm25", False), ("hybrid", True)])
async def test_an_answer_says_how_it_was_found(optimization: str, embedded: bool) -> None:
    """Source document 003: totalSearched, searchDurationMs, embeddingGenerated, source."""
    async with memory_app(SERVERS, settings=Settings(optimization=optimization)) as app:
        await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("warm up",)))
        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("weather forecast",))
        )

    body = found.structured()
    assert body["total_searched"] == 3
    assert 0 < body["duration_ms"] < 5_000
    assert body["query_embedded"] is embedded
    assert body["results"][0]["toolKey"] == "sky:weather_forecast"
    assert body["results"][0]["source"] in {"exact", "lexical", "vector"}
    assert "reasons" not in body["results"][0]


async def test_reasons_are_given_to_those_who_ask_for_them() -> None:
    async with memory_app(SERVERS, settings=Settings(optimization="hybrid")) as app:
        found = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("a forecast please",))
        )

    reasons = found.structured(explain=True)["results"][0]["reasons"]
    assert reasons["matched"] == {"name": ["forecast"]}
    assert {"cosine", "score"} <= set(reasons)


async def test_pinned_tools_follow_what_was_found_when_wanted() -> None:
    settings = Settings(pinned=("mail:read_mail", "sky:weather_forecast", "gone:nowhere"))
    async with memory_app(SERVERS, settings=settings) as app:
        wanted = DiscoverRequest(queries=("weather",), include_core=True)
        with_core = await app.gateway.discovery.discover(ME, wanted)
        of_one = await app.gateway.discovery.discover(
            ME, DiscoverRequest(queries=("weather",), servers=("sky",), include_core=True)
        )
        without = await app.gateway.discovery.discover(ME, DiscoverRequest(queries=("weather",)))

    found = [(one.tool_key, one.source == "core") for one in with_core.results]
    assert found == [("sky:weather_forecast", False), ("mail:read_mail", True)]
    assert "mail:read_mail() [pinned]" in with_core.text
    for other in (of_one, without):
        assert [one.tool_key for one in other.results] == ["sky:weather_forecast"]


async def test_pinned_tools_of_a_server_that_was_found_follow_all_that_was_found() -> None:
    """They would take the place of hits of other servers in the budget of an answer."""
    settings = Settings(pinned=("sky:tide",), optimization="bm25")
    servers = {**SERVERS, "sky": upstream("weather_forecast", "tide")}
    async with memory_app(servers, settings=settings) as app:
        wanted = DiscoverRequest(queries=("weather forecast", "send mail"), include_core=True)
        found = await app.gateway.discovery.discover(ME, wanted)

    assert [one.tool_key for one in found.results] == [
        "sky:weather_forecast",
        "mail:send_mail",
        "mail:read_mail",
        "sky:tide",
    ]


async def test_the_texts_that_are_embedded_can_be_seen() -> None:
    async with memory_app(SERVERS) as app:
        seen = app.gateway.manage.vectors.texts(ME, ["mail:send_mail"])

    assert seen == {
        "mail:send_mail": IndexedTexts(
            indexed=("mail send mail: Does send mail.",),
            capabilities=("messaging", "communication"),
        )
    }
