"""From a question to passages, over real collections: rows MT, VS and FB of the contract."""

from typing import Any

import pytest
from anyio import fail_after

from tests.documents.libraries import Asked, Letters, doc, library_in, rendered
from tests.limits import HANG_S
from tests.postgres import PostgresServer
from toolgate.documents import (
    NO_COLLECTIONS,
    NOT_CONNECTED,
    ConversationMessage,
    DocumentLibrary,
    Retrieval,
    RetrieveRequest,
    retrieve,
    search_type_of,
)
from toolgate.errors import ArgumentError, StoreError

P = "default"


async def ask_for(library: DocumentLibrary, question: str, **fields: Any) -> Retrieval:
    ask = fields.pop("ask", None)
    on_found = fields.pop("on_found", None)
    collections = await library.collections(P)
    names = fields.pop("collections", ())
    if names:
        collections = [each for each in collections if each.name in names]
    fields.setdefault("search_type", "similarity")
    request = RetrieveRequest(question=question, collections=names, **fields)
    return await retrieve(
        library, collections, request, ask=ask, render=rendered, on_found=on_found
    )


async def fill(library: DocumentLibrary, name: str, *texts: str, **settings: str) -> None:
    await library.make(P, name, **settings)
    for at, text in enumerate(texts):
        await library.add(P, name, doc(f"{name}-{at}.md", text))


async def test_vs_2_the_question_is_what_is_searched() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc", "xyz")
        found = await ask_for(library, "abc", top_k=1)
    assert [each.text for each in found.documents] == ["abc"]
    assert found.metadata() == {
        "searched_tables": ["one"],
        "failed_tables": [],
        "context_input": "abc",
        "num_documents": 1,
    }


async def test_vs_1_the_rephrased_question_is_searched_and_the_original_graded() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc", "xyz")
        ask = Asked(rephrase="xyz", grade="yes")
        talk = tuple(
            ConversationMessage(role="user", text=text) for text in ("a", "b", "and that?")
        )
        found = await ask_for(library, "and that?", history=talk, ask=ask, top_k=1)
    assert ask.purposes == ["rephrase", "grade"]
    assert found.was_rephrased
    assert found.context_input == "xyz"
    assert [each.text for each in found.documents] == ["xyz"]
    assert ask.prompts[1][1] == "vs-grade\nquestion=and that?\ndocuments=[1]\nxyz"


async def test_vs_8_nothing_found_is_not_graded() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        ask = Asked(grade="no")
        found = await ask_for(
            library,
            "xyz",
            ask=ask,
            search_type="similarity_score_threshold",
            score_threshold=0.99,
        )
    assert (ask.prompts, found.status, found.documents) == ([], "success", ())
    assert (found.injected, found.context_input) == ("", "")


async def test_vs_12_irrelevant_documents_are_kept_and_not_injected() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        found = await ask_for(library, "abc", ask=Asked(grade="no"))
    assert (found.relevant, found.injected, found.context_input) == ("no", "", "")
    assert len(found.documents) == 1
    assert found.artifact()["documents"][0]["page_content"] == "abc"


async def test_vs_11_documents_stay_injected_when_grading_fails() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        found = await ask_for(library, "abc", ask=Asked(grade=RuntimeError("boom")))
    assert (found.relevant, found.grading_performed) == ("yes", False)
    assert "abc" in found.injected


async def test_mt_10_what_was_searched_and_what_failed_is_told() -> None:
    models = {"letters": Letters(), "other": Letters("other", dim=13)}
    async with library_in(embedders=models) as (library, _):
        await fill(library, "one", "abc")
        await fill(library, "two", "abc", model="other")
        models["other"].fails = True
        shown = (await ask_for(library, "abc")).as_json()
    assert (shown["searched_tables"], shown["failed_tables"]) == (["one"], ["two"])
    assert shown["failures"] == {"two": "other failed."}


async def test_vs_15_metadata_is_told_before_grading_and_counts_what_is_graded_out() -> None:
    told: list[Any] = []
    ask = Asked(grade="no")

    async def found_(metadata: Any, /) -> None:
        assert ask.prompts == []
        told.append(metadata)

    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        await ask_for(library, "abc", ask=ask, on_found=found_)
    assert told == [
        {
            "searched_tables": ["one"],
            "failed_tables": [],
            "context_input": "abc",
            "num_documents": 1,
        }
    ]


async def test_vs_7_no_collection_and_no_database_reach_the_user() -> None:
    async with library_in() as (library, bench):
        nothing = await ask_for(library, "abc")
        assert (nothing.status, nothing.for_user) == ("error", NO_COLLECTIONS)
        await fill(library, "one", "abc")

        async def lost(*_: object, **__: object) -> Any:
            raise StoreError("The connection is lost.")

        index: Any = bench.vectors("sqlite")
        index.nearest = lost
        found = await ask_for(library, "abc")
    assert (found.status, found.for_user) == ("error", NOT_CONNECTED)
    assert found.failed == {"one": "The connection is lost."}
    assert found.injected == ""


