"""Meaning never costs anything where the model cannot read: our decision, in 21 languages.

No allowance for ties: equal scores are ordered by key in both searches, so there are none to blame.
"""

import pytest

from tests.search.languages import DATA, NAMES, Found, found, labelled, others, over_english
from toolgate.evaluation.search_metrics import read_labelled
from toolgate.search.lexical.clauses import readable_share
from toolgate.search.lexical.stop_words import stop_words_of
from toolgate.search.tokenizer import fold

LATIN = ("de", "en", "es", "fr", "id", "it", "nl", "pl", "pt", "tr", "vi")
"""Languages of which the model reads anything; of the others both searches use words alone."""
SHARED_LEAST = 18
"""Of the 20 requests that have words of their tool, those that find it."""


@pytest.mark.parametrize("language", NAMES)
async def test_hybrid_search_finds_no_less_than_words_alone(language: str) -> None:
    own = labelled(language)

    alone = await found(own.tools, own.questions)

    assert sum(alone.hybrid) >= sum(alone.lexical)
    assert min(sum(alone.lexical[::2]), sum(alone.hybrid[::2])) >= SHARED_LEAST


@pytest.mark.parametrize("language", LATIN)
async def test_nor_among_many_tools_in_other_languages(language: str) -> None:
    own = labelled(language)

    among: Found = await found((*own.tools, *others()), own.questions)

    assert sum(among.hybrid) >= sum(among.lexical)


@pytest.mark.parametrize("language", NAMES)
async def test_nor_over_tools_in_english(language: str) -> None:
    over = await found(labelled("en").tools, over_english(language))

    assert sum(over.hybrid) >= sum(over.lexical)


@pytest.mark.parametrize("language", NAMES)
def test_each_language_has_forty_tools_and_a_request_for_each(language: str) -> None:
    own = labelled(language)

    wanted = [group for question in own.questions for group in question.groups]

    assert [frozenset({tool.key}) for tool in own.tools] == wanted
    assert len(set(wanted)) == 40


@pytest.mark.parametrize("name", ["languages/en", "metatool_multi", "mcpverse"])
def test_requests_in_english_are_never_taken_for_another_language(name: str) -> None:
    questions = read_labelled(DATA / name).questions

    assert not [
        asked.text for asked in questions if asked.text.isascii() and stop_words_of(asked.text)
    ]


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("Wie komme ich vom Flughafen zum Hotel?", "wie ich vom zum"),
        ("Waar is het bericht van mijn bank?", "waar is het van mijn"),
        ("Tôi có thể ăn ở đâu?", "toi co the o dau"),
        ("Покажи мне, что у нас есть", "мне что у нас есть"),
        ("Show me the way to the hotel", ""),
        ("Rechnung erstellen", ""),
        ("Find the song La vie en rose", ""),
        ("", ""),
    ],
)
def test_small_words_are_those_of_the_language_of_the_request(text: str, small: str) -> None:
    found_here = {fold(word) for word in text.replace(",", " ").replace("?", " ").split()}

    assert found_here & stop_words_of(text) == set(small.split())


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Wie komme ich zum Hotel?", 0.5),
        ("Tôi có thể ăn ở đâu?", 0.5),
        ("Какой прогноз погоды для Казани?", 0.0),
        ("How do I get to Zürich?", 1.0),
    ],
)
def test_a_model_for_english_reads_half_of_other_languages(text: str, share: float) -> None:
    assert readable_share(text) == share
