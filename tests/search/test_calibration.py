"""How sure a search is: relevance, and the line below which nothing fits."""

import pytest

from toolgate.embed.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchAnswer, SearchRequest
from toolgate.search._calibration import Evidence, crowd_of, read_calibration, rivals_of
from toolgate.search.hybrid import Options, build

pytestmark = pytest.mark.anyio

PATIENT = Options(wait_s=20, embed_timeout_s=20)
FAR = Evidence(
    cosine=0.3,
    covered=0.1,
    gap=0.1,
    crowd=1.5,
    rivals=2.5,
    found=0.0,
    words=3,
    said=5,
    behind=0.1,
    tools=1_000,
)


@pytest.mark.parametrize(
    "better",
    [{"cosine": 0.6}, {"gap": 0.0}, {"behind": 0.0}, {"rivals": 1.0}],
    ids=["nearer", "less far behind", "as near as the nearest", "fewer that are as good"],
)
def test_relevance_rises_with_what_speaks_for_a_hit(better: dict[str, float]) -> None:
    calibration = read_calibration()

    assert calibration.relevance(FAR._replace(**better)) > calibration.relevance(FAR)


@pytest.mark.parametrize(
    "better",
    [{"cosine": 0.6}, {"found": 1.0}, {"words": 12}, {"said": 12}, {"crowd": 0.0}, {"tools": 50}],
    ids=["nearer", "has its words", "tells more", "a longer request", "none is as near", "smaller"],
)
def test_what_fits_is_above_the_line(better: dict[str, float]) -> None:
    """A request of few words is near to something by chance, and so is any among many tools."""
    calibration = read_calibration()

    assert calibration.margin(FAR._replace(**better)) > calibration.margin(FAR)


def test_tools_that_a_small_catalog_lacks_count_as_they_usually_are() -> None:
    """Else the best of three tools is the one for any request."""
    assert crowd_of([0.2, 0.1]) > crowd_of([0.6, 0.1]) > 0
    assert rivals_of([1.0, 0.3]) > 0
    assert crowd_of([]) == rivals_of([]) == 0


def test_a_single_word_that_a_tool_has_is_enough() -> None:
    """A line that rises for brief requests must leave them a chance."""
    word = FAR._replace(cosine=0.75, found=1.0, crowd=0.5, words=1, said=1, tools=300)

    assert read_calibration().margin(word) > 0


async def asked(*queries: str) -> list[SearchAnswer]:
    """What a catalog of three tools answers."""
    search = build(PATIENT, embedder=BundledEmbedder())
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
    for answer in await asked("send a letter to my boss", "what does notes.txt say, read it to me"):
        assert not answer.hits[0].fields.get("weak")
