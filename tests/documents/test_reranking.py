"""The order in which found passages reach a model, and which of them do."""

from collections.abc import Sequence

import pytest

from tests.documents.libraries import Asked, Letters, library_in
from tests.documents.test_retrieve import ask_for, fill
from toolgate.documents.reranking import codes_in
from toolgate.errors import RerankerError
from toolgate.models.rerankers import CandidatePassage

TEXTS = ("abc one", "abc two", "abc three", "abc four")


class Longest:
    """Puts long passages first, or does what it should not."""

    def __init__(self, answer: Exception | Sequence[float] | None = None) -> None:
        self.answer = answer
        self.similarities: list[float | None] = []

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        assert question
        self.similarities = [candidate.similarity for candidate in candidates]
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or [float(len(candidate.full_text)) for candidate in candidates]


async def test_the_reranker_decides_the_order_of_hybrid_search_alone() -> None:
    async with library_in() as (library, bench):
        await fill(library, "one", *TEXTS)
        bench.reranks_with = Longest()
        found = await ask_for(library, "abc two", search_type="hybrid", top_k=2)
        plain = await ask_for(library, "abc two", search_type="similarity", top_k=2)
    assert [passage.text for passage in found.documents] == ["abc three", "abc four"]
    assert [passage.relevance for passage in found.documents] == [9.0, 8.0]
    assert found.as_json()["documents"][0]["metadata"]["relevance_score"] == 9.0
    assert plain.documents[0].text == "abc two"
    assert plain.documents[0].relevance is None


@pytest.mark.parametrize(
    "answer", [RerankerError("gone"), RuntimeError("broken"), [1.0], [float("nan")] * 4]
)
async def test_a_reranker_that_fails_leaves_the_order_of_the_search(
    answer: Exception | Sequence[float],
) -> None:
    async with library_in() as (library, bench):
        await fill(library, "one", *TEXTS)
        before = await ask_for(library, "abc two", search_type="hybrid")
        bench.reranks_with = Longest(answer)
        found = await ask_for(library, "abc two", search_type="hybrid")
    assert found.documents == before.documents
    assert found.injected_passages == before.injected_passages


async def test_similarities_of_different_models_are_not_compared() -> None:
    models = {"letters": Letters(), "other": Letters("other", dim=13)}
    async with library_in(embedders=models) as (library, bench):
        await fill(library, "one", "abc one")
        bench.reranks_with = reranker = Longest()
        await ask_for(library, "abc", search_type="hybrid")
        assert None not in reranker.similarities
        await fill(library, "two", "abc two", model="other")
        await ask_for(library, "abc", search_type="hybrid")
        assert reranker.similarities == [None, None]


async def test_a_passage_with_the_code_of_the_question_comes_first() -> None:
    async with library_in() as (library, bench):
        prices = [f"The price of A3{n}, paid in advance, is {n} euros." for n in range(10)]
        await fill(library, "one", *prices, "A37 costs 12.")
        bench.reranks_with = Longest()
        found = await ask_for(library, "price of a37", search_type="hybrid", top_k=4)
    assert [("A37" in passage.text) for passage in found.documents] == [True, True, False, False]


@pytest.mark.parametrize(
    ("question", "codes"),
    [
        ("price of A37?", ["a37"]),
        ("What is FST_ERR_NOT_FOUND, or E-1204.", ["fst_err_not_found", "e-1204"]),
        ("write to submit@example.org about #conduct", ["submit@example.org", "#conduct"]),
        ("What does } stand for, and what does `<-` do?", ["}", "<-"]),
        ("bread & butter - 3 < 5 :-) or 50 % ... 'yes' / \"no\"", []),
        ("the 2nd and 3rd line of 1,000", []),
        ("who approves holidays?", []),
    ],
)
def test_codes_are_what_is_named_to_the_letter(question: str, codes: list[str]) -> None:
    assert codes_in(question) == codes


async def test_passages_far_below_the_best_are_listed_but_not_given_to_the_model() -> None:
    async with library_in() as (library, bench):
        await fill(library, "one", *TEXTS)
        bench.reranks_with = Longest([0.1, 9.0, 0.2, 8.9])
        found = await ask_for(library, "abc", search_type="hybrid", top_k=3)
    assert len(found.documents) == 3
    assert found.injected_passages == found.documents[:2]
    assert found.injected.count("abc") == 2


async def test_with_a_code_in_the_question_bad_passages_without_it_are_not_given() -> None:
    async with library_in() as (library, bench):
        await fill(library, "one", "abc A37", "abc two", "abc A37 and much more text", "abc five")
        bench.reranks_with = Longest()
        found = await ask_for(library, "abc a37", search_type="hybrid", top_k=3)
    given = [passage.text for passage in found.injected_passages]
    assert given == ["abc A37 and much more text", "abc A37"]


async def test_only_passages_that_a_model_finds_helpful_go_into_the_turn() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", *TEXTS)
        found = await ask_for(library, "abc two", ask=Asked(grade="2, 4"))
    assert len(found.documents) == 4
    assert found.injected_passages == (found.documents[1], found.documents[3])
    assert found.grading_performed
