"""How sure a search is: relevance, and the line below which nothing fits."""

from pathlib import Path

import numpy as np
import pytest

from tests.search.hashing import HashingEmbedder
from tests.search.patient import PATIENT
from toolgate.models.embedders import Embedder
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchAnswer, SearchRequest
from toolgate.search.relevance.calibration import Evidence, Judgement, read_calibration, rivals_of
from toolgate.search.relevance.typical_requests import (
    SPACE,
    KindMatch,
    TypicalRequests,
    kind_texts,
    typical_requests,
)
from toolgate.search.strategies.hybrid import build
from training._shipped import ship
from training.kinds import differs

FAR = Evidence(
    cosine=0.3,
    covered=0.1,
    gap=0.1,
    rivals=2.5,
    word_share=0.0,
    words=3,
    n_words=5,
    behind=0.1,
    tools=1_000,
    ahead=-0.1,
    highest=0.3,
    kinds=KindMatch(served=0.3, near=0.5, agreement=0.3, lead=-0.1, everyday=0.5),
)


async def test_the_space_of_kinds_fits_the_model_and_the_lists() -> None:
    """If it does not: `python -m training.kinds`, and then `make calibrate`."""
    texts = await kind_texts(BundledEmbedder())
    with np.load(SPACE) as shipped:
        space = shipped["space"]

    assert isinstance(await typical_requests(BundledEmbedder()), TypicalRequests)
    assert not differs(texts, space)
    assert not differs(texts, -space)
    assert differs(texts, space[:, :64])


def judged(evidence: Evidence) -> Judgement:
    """What the fitted models say about a hit."""
    (judgement,) = read_calibration().judge([evidence])
    return judgement


@pytest.mark.parametrize(
    "better",
    [{"cosine": 0.6}, {"gap": 0.0}, {"behind": 0.0}, {"rivals": 1.0}],
    ids=["nearer", "less far behind", "as near as the nearest", "fewer that are as good"],
)
def test_relevance_rises_with_what_speaks_for_a_hit(better: dict[str, float]) -> None:
    assert judged(FAR._replace(**better)).relevance > judged(FAR).relevance


@pytest.mark.parametrize(
    "better",
    [
        {"highest": 0.6},
        {"ahead": 0.2},
        {"kinds": KindMatch(served=0.6, near=0.5, agreement=0.3, lead=-0.1, everyday=0.5)},
        {"kinds": KindMatch(served=0.3, near=0.5, agreement=0.8, lead=-0.1, everyday=0.5)},
        {"kinds": KindMatch(served=0.3, near=0.5, agreement=0.3, lead=0.2, everyday=0.5)},
        {"word_share": 1.0},
        {"words": 12},
        {"tools": 50},
    ],
    ids=[
        "nearer",
        "ahead of others",
        "serves its kind",
        "is of its kind",
        "its kind is there",
        "has its words",
        "tells more",
        "smaller",
    ],
)
def test_what_fits_is_above_the_line(better: dict[str, float]) -> None:
    """A request of few words is near to something by chance, and so is any among many tools."""
    assert judged(FAR._replace(**better)).margin > judged(FAR).margin


@pytest.mark.parametrize("better", [{"highest": 0.6}, {"word_share": 1.0}, {"tools": 50}])
def test_there_is_a_line_without_a_yardstick(better: dict[str, float]) -> None:
    alone = FAR._replace(ahead=None)

    assert judged(alone._replace(**better)).margin > judged(alone).margin


def test_tools_that_a_small_catalog_lacks_count_as_they_usually_are() -> None:
    """Else the best of three tools is the one for any request."""
    assert rivals_of([1.0, 0.3]) > 0
    assert rivals_of([]) == 0


def test_a_single_word_that_a_tool_has_is_enough() -> None:
    """A line that rises for brief requests must leave them a chance."""
    word = FAR._replace(
        cosine=0.75,
        highest=0.75,
        word_share=1.0,
        words=1,
        n_words=1,
        tools=300,
        ahead=0.1,
    )

    assert judged(word).margin > 0


async def asked(*queries: str, embedder: Embedder | None = None) -> list[SearchAnswer]:
    """What a catalog of three tools answers."""
    search = build(PATIENT, embedder=embedder or BundledEmbedder())
    await search.update(
        [
            SearchableTool(key="a:add", server="a", name="add", description="Adds two numbers."),
            SearchableTool(
                key="f:read_file", server="f", name="read_file", description="Read a text file."
            ),
            SearchableTool(
                key="m:send_mail", server="m", name="send_mail", description="Send an e-mail."
            ),
        ]
    )
    return [await search.search(SearchRequest(queries=(query,))) for query in queries]


async def test_a_small_catalog_says_when_nothing_fits() -> None:
    for answer in await asked("weather in Tokyo", "book a flight", "play some music"):
        assert answer.hits[0].relevance < 0.3
        assert all(hit.fields["weak"] for hit in answer.hits)


async def test_a_small_catalog_serves_what_is_said_in_other_words() -> None:
    for answer in await asked(
        "can you send a letter to my boss for me?", "what does notes.txt say, read it to me"
    ):
        assert not answer.hits[0].fields.get("weak")


async def test_what_tools_do_elsewhere_speaks_against_those_that_are_there() -> None:
    """The words are those of the first tool, but what is asked for is done by others."""
    served, unserved = await asked("read the file notes.txt", "read my text messages")

    margins = [hits[0].fields["background_margin"] for hits in (served.hits, unserved.hits)]
    assert margins[0] > margins[1] + 0.2
    assert margins[1] < 0
    assert [hits[0].key for hits in (served.hits, unserved.hits)] == ["f:read_file"] * 2
    assert not served.hits[0].fields.get("weak")
    assert unserved.fit != "good"
    assert unserved.notices


async def test_an_answer_tells_how_near_the_best_tool_was_before_the_request_was_moved() -> None:
    """Typical requests move a short request only, and towards the tools that it wants."""
    short, long = await asked(
        "what does my note say",
        "open the file that I wrote yesterday evening on the train and tell me what it says there",
    )

    assert short.hits[0].fields["own_cosine"] < short.hits[0].fields["cosine"]
    assert long.hits[0].fields["own_cosine"] == pytest.approx(
        long.hits[0].fields["cosine"], abs=1e-4
    )


async def test_another_embedder_is_asked_for_the_tools_alone() -> None:
    """The yardstick is fitted to the bundled model, and a service costs money."""
    embedder = HashingEmbedder()
    (answer,) = await asked("read a text file", embedder=embedder)

    assert len(embedder.documents) == 3 * 3
    assert answer.hits[0].fields["background_margin"] is None
    assert not answer.hits[0].fields.get("weak")


def test_a_table_that_is_not_what_was_fitted_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    ship(table, {"source": "fit", "fit": {"weights": {"cosine": 2.5, "own": -1.0}}}, check=False)
    written = table.read_text("utf-8")

    ship(table, {"source": "fit", "fit": {"weights": {"cosine": 2.5001, "own": -1.0}}}, check=True)
    with pytest.raises(SystemExit, match=r"fit\.weights\.cosine: 2\.5, 2\.6") as raised:
        ship(table, {"source": "fit", "fit": {"weights": {"cosine": 2.6, "own": -1.0}}}, check=True)
    with pytest.raises(SystemExit, match=r"fit\.weights\.own: -1\.0, None"):
        ship(table, {"source": "fit", "fit": {"weights": {"cosine": 2.5}}}, check=True)

    assert "make calibrate" in str(raised.value)
    assert table.read_text("utf-8") == written
