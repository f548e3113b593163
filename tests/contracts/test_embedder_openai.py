"""The embedder `openai` keeps the contract over a real connection, and survives bad services."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import numpy as np
import pytest

from tests.limits import HANG_S
from toolgate.errors import EmbedderError, OptionError
from toolgate.models.embedders import Embedder
from toolgate.models.embedders._vector_table import read_table
from toolgate.models.embedders.bundled import MODEL
from toolgate.models.embedders.openai import OpenAiEmbedder, Options, build
from toolgate.testing.contracts.embedder import EmbedderContract

CHANGES: list[dict[str, Any]] = [{}, {"model": "m"}, {"dim": 8}, {"query_prefix": "q"}]
"""Options that each change the vectors."""

TEXTS = ("a new issue", "the weather")


class Service(ThreadingHTTPServer):
    """Answers like OpenAI's, with the vectors of the bundled table."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.table = read_table(MODEL)
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.failures: list[tuple[int, dict[str, str]]] = []
        """Statuses and headers of the next answers."""
        self.spoil: Callable[[dict[str, Any]], object] = lambda answer: answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, body: dict[str, Any]) -> object:
        rows = [self.table.vector(text) * 3 for text in body["input"]]  # not of length 1
        data = [
            {
                "index": index,
                "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode()
                if body["encoding_format"] == "base64"
                else row.tolist(),
            }
            for index, row in enumerate(rows)
        ]
        return self.spoil({"object": "list", "data": data})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service  # pyright: ignore[reportIncompatibleVariableOverride] - the one it is given

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((headers, body))
        status, more = self.server.failures.pop(0) if self.server.failures else (200, {})
        found = self.server.answer(body) if self.path == "/v1/embeddings" else {}
        payload = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(payload)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class TestOpenAi(EmbedderContract):
    """All duties of an embedder."""

    @pytest.fixture
    def make_embedder(self, service: Service) -> Callable[[], Embedder]:
        return lambda: build(Options(url=service.url, dim=256, batch=512))


@pytest.fixture
async def ask(service: Service):
    """Embeds two texts with the options given."""
    made: list[OpenAiEmbedder] = []

    async def embed(**options: Any) -> np.ndarray:
        wanted: dict[str, Any] = {"url": service.url, "dim": 256, "retries": 1} | options
        made.append(build(Options(**wanted)))
        with anyio.fail_after(HANG_S):
            return await made[-1].embed(TEXTS, "query")

    yield embed
    for embedder in made:
        await embedder.aclose()


async def test_the_token_and_the_model_are_sent(service: Service, ask: Any) -> None:
    await ask(key="secret", model="some", shorten=True)
    headers, body = service.asked[0]

    assert headers["authorization"] == "Bearer secret"
    assert body == {
        "model": "some",
        "input": [*TEXTS],
        "encoding_format": "base64",
        "dimensions": 256,
    }


async def test_texts_go_in_batches_with_their_prefix(service: Service, ask: Any) -> None:
    await ask(batch=1, query_prefix="query: ", longest=5)

    assert [body["input"] for _, body in service.asked] == [["query: a new"], ["query: the w"]]


async def test_lists_of_numbers_are_read_too(service: Service, ask: Any) -> None:
    """Many services know no base64."""
    wanted = await ask()
    service.spoil = lambda answer: {
        "data": [
            row | {"embedding": np.frombuffer(base64.b64decode(row["embedding"]), "<f4").tolist()}
            for row in answer["data"]
        ]
    }

    assert np.allclose(await ask(), wanted)


async def test_rows_are_placed_by_their_index(service: Service, ask: Any) -> None:
    wanted = await ask()
    service.spoil = lambda answer: {"data": answer["data"][::-1]}

    assert np.array_equal(await ask(), wanted)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failure_that_may_pass_is_tried_again(
    service: Service, ask: Any, status: int
) -> None:
    service.failures = [(status, {"retry-after": "0.01"})]

    assert (await ask()).any()
    assert len(service.asked) == 2


async def test_a_failure_that_stays_is_a_clear_error(service: Service, ask: Any) -> None:
    service.failures = [(503, {})] * 2

    with pytest.raises(EmbedderError) as caught:
        await ask()

    assert str(caught.value) == (
        f"The embedding service {service.url} failed: status 503. "
        "Check whether it runs, and search.embedder_options."
    )


async def test_a_refusal_is_not_tried_again_and_does_not_say_the_token(
    service: Service, ask: Any
) -> None:
    service.failures = [(401, {})]

    with pytest.raises(EmbedderError, match="refused with status 401") as caught:
        await ask(key="secret")

    assert "secret" not in str(caught.value)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda _: b"<html>", "answered with no JSON"),
        (lambda _: [], "answered with 0 vectors for 2 texts"),
        (lambda answer: {"data": answer["data"][:1]}, "answered with 1 vectors for 2 texts"),
        (lambda answer: {"data": [answer["data"][0]] * 2}, "answered with the index 0"),
        (lambda _: {"data": [{"embedding": [1.0] * 3}] * 2}, "3 numbers instead of 256"),
        (lambda _: {"data": [{"embedding": [float("nan")] * 256}] * 2}, "are not finite"),
        (lambda _: {"data": [{"embedding": "?!"}] * 2}, "a vector that cannot be read"),
        (lambda _: {"data": [{"embedding": ["a"] * 256}] * 2}, "a vector that cannot be read"),
    ],
)
async def test_an_odd_answer_is_a_clear_error(
    service: Service, ask: Any, spoil: Callable[[Any], object], said: str
) -> None:
    service.spoil = spoil

    with pytest.raises(EmbedderError, match=said.replace("?", r"\?")):
        await ask()


async def test_a_service_that_is_not_there_is_a_clear_error(ask: Any) -> None:
    with pytest.raises(EmbedderError, match="failed"):
        await ask(url="http://127.0.0.1:9/v1", retries=0)


async def test_a_service_that_does_not_answer_is_left_after_the_limit(
    service: Service, ask: Any
) -> None:
    released = threading.Event()
    service.spoil = lambda answer: released.wait(HANG_S) and answer

    with pytest.raises(EmbedderError, match="TimeoutError"):
        await ask(timeout_s=0.1, retries=0)

    released.set()


@pytest.mark.parametrize(
    "options", [{"dim": 0}, {"batch": 0}, {"timeout_s": 0}, {"retries": 11}, {"url": "ftp://x"}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Options(**options)


def test_the_identity_names_all_that_changes_the_vectors() -> None:
    identities = {build(Options(**options)).identity for options in CHANGES}

    assert len(identities) == 4
