"""The reranker `http` keeps the contract, with a service on a real socket."""

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from toolgate.errors import RerankerError
from toolgate.models.rerankers import Reranker
from toolgate.models.rerankers.http import Options, build
from toolgate.testing.contracts.reranker import PASSAGES, QUESTION, RerankerContract
from toolgate.testing.web_server import serve_application


class Service:
    """Counts words that question and document have in common."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: object = None
        self.status = 200
        self.url = ""

    async def rerank(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.answer is not None or self.status != 200:
            return web.json_response(self.answer, status=self.status)
        words = set(body["query"].split())
        scores = [len(words & set(text.split())) for text in body["documents"]]
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        results = [{"index": at, "relevance_score": float(scores[at])} for at in order]
        return web.json_response({"results": results})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    application = web.Application(client_max_size=2**24)
    application.router.add_post("/v1/rerank", service.rerank)
    async with serve_application(application) as url:
        service.url = f"{url}/v1"
        yield service


class TestHttp(RerankerContract):
    """All duties of a reranker."""

    @pytest.fixture
    def make_reranker(self, service: Service) -> Callable[[], Reranker]:
        return lambda: build(Options(url=service.url))


async def scores_of(service: Service, **options: object) -> list[float]:
    reranker = build(Options(url=service.url, **options))  # type: ignore[arg-type]
    try:
        return list(await reranker.scores(QUESTION, PASSAGES))
    finally:
        await reranker.aclose()


async def test_the_request_is_what_such_services_expect(service: Service) -> None:
    await scores_of(service, model="rerank-3", key="secret", longest=11)
    assert service.bodies == [
        {
            "model": "rerank-3",
            "query": QUESTION,
            "documents": [passage.text[:11] for passage in PASSAGES],
            "top_n": 3,
        }
    ]
    assert service.headers[0]["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"error": "no"}, 401, "refused with status 401"),
        ({"results": [{"index": 0, "relevance_score": 1}]}, 200, "1 results for 3 passages"),
        ({"results": [{"index": 7, "relevance_score": 1}]}, 200, "the result"),
        ({"results": [{"index": 0}]}, 200, "the result"),
        ("nonsense", 200, "0 results"),
    ],
)
async def test_what_is_wrong_is_said(
    service: Service, answer: object, status: int, words: str
) -> None:
    service.answer, service.status = answer, status
    with pytest.raises(RerankerError, match=words):
        await scores_of(service)


async def test_a_service_that_is_gone_is_named() -> None:
    reranker = build(Options(url="http://127.0.0.1:1/v1"))
    with pytest.raises(RerankerError, match="failed"):
        await reranker.scores(QUESTION, PASSAGES)
    await reranker.aclose()
