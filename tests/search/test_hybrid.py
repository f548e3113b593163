"""What the search `hybrid` promises beyond the contract: vectors, failures, reasons."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from tests.limits import EMBEDDING_S
from tests.search.hashing import DIM, HashingEmbedder
from tests.search.patient import PATIENT
from toolgate.errors import EmbedderError, OptionError
from toolgate.models.embedders import Reads, TextKind, Vectors
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.lexical.clauses import clauses_of, readable_share
from toolgate.search.strategies.hybrid import HybridSearch, Options, build
from toolgate.testing.contracts.search import sample_tools

WEATHER = SearchRequest(queries=("weather forecast for a place",))

GIT = [
    SearchableTool(key=f"git:{name}", server="git", name=name, description=text)
    for name, text in (
        ("diff_staged", "Shows changes that are staged for a commit."),
        ("stage", "Stages what has changed."),
        ("reset", "Takes everything out of the staging area."),
        ("log", "Shows the commits."),
    )
]


class Broken(HashingEmbedder):
    """Fails in one way, for requests, for tools, or for both."""

    def __init__(self, failure: str, kinds: Sequence[TextKind] = ("query", "document")) -> None:
        super().__init__()
        self.failure, self.kinds = failure, kinds

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = await super().embed(texts, kind)
        if kind not in self.kinds:
            return rows
        match self.failure:
            case "raises":
                raise EmbedderError("The model is not there.", hint="Install it.")
            case "breaks":
                raise KeyError("a bug of somebody")
            case "hangs":
                await anyio.sleep_forever()
            case "nan":
                rows[0, 0] = np.nan
            case "dimension":
                rows = np.zeros((len(texts), DIM + 1), np.float32)
            case "rows":
                rows = rows[1:]
            case _:
                raise AssertionError(self.failure)
        return rows


async def made(embedder: HashingEmbedder | None = None, options: Options = PATIENT) -> HybridSearch:
    strategy = build(options, embedder=embedder or HashingEmbedder())
    await strategy.update(sample_tools())
    return strategy


WAYS = ["raises", "breaks", "hangs", "nan", "dimension", "rows"]


@pytest.mark.parametrize("failure", WAYS)
async def test_words_answer_when_a_request_gets_no_vector(failure: str) -> None:
    strategy = await made(
        Broken(failure, ["query"]), Options(embedding_wait_s=EMBEDDING_S, embed_timeout_s=0.05)
    )

    for _ in range(5):
        answer = await strategy.search(WEATHER)

        assert answer.hits[0].key == "weather:get-forecast"
        assert answer.hits[0].source == "lexical"
        assert any("words alone" in notice for notice in answer.notices)
        assert answer.fallback.startswith("hybrid: the embedder ")


@pytest.mark.parametrize("failure", WAYS)
async def test_words_answer_while_tools_have_no_vectors(failure: str) -> None:
    strategy = await made(
        Broken(failure, ["document"]), Options(embedding_wait_s=0.05, embed_timeout_s=EMBEDDING_S)
    )

    answer = await strategy.search(WEATHER)
    await strategy.aclose()

    assert answer.hits[0].key == "weather:get-forecast"
    assert strategy.backlog == len(sample_tools())
    assert answer.notices[0].startswith(f"{len(sample_tools())} tools were searched by words")
    assert answer.fallback == "hybrid: no tool has a vector yet"


async def test_an_embedder_that_keeps_failing_is_left_alone_for_a_while() -> None:
    embedder = Broken("raises", ["query"])
    strategy = await made(embedder)

    for _ in range(10):
        await strategy.search(WEATHER)

    assert len(embedder.queries) == 3


async def test_one_changed_tool_costs_its_own_texts() -> None:
    embedder = HashingEmbedder()
    strategy = await made(embedder)
    embedder.documents.clear()
    tools = sample_tools()
    tools[6] = replace(tools[6], description="Play the xylophone.", digest="another")

    await strategy.update(tools[::-1])

    assert sorted(embedder.documents) == [
        "Play the xylophone.",
        "files read file: Play the xylophone.",
        "files read file: Play the xylophone. Parameters: path",
        "read file",
    ]
    assert strategy.backlog == 0


async def test_equal_texts_share_a_vector() -> None:
    embedder = HashingEmbedder()
    strategy = build(PATIENT, embedder=embedder)

    await strategy.update(
        [
            SearchableTool(key=f"s:{n}", server="s", name="t", description="Same.")
            for n in range(500)
        ]
    )

    assert embedder.documents == ["s t: Same.", "t", "Same."]


async def test_the_same_request_is_embedded_once() -> None:
    embedder = HashingEmbedder()
    strategy = await made(embedder)

    for _ in range(3):
        await strategy.search(WEATHER)

    assert embedder.queries == list(WEATHER.queries)


async def test_a_hit_says_how_near_its_meaning_is() -> None:
    hit = (await (await made()).search(WEATHER)).hits[0]

    assert "similar in meaning (0." in hit.explanation
    assert 0 < hit.fields["cosine"] <= 1


async def test_each_step_of_a_request_finds_its_tool() -> None:
    strategy = await made()
    request = SearchRequest(
        queries=(
            "Read the contents of the file notes. Then open a new issue in the repository, "
            "and send an e-mail to somebody.",
        ),
        limit=5,
    )

    found = {hit.key for hit in (await strategy.search(request)).hits}

    assert {"files:read_file", "github:create_issue", "mail:sendMail"} <= found


async def test_what_fits_nothing_is_listed_as_weak_and_after_what_fits() -> None:
    strategy = await made()

    alone = await strategy.search(SearchRequest(queries=("xylophone zeppelin",)))
    both = await strategy.search(
        SearchRequest(queries=("xylophone zeppelin", "get-forecast"), limit=5)
    )

    assert all(hit.fields["weak"] for hit in alone.hits)
    assert len(alone.notices) == 1
    assert both.hits[0].key == "weather:get-forecast"
    assert any("'xylophone zeppelin'" in notice for notice in both.notices)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("find flights to Paris", []),
        (
            "Find flights to Paris. Book a hotel there.",
            ["Find flights to Paris", "Book a hotel there"],
        ),
        (
            "read the file and then send it by mail",
            ["read the file", "send it by mail"],
        ),
        ("", []),
        ("one. two. three.", []),
    ],
)
def test_clauses(text: str, found: list[str]) -> None:
    assert clauses_of(text, 12) == found


@pytest.mark.parametrize(
    ("text", "share"), [("plain", 1.0), ("café", 1.0), ("天气", 0.0), ("ab天气", 0.5), ("123", 1.0)]
)
def test_the_share_of_letters_that_the_model_reads(text: str, share: float) -> None:
    assert readable_share(text) == share


async def test_a_script_that_the_model_cannot_read_is_left_to_words() -> None:
    hits = (await (await made()).search(SearchRequest(queries=("查询北京的天气",)))).hits

    assert hits[0].key == "地图:maps_weather"
    assert {hit.source for hit in hits} == {"lexical"}


class Multilingual(HashingEmbedder):
    reads: Reads = "many"


async def test_a_model_for_many_languages_has_its_say_in_every_script() -> None:
    """It needed `script_gate = false`, which nobody knows of."""
    search = build(PATIENT, embedder=Multilingual())
    await search.update(sample_tools())

    hits = (await search.search(SearchRequest(queries=("查询北京的天气",)))).hits

    assert hits[0].key == "地图:maps_weather"
    assert hits[0].fields["cosine"] is not None


@pytest.mark.parametrize(
    "values",
    [{"dense_weight": 1.1}, {"clauses": -1}, {"embedding_wait_s": -1.0}, {"cooldown_s": 1e9}],
    ids=str,
)
def test_options_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="Allowed: "):
        Options(**values)  # pyright: ignore[reportArgumentType]


async def test_what_is_called_weak_is_never_said_to_be_probable() -> None:
    """In two words there is little to go by, but a relevance of 0.5 and "weak" contradict."""
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update(
        [
            SearchableTool(key="a:add", server="a", name="add", description="Adds two numbers."),
            SearchableTool(key="a:echo", server="a", name="echo", description="Gives a text back."),
        ]
    )
    answers = [
        await search.search(SearchRequest(queries=(query,), limit=2))
        for query in ("plus 3", "add two numbers please", "3 more", "hear it back", "some weather")
    ]
    assert {answer.hits[0].key for answer in answers[:2]} == {"a:add"}
    assert not answers[1].hits[0].fields.get("weak")
    weak = [hit for answer in answers for hit in answer.hits if hit.fields.get("weak")]
    assert weak
    assert all(hit.relevance < 0.4 for hit in weak)


async def test_a_quoted_text_that_a_tool_has_fits_wherever_the_line_is() -> None:
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update(
        [
            SearchableTool(key="a:add", server="a", name="add", description="Adds two numbers."),
            SearchableTool(key="a:echo", server="a", name="echo", description="Gives a text back."),
        ]
    )
    answer = await search.search(SearchRequest(queries=('"two numbers"',), limit=1))
    assert answer.hits[0].key == "a:add"
    assert answer.hits[0].relevance >= 0.9
    assert not answer.hits[0].fields.get("weak")


@pytest.mark.parametrize("query", ['"staging"', 'find "staging" please', "which has 'Staging'?"])
async def test_a_quoted_word_of_a_short_request_is_found_first(query: str) -> None:
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update(GIT)
    answer = await search.search(SearchRequest(queries=(query,), limit=3))
    assert answer.hits[0].key == "git:reset"
    assert answer.hits[0].explanation.startswith("has the quoted text")
    assert not answer.hits[0].fields.get("weak")


async def test_a_quoted_word_of_a_long_request_is_taken_for_a_value() -> None:
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update(GIT)
    query = 'show me what is staged in the folder "staging" of my repository'
    answer = await search.search(SearchRequest(queries=(query,), limit=1))
    assert answer.hits[0].key == "git:diff_staged"
    assert "quoted" not in answer.hits[0].explanation


async def test_other_weights_hold_for_one_request_alone() -> None:
    strategy = await made()
    usual = await strategy.search(WEATHER)
    by_words = await strategy.search(replace(WEATHER, weights={"dense_weight": 0.0}))
    again = await strategy.search(WEATHER)

    assert usual.model
    assert not by_words.model
    assert [hit.key for hit in again.hits] == [hit.key for hit in usual.hits]
    assert again.model == usual.model
    for weights in (
        {"dense_weight": 1.5},
        {"dense_weight": float("nan")},
        {"embedding_wait_s": 0.5},
    ):
        with pytest.raises(OptionError):
            await strategy.search(replace(WEATHER, weights=weights))


async def test_what_was_remembered_of_a_request_is_counted() -> None:
    strategy = await made(options=replace(PATIENT, cached_answers=0))
    for _ in range(3):
        await strategy.search(WEATHER)
    kept = await made()
    for _ in range(3):
        await kept.search(WEATHER)

    counted = strategy.metrics.as_json()
    assert (counted["vectors_asked"], counted["vectors_remembered"]) == (3, 2)
    assert counted["answers_kept"] == 0
    assert kept.metrics.as_json()["answers_kept"] == 2


async def test_an_interrupted_embedding_is_no_failure_of_the_embedder() -> None:
    """A change of the catalog interrupts one, and a request that does not wait any longer."""
    strategy = build(PATIENT, embedder=Broken("hangs", ["document"]))
    async with anyio.create_task_group() as tasks:
        await strategy.update(sample_tools())
        tasks.start_soon(strategy.ready)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await strategy.aclose()

    assert strategy.metrics.embedding["document"].failures == 0


class Slow(HashingEmbedder):
    """Answers each batch of descriptions once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = anyio.Event()

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = await super().embed(texts, kind)
        if texts and kind == "document":
            await self.may_answer.wait()
        return rows


