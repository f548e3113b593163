"""Cloud search as a client: what is sent, what is believed, what happens when nothing usable comes.

Source: source document 004, "Cloud REST" and "Fallback", and the issue of the search.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import jsonschema_rs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.limits import EMBEDDING_S, HANG_S
from tests.search.test_hybrid import Broken
from toolgate.errors import OptionError
from toolgate.search import SearchAnswer, SearchRequest, SearchStrategy, catalog_search_schema
from toolgate.search.strategies._catalog_search_json import read_answer
from toolgate.search.strategies._http_service import CircuitBreaker
from toolgate.search.strategies._service_error import ServiceError
from toolgate.search.strategies.bm25 import Options as Bm25Options
from toolgate.search.strategies.bm25 import build as build_bm25
from toolgate.search.strategies.cloud import CloudSearch, Options, build
from toolgate.search.strategies.hybrid import Options as HybridOptions
from toolgate.search.strategies.hybrid import build as build_hybrid
from toolgate.testing import FakeReply, FakeService, fake_service
from toolgate.testing.contracts.search import sample_tools
from toolgate.types import Json

TOKEN = "secret-token-0123456789"
ISSUE = SearchRequest(queries=("create an issue",))
KEYS = {tool.key for tool in sample_tools()}


def result(key: str = "mail:sendMail", relevance: object = 0.9, **others: Any) -> Json:
    server, _, name = key.partition(":")
    return {"toolKey": key, "toolName": name, "serverName": server, "relevance": relevance} | others


def results(*found: Json, **others: Any) -> Json:
    return {"results": list(found)} | others


@asynccontextmanager
async def searching(
    answer: object = None, **options: Any
) -> AsyncGenerator[tuple[CloudSearch, FakeService]]:
    """A cloud search over the sample tools, and the service that it asks."""
    async with fake_service(lambda _body: answer) as service:
        wanted: Json = {"url": service.url, "token": TOKEN, "timeout_s": 2.0, "local": "bm25"}
        search = build(
            Options(**wanted | options), make_search=lambda _name: build_bm25(Bm25Options())
        )
        await search.update(sample_tools())
        try:
            with anyio.fail_after(HANG_S):
                yield search, service
        finally:
            await search.aclose()


def keys(answer: SearchAnswer) -> list[str]:
    return [hit.key for hit in answer.hits]


# What is sent


async def test_the_request_is_the_one_of_the_source_document() -> None:
    async with searching(results(), project_id="team-a") as (search, service):
        await search.search(
            SearchRequest(
                queries=("open a ticket", " ", "tell somebody"),
                context="Support work.",
                limit=3,
                servers=("mail", "weather"),
            )
        )
        asked = service.requests[0]

    assert asked.path == "/catalog/search"
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.body == {
        "query": ["open a ticket", "tell somebody"],
        "context": "Support work.",
        "tools": [
            {
                "toolKey": "mail:sendMail",
                "toolName": "sendMail",
                "serverName": "mail",
                "description": "Send an e-mail to somebody.",
            },
            {
                "toolKey": "weather:get-forecast",
                "toolName": "get-forecast",
                "serverName": "weather",
                "description": "Weather forecast for a place.",
            },
        ],
        "maxResults": 3,
        "projectId": "team-a",
    }


async def test_without_options_nothing_is_sent_that_the_document_does_not_name() -> None:
    async with searching(results(), token="") as (search, service):
        await search.search(ISSUE)
        asked = service.requests[0]

    assert set(asked.body) == {"query", "tools", "maxResults"}
    assert "Authorization" not in asked.headers
    assert validator("SearchRequest").is_valid(asked.body)


async def test_tools_that_the_caller_may_not_see_are_not_sent() -> None:
    mask = np.array([tool.server == "github" for tool in sample_tools()])
    async with searching(results(result("mail:sendMail"))) as (search, service):
        answer = await search.search(replace(ISSUE, mask=mask))
        sent = {tool["serverName"] for tool in service.requests[0].body["tools"]}

    assert sent == {"github"}
    assert "mail:sendMail" not in keys(answer)


async def test_of_many_tools_the_likely_ones_are_sent() -> None:
    async with searching(results(), max_tools=2, description_chars=4) as (search, service):
        await search.search(SearchRequest(queries=("weather forecast",)))
        sent = service.requests[0].body["tools"]

    assert len(sent) == 2
    assert sent[0]["toolKey"] == "weather:get-forecast"
    assert sent[0]["description"] == "Weat"


async def test_nothing_is_asked_when_there_is_nothing_to_choose() -> None:
    nobody = np.zeros(len(KEYS), np.bool_)
    async with searching(results()) as (search, service):
        for request in (
            SearchRequest(queries=("", " \n")),
            replace(ISSUE, mask=nobody),
            replace(ISSUE, mask=nobody[1:]),
            replace(ISSUE, servers=("nowhere",)),
        ):
            answer = await search.search(request)
            assert answer.hits == ()
            assert answer.notices

        assert service.requests == []


# What is believed


async def test_the_service_chooses_and_says_why() -> None:
    found = results(
        result("mail:sendMail", 0.4, explanation="second"),
        result("files:read_file", 0.8, explanation="best\u202e of \x1b[31mall", score=7),
        notices=["Only a part was looked at."],
        version=3,
    )
    async with searching(found) as (search, _):
        answer = await search.search(ISSUE)

    assert [(hit.key, hit.relevance, hit.explanation, hit.source) for hit in answer.hits] == [
        ("files:read_file", 0.8, "best of all", "cloud"),
        ("mail:sendMail", 0.4, "second", "cloud"),
    ]
    assert answer.notices == ("Only a part was looked at.",)
    assert (answer.fallback, answer.searched) == ("", len(KEYS))


async def test_a_tool_that_is_named_is_found_though_the_service_leaves_it_out() -> None:
    async with searching(results(result("mail:sendMail"))) as (search, _):
        answer = await search.search(SearchRequest(queries=("files:read_file",)))

    assert keys(answer) == ["files:read_file", "mail:sendMail"]


async def test_an_empty_answer_is_an_answer() -> None:
    async with searching(results()) as (search, _):
        answer = await search.search(ISSUE)

    assert (answer.hits, answer.fallback) == ((), "")
    assert answer.notices == ("The search service found no tool that fits. Say it in other words.",)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
_keys = st.sampled_from([*sorted(KEYS), "evil:tool", "github:delete_all", ""]) | st.text(max_size=6)
_results = st.lists(
    st.fixed_dictionaries(
        {"toolKey": _keys, "relevance": st.floats(0, 1)},
        optional={
            "explanation": st.none() | st.text(),
            "toolName": _json,
            "serverName": _json,
            "extra": _json,
            "weak": _json,
        },
    )
    | _json,
    max_size=12,
)


@given(
    answer=st.fixed_dictionaries({"results": _results}, optional={"notices": _json}) | _json,
    allowed=st.sets(st.sampled_from(sorted(KEYS))),
)
@settings(max_examples=60, deadline=None)
def test_results_are_a_subset_of_the_tools_sent_whatever_comes(
    answer: object, allowed: set[str]
) -> None:
    """The issue: results are always a subset of the tools sent or allowed."""
    try:
        hits, notices = read_answer(answer, allowed, query="x")
    except ServiceError:
        return

    assert {hit.key for hit in hits} <= allowed
    assert len({hit.key for hit in hits}) == len(hits)
    assert all(0 <= hit.relevance <= 1 and hit.explanation.isprintable() for hit in hits)
    assert all(notice.isprintable() and len(notice) <= 240 for notice in notices)


@given(
    found=_results,
    hidden=st.sets(st.sampled_from(sorted(KEYS))),
    limit=st.integers(1, 6),
    query=st.sampled_from(["create_issue", "mail", '"forecast"', "zeppelin", "files:read_file"]),
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_whole_search_never_shows_what_is_hidden(
    found: list[Any], hidden: set[str], limit: int, query: str
) -> None:
    """Through the door, the network and the local search, with any answer."""

    async def run() -> SearchAnswer:
        body = json.dumps({"results": found}).encode()
        async with searching(FakeReply(body=body)) as (search, _):
            mask = np.array([key not in hidden for key in search.keys])
            return await search.search(SearchRequest(queries=(query,), limit=limit, mask=mask))

    answer = anyio.run(run)

    assert not hidden & set(keys(answer))
    assert set(keys(answer)) <= KEYS
    assert len(answer.hits) <= limit


# When nothing usable comes


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (FakeReply(status=500), "status 500"),
        (FakeReply(status=302, headers={"location": "http://127.0.0.1:1/"}), "status 302"),
        (FakeReply(status=401), "the token was refused with status 401"),
        (FakeReply(status=403), "the token was refused with status 403"),
        (FakeReply(body=b"<html>"), "an answer that is no JSON"),
        (FakeReply(body=b""), "an answer that is no JSON"),
        (FakeReply(body=b"[" * 9_000), "an answer that is no JSON"),
        (FakeReply(body=b"x" * 20_000), "an answer of more than 10,000 bytes"),
        (FakeReply(body=b'{"results": [' + b"0," * 9_000), "an answer of more than 10,000 bytes"),
        ([], "an answer without a list of results"),
        (None, "an answer without a list of results"),
        ({"results": {}}, "an answer without a list of results"),
        (results({"toolName": "x"}), "a result without toolKey"),
        (results(result(relevance=1.5)), "a relevance that is not a number from 0 to 1"),
        (results(result(relevance=10**30)), "a relevance that is not a number from 0 to 1"),
        (results(result(relevance=True)), "a relevance that is not a number from 0 to 1"),
        (results(result(relevance="0.5")), "a relevance that is not a number from 0 to 1"),
        (results(result(explanation=7)), "an explanation that is not text"),
        (results(result("evil:tool")), "an answer that names only tools which were not sent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_local_search_answers_and_the_reason_is_said(answer: Any, reason: str) -> None:
    async with searching(answer, max_answer_bytes=10_000) as (search, service):
        found = await search.search(ISSUE)

        assert len(service.requests) == 1
    assert set(keys(found)[:2]) == {"github:create_issue", "gitlab:create_issue"}
    assert {hit.source for hit in found.hits} == {"fallback"}
    assert found.notices[0] == f"Cloud search is not there ({reason}); this is the local search."
    assert found.fallback == f"cloud: {reason}"
    assert TOKEN not in str(found)


async def test_a_late_answer_is_not_waited_for() -> None:
    """Source document 004: a short timeout, e.g. 5 s; the default."""
    assert Options(url="http://x").timeout_s == 5
    async with searching(FakeReply(is_late=True), timeout_s=0.1) as (search, _):
        found = await search.search(ISSUE)

    assert found.fallback == "cloud: no answer within 0.1 s"
    assert found.duration_ms >= 100  # of the whole, not of the local search alone
    assert found.hits


async def test_what_the_local_search_lacks_counts_only_where_it_answers() -> None:
    def by_words_alone(_name: str) -> SearchStrategy:
        return build_hybrid(
            HybridOptions(embedding_wait_s=EMBEDDING_S), embedder=Broken("raises", ["query"])
        )

    async with fake_service(lambda body: results(result()) if body["maxResults"] == 1 else 5) as it:
        search = build(Options(url=it.url), make_search=by_words_alone)
        await search.update(sample_tools())
        answered = await search.search(replace(ISSUE, limit=1))
        failed = await search.search(replace(ISSUE, limit=2))
        await search.aclose()

    assert (keys(answered), answered.fallback) == (["mail:sendMail"], "")
    assert failed.fallback.startswith("cloud: ")
    assert "; hybrid: the embedder failed" in failed.fallback


async def test_a_service_that_is_not_there_is_said_without_its_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with searching(url="http://127.0.0.1:1") as (search, _):
        found = await search.search(ISSUE)

    assert found.fallback == "cloud: no connection: nobody listens there"
    assert found.hits
    assert TOKEN not in caplog.text + str(found) + repr(Options(url="http://x", token=TOKEN))


async def test_a_token_that_no_header_can_carry_is_a_failure_like_others() -> None:
    async with searching(results(), token="two\nlines") as (search, service):
        found = await search.search(ISSUE)

        assert service.requests == []
    assert found.fallback == "cloud: its address or token cannot be sent"
    assert found.hits


async def test_after_several_failures_the_service_is_left_alone_and_then_tried_again() -> None:
    async with searching(FakeReply(status=500), failures=2, cooldown_s=0) as (search, service):
        for _ in range(3):
            await search.search(ISSUE)
        assert len(service.requests) == 3  # no rest at all: always tried again

    async with searching(FakeReply(status=500), failures=2, cooldown_s=60) as (search, service):
        said = [(await search.search(ISSUE)).fallback for _ in range(5)]
        assert len(service.requests) == 2
        assert said[:2] == ["cloud: status 500"] * 2
        assert set(said[2:]) == {"cloud: it failed several times and is left alone for a while"}
        assert search.is_suspended


def test_the_breaker_lets_one_request_through_after_its_rest() -> None:
    now = 0.0
    breaker = CircuitBreaker(failures=2, cooldown_s=10, clock=lambda: now)
    asked: list[bool] = []
    for _ in range(2):
        asked.append(breaker.allows())
        breaker.failed()
    asked.append(breaker.allows())
    now = 10.0
    asked += [breaker.allows(), breaker.allows()]  # the second waits for how the first ends
    breaker.succeeded()
    asked += [breaker.allows(), breaker.allows()]

    assert asked == [True, True, False, True, False, True, True]


async def test_a_success_in_between_counts_from_the_start() -> None:
    async with searching(failures=2, cooldown_s=60) as (search, service):
        for answer in (FakeReply(status=500), results(), FakeReply(status=500), results()):
            service.answer = lambda _body, answer=answer: answer
            await search.search(ISSUE)

        assert len(service.requests) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Option 'url' is ''."),
        ({"url": "ftp://x"}, "Option 'url' is 'ftp://x'."),
        ({"url": "http://x", "timeout_s": 0}, "Option 'timeout_s' is 0."),
        ({"url": "http://x", "local": "cloud"}, "Option 'local' is 'cloud'."),
        ({"url": "http://x", "max_tools": 0}, "Option 'max_tools' is 0."),
    ],
)
def test_options_out_of_range_are_refused(options: Json, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Options(**options)

    assert refused.value.failed == said
    assert refused.value.allowed.startswith("Allowed: ")


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schema = catalog_search_schema()
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", **schema})