async def test_fb_2_collections_that_cannot_be_listed_are_none() -> None:
    async with library_in() as (library, _):
        request = RetrieveRequest(question="abc")
        found = await retrieve(library, None, request, ask=None, render=rendered)
    assert (found.status, found.error) == ("error", NO_COLLECTIONS)


async def test_fb_6_when_all_fail_the_status_says_so_and_the_turn_goes_on() -> None:
    async with library_in() as (library, bench):
        await fill(library, "one", "abc")
        letters: Any = bench.embedders["letters"]
        letters.fails = True
        found = await ask_for(library, "abc")
    assert (found.status, found.for_user, found.documents) == ("error", "", ())
    assert list(found.failed) == ["one"]


async def test_fb_5_one_that_fails_does_not_stop_the_others() -> None:
    models = {"letters": Letters(), "other": Letters("other", dim=13)}
    async with library_in(embedders=models) as (library, _):
        await fill(library, "one", "abc")
        await fill(library, "two", "abc", model="other")
        models["other"].fails = True
        found = await ask_for(library, "abc")
    assert (found.searched, list(found.failed)) == (("one",), ["two"])
    assert [each.collection for each in found.documents] == ["one"]


async def test_mt_1_empty_ones_and_those_of_other_models_are_no_candidates() -> None:
    models = {"letters": Letters(), "other": Letters("other")}
    async with library_in(embedders=models) as (library, bench):
        await library.make(P, "empty")
        await fill(library, "one", "abc")
        await fill(library, "two", "abc", model="other")
        bench.embedders["other"] = Letters("changed")
        found = await ask_for(library, "abc")
        problems = {each.name: each.problem for each in await library.collections(P)}
        del bench.embedders["other"]
        assert (await ask_for(library, "abc")).searched == ("one",)
    assert found.searched == ("one",)
    assert "toolgate docs reindex two" in problems["two"]


async def test_mt_3_each_model_is_asked_once_and_only_for_its_own() -> None:
    models = {"letters": Letters(), "other": Letters("other", dim=13)}
    async with library_in(embedders=models) as (library, _):
        for name in ("a", "b", "c"):
            await fill(library, name, "abc " + name)
        await fill(library, "d", "abc", model="other", metric="euclidean")
        found = await ask_for(library, "abc", top_k=9)
    assert models["letters"].asked == ["abc"]
    assert models["other"].asked == ["abc"]
    assert found.searched == ("a", "b", "c", "d")
    assert len(found.documents) == 4


async def test_mt_4_collections_are_searched_at_the_same_time() -> None:
    """Each waits until all are being asked."""
    import anyio

    async with library_in() as (library, bench):
        for name in ("a", "b", "c"):
            await fill(library, name, "abc " + name)
        index: Any = bench.vectors("sqlite")
        nearest, everybody, waiting = index.nearest, anyio.Event(), [3]

        async def together(*args: Any, **kw: Any) -> Any:
            waiting[0] -= 1
            if not waiting[0]:
                everybody.set()
            with fail_after(HANG_S):
                await everybody.wait()
            return await nearest(*args, **kw)

        index.nearest = together
        assert len((await ask_for(library, "abc")).searched) == 3


async def test_mt_5_passages_say_where_they_were_found_and_how_similar_they_are() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        found = await ask_for(library, "abc")
    about = found.as_json()["documents"][0]["metadata"]
    assert (about["searched_table"], about["similarity_score"]) == ("one", 1.0)
    assert "fused_rank_score" not in about


@pytest.mark.parametrize(("threshold", "count"), [(0, 2), (-1, 2), (1.0, 1), (0.75, 1)])
async def test_mt_6_the_threshold_is_on_above_zero_and_equality_passes(
    threshold: float, count: int
) -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc", "xyz")
        found = await ask_for(
            library,
            "abc",
            search_type="similarity_score_threshold",
            score_threshold=threshold,
        )
    assert len(found.documents) == count


async def test_mt_7_equal_texts_are_shown_once() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc", "abd")
        await fill(library, "two", "abc")
        found = await ask_for(library, "abc")
    assert [each.text for each in found.documents] == ["abc", "abd"]


async def test_mt_8_the_best_passage_wins_from_whichever_collection() -> None:
    """Trap T10: three collections of four passages, and the best is in the last."""
    async with library_in() as (library, _):
        await fill(library, "a", "bcde", "cdef", "defg", "efgh")
        await fill(library, "b", "fghi", "ghij", "hijk", "ijkl")
        await fill(library, "c", "jklm", "klmn", "lmno", "xyz")
        found = await ask_for(library, "xyz", top_k=4)
    assert found.documents[0].text == "xyz"
    assert found.documents[0].collection == "c"
    assert len(found.documents) == 4


