"""Small talk and meaningless input: no tool serves them, in a small catalog or in a large one."""

import json
from pathlib import Path

import pytest

from benchmarks._phrases import real_tools
from tests.search.patient import PATIENT
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.relevance import background_similarity
from toolgate.search.strategies.hybrid import build

TALK = (
    "hi, what's up",
    "good evening everyone",
    "cheers mate",
    "thanks a lot",
    "bye for now",
    "ok",
    "yes, do that",
    "nope",
    "how was your weekend",
    "my cat is asleep",
    "tell me a joke",
    "you are so clever",
    "this is annoying",
    "what is your favourite colour",
    "do you ever sleep",
    "why is the sky blue",
    "who wrote hamlet",
    "are ghosts real",
    "i had pasta for lunch",
    "qqq zzz vvv",
    "wwwx kkkj",
    "asdf",
    "xyzzy plugh",
    "lkjh gfds",
    "sdkfjh sdf lkj wer",
    "foo bar",
    "zxcvbnm",
    "rtrtrt opop",
    "hola, qué tal",
    "danke schön",
)
MOST_TAKEN_SERIOUSLY = 0.15
"""Share of them that may be told that something fits."""


@pytest.mark.parametrize("servers", [1, 4, 37])
async def test_small_talk_is_told_that_nothing_fits(servers: int) -> None:
    tools = real_tools()
    names = sorted({tool.server for tool in tools})[:servers]
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update([tool for tool in tools if tool.server in names])
    await search.ready()
    fits = {text: (await search.search(SearchRequest(queries=(text,)))).fit for text in TALK}
    await search.aclose()
    assert "good" not in fits.values()
    taken = [text for text, fit in fits.items() if fit != "none"]
    assert len(taken) / len(TALK) <= MOST_TAKEN_SERIOUSLY, taken


def test_none_of_them_is_a_text_that_the_search_knows() -> None:
    path = Path(background_similarity.__file__).with_name("background_texts.json")
    known = {text for texts in json.loads(path.read_text("utf-8")).values() for text in texts}
    assert known.isdisjoint(TALK)