async def test_a_change_of_the_catalog_uses_the_batch_that_is_under_way() -> None:
    """A service is paid for it: while six servers started, the same batch was sent six times."""
    embedder = Slow()
    strategy = build(Options(embedding_wait_s=0), embedder=embedder)
    await strategy.update(GIT[:3])
    while not embedder.documents:
        await anyio.lowlevel.checkpoint()
    await strategy.update(GIT[1:])
    embedder.may_answer.set()
    await strategy.ready()

    assert strategy.backlog == 0
    assert len(embedder.documents) == len(set(embedder.documents))
    await strategy.aclose()


FIRST_SEARCH = """
import threading
import anyio
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.strategies.hybrid import Options, build
from toolgate.testing.contracts.search import sample_tools

LONG = {("load_languages", "translation.py"), ("_requests_of", "typical_requests.py")}
outside = set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and (code.co_name, code.co_filename.rpartition("/")[2]) in LONG:
        outside.add(code.co_name)

async def main():
    threading.setprofile(note)  # of other threads than this
    search = build(Options(), embedder=BundledEmbedder())
    await search.update(sample_tools())
    await search.search(SearchRequest(queries=("weather forecast",)))
    await search.aclose()
    assert len(outside) == len(LONG), outside

anyio.run(main)
"""


def test_the_first_search_reads_its_lists_outside_the_event_loop() -> None:
    """Source: the bound on stalls of the loop, 20 ms."""
    code = [sys.executable, "-c", FIRST_SEARCH]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_of_many_searches_at_once_one_works_in_each_turn_of_the_event_loop() -> None:
    """Other tasks wait for one half of one search, not for a half of each of them."""
    strategy = await made(options=replace(PATIENT, dense_weight=0.0))
    await strategy.search(WEATHER)  # loads what later searches have
    requests = [SearchRequest(queries=(f"send mail {number}", "pay")) for number in range(20)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await anyio.lowlevel.checkpoint()
        before = turns
        async with anyio.create_task_group() as searching:
            for request in requests:
                searching.start_soon(strategy.search, request)
        assert turns - before >= 2 * 2 * len(requests)  # two halves of two queries
        group.cancel_scope.cancel()