async def test_mt_9_different_metrics_are_fused_by_rank() -> None:
    async with library_in() as (library, _):
        await fill(library, "dots", "abcabc", "abx", metric="dot")
        await fill(library, "angles", "abc", "xyz")
        found = await ask_for(library, "abc", top_k=4)
    firsts = {each.collection for each in found.documents[:2]}
    assert firsts == {"dots", "angles"}
    assert [each.rank for each in found.documents] == [1, 1, 2, 2]
    assert all(each.fused is not None for each in found.documents)


async def test_mt_11_mmr_prefers_variety_and_gives_no_similarity() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "aaab", "aaabb", "aaabbb", "zzzaz")
        plain = await ask_for(library, "aaab", top_k=2)
        found = await ask_for(library, "aaab", top_k=2, search_type="mmr", lambda_mult=0.1)
    assert [each.text for each in plain.documents] == ["aaab", "aaabb"]
    assert [each.text for each in found.documents] == ["aaab", "zzzaz"]
    assert [each.similarity for each in found.documents] == [None, None]


async def test_mt_11_search_types_are_read_as_people_write_them() -> None:
    assert search_type_of("Similarity Score Threshold") == "similarity_score_threshold"
    assert search_type_of("MMR") == "mmr"
    assert search_type_of("threshold") == "similarity_score_threshold"
    with pytest.raises(ArgumentError, match="There is no search type 'nearest'"):
        search_type_of("nearest")


async def test_hybrid_finds_what_meaning_misses() -> None:
    """A word that no vector knows decides."""
    async with library_in() as (library, _):
        texts = [f"aaab bba {'c' * n}" for n in range(1, 30)]  # the letters, and none of the words
        await fill(library, "one", *texts, "zzz error 4711")
        found = await ask_for(library, "aaa bbb 4711", search_type="hybrid", top_k=3, fetch_k=5)
        plain = await ask_for(library, "aaa bbb 4711", search_type="similarity", top_k=3)
    assert "zzz error 4711" in [each.text for each in found.documents]
    assert "zzz error 4711" not in [each.text for each in plain.documents]
    shown = next(each for each in found.documents if "4711" in each.text)
    assert shown.similarity is not None
    assert shown.words is not None


async def test_a_named_collection_is_searched_without_choosing() -> None:
    async with library_in() as (library, _):
        await fill(library, "one", "abc")
        await fill(library, "two", "abc")
        ask = Asked(select='["one"]', grade="yes")
        named = await ask_for(library, "abc", collections=("two",), ask=ask)
        chosen = await ask_for(library, "abc", ask=ask)
    assert (named.searched, chosen.searched) == (("two",), ("one",))
    assert ask.purposes == ["grade", "select", "grade"]


async def test_a_collection_that_keeps_failing_rests() -> None:
    async with library_in(cooldown_s=1000.0) as (library, bench):
        await fill(library, "one", "abc")
        index: Any = bench.vectors("sqlite")
        calls: list[int] = []

        async def lost(*_: object, **__: object) -> Any:
            calls.append(1)
            raise StoreError("The connection is lost.")

        index.nearest = lost
        for _ in range(4):
            await ask_for(library, "abc")
        found = await ask_for(library, "abc")
    assert len(calls) == 3
    assert "failed 3 times in a row" in found.failed["one"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"question": " "}, "The question is empty"),
        ({"question": "x" * 8001}, "8,001 characters"),
        ({"question": "x", "top_k": 0}, "top_k is 0"),
        ({"question": "x", "lambda_mult": 1.5}, "lambda_mult is 1.5"),
    ],
)
async def test_a_request_that_cannot_be_answered_says_why(
    fields: dict[str, Any], words: str
) -> None:
    async with library_in() as (library, _):
        with pytest.raises(ArgumentError, match=words):
            await ask_for(library, **fields)


async def test_projects_never_see_each_others_collections() -> None:
    async with library_in() as (library, bench):
        store: Any = bench.store
        await store.projects.add_references(["shop"])
        await fill(library, "one", "abc")
        await library.make("shop", "one")
        assert [each.documents for each in await library.collections("shop")] == [0]
        with pytest.raises(ArgumentError, match="There is no collection 'two'"):
            await library.documents("shop", "two")


@pytest.mark.real
async def test_postgresql_gives_the_same_order(postgres: PostgresServer) -> None:
    texts = ["The token is sent by mail.", "Reset the VPN token at the desk.", "Cats sleep."]
    orders: list[list[str]] = []
    for url in ("sqlite://", postgres.new_schema()):
        async with library_in(url) as (library, _):
            await fill(library, "one", *texts)
            for kind in ("similarity", "hybrid"):
                found = await ask_for(library, "reset a token", search_type=kind)
                orders.append([each.text for each in found.documents])
            await library.remove(P, "one", sources=["one-1.md"])
            left = await ask_for(library, "reset a token", search_type="hybrid")
            orders.append([each.text for each in left.documents])
    assert orders[:3] == orders[3:]
    assert orders[2] == [text for text in orders[1] if "desk" not in text]
