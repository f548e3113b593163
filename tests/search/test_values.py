"""Values in a request, such as own names and paths, do not steer what it finds."""

import pytest

from benchmarks._phrases import requests_with_own_names
from tests.search.patient import PATIENT
from toolgate.evaluation.search_metrics import mean_of, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.strategies.hybrid import HybridSearch

TOOLS = {
    "cluster:scale_deployment": "Set how many replicas of a deployment run",
    "cluster:get_logs": "Read the logs of a pod",
    "disk:read_text": "Read a text file",
    "disk:move": "Move or rename a file",
    "weather:get_forecast": "Weather forecast for a city",
    "travel:search_flights": "Search flights between two airports",
    "music:play_song": "Play a song or an album",
    "mail:send_email": "Send an email to somebody",
    "arxiv:get_paper": "Metadata and abstract of a paper",
    "wiki:get_article": "Text of an encyclopedia article",
    "sheets:read_cells": "Read the cells of an Excel workbook",
    "pictures:open_image": "Show an image",
    "filesystem:list_all": "List what a directory contains",
}


async def search_over(tools: tuple[SearchableTool, ...]) -> HybridSearch:
    """A search that has all its vectors."""
    search = HybridSearch(PATIENT, BundledEmbedder())
    await search.update(tools)
    await search.ready()
    return search


async def first_for(query: str) -> str:
    """Key of the first hit."""
    search = await search_over(
        tuple(
            SearchableTool(
                key=key,
                server=key.partition(":")[0],
                name=key.partition(":")[2],
                description=description,
            )
            for key, description in TOOLS.items()
        )
    )
    answer = await search.search(SearchRequest(queries=(query,)))
    await search.aclose()
    return answer.hits[0].key


@pytest.mark.parametrize(
    "value",
    [
        "flight-search-email",
        "song_of_the_weather",
        "music.album.play",
        "weatherEmailForecast",
        "email:song:42",
        '"Weather Forecast Song"',
        "mail/weather-forecast",
        "play.song@weather.example.com",
        "https://example.com/flights/search/song",
    ],
)
async def test_what_a_deployment_is_called_does_not_matter(value: str) -> None:
    """All of these are names of things that other tools are about."""
    assert await first_for(f"set the replicas of {value} to 3") == "cluster:scale_deployment"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read /srv/weather/forecast_2024.txt", "disk:read_text"),
        ("move ~/music/song.mp3 to ~/mail/flights", "disk:move"),
        ("logs of pod weather-forecast-7d9f8b6c5-x2x4z", "cluster:get_logs"),
        ("read the file `send_flights_by_email.md`", "disk:read_text"),
        ("rename `/srv/song/weather.csv` to `/srv/song/forecast.csv`", "disk:move"),
    ],
)
async def test_paths_and_ids_do_not_steer(query: str, first: str) -> None:
    """Nobody who reads a file in the folder `weather` wants a forecast."""
    assert await first_for(query) == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what stands in ./music/plan.xlsx", "sheets:read_cells"),
        ("what stands in `./weather/plan.ods`", "sheets:read_cells"),
        ("what is on ~/mail/forecast/holiday.webp", "pictures:open_image"),
        ("what do I have below ~/music", "filesystem:list_all"),
    ],
)
async def test_a_path_says_what_kind_of_thing_it_is(query: str, first: str) -> None:
    """A spreadsheet is no text, and whatever a path names is in the file system."""
    assert await first_for(query) == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("use search_flights for me", "travel:search_flights"),
        ('run "play_song" now', "music:play_song"),
        ("summary of https://arxiv.org/abs/1706.03762", "arxiv:get_paper"),
        ("weather-forecast", "weather:get_forecast"),
        ("email/outbox", "mail:send_email"),
    ],
)
async def test_names_of_tools_and_servers_count_whatever_they_look_like(
    query: str, first: str
) -> None:
    """A name that the catalog has is no value; one of values alone is searched as it is."""
    assert await first_for(query) == first


async def test_requests_with_own_names_find_their_tools() -> None:
    """Of 98 requests over the tools of ten servers; with the names in them it was .908, and with
    paths left out altogether .949."""
    labelled = requests_with_own_names()
    search = await search_over(labelled.tools)

    rankings = [
        await search.search(SearchRequest(queries=(question.text,), limit=10))
        for question in labelled.questions
    ]

    scores = [
        score_ranking([hit.key for hit in answer.hits], question.groups)
        for answer, question in zip(rankings, labelled.questions, strict=True)
    ]
    assert mean_of(scores)["R@5"] >= 0.94
    await search.aclose()
