"""Filling, renewing and emptying collections."""

from typing import Any

import pytest
from anyio import create_task_group

from tests.documents.libraries import Letters, doc, library_in, rendered
from toolgate.documents import DocumentLibrary, RetrieveRequest, retrieve
from toolgate.errors import ArgumentError, DocumentError, EmbedderError, SettingError, StoreError
from toolgate.settings import DocumentSettings
from toolgate.store import StoredFailure

P = "default"


async def texts(
    library: DocumentLibrary, question: str, *, search_type: Any = "similarity"
) -> list[str]:
    found = await retrieve(
        library,
        await library.collections(P),
        RetrieveRequest(question=question, search_type=search_type),
        ask=None,
        render=rendered,
    )
    return [each.text for each in found.documents]


async def test_what_has_not_changed_is_not_taken_in_again() -> None:
    async with library_in() as (library, _):
        await library.make(P, "one")
        first = await library.add(P, "one", doc("a.md", "abc"))
        again = await library.add(P, "one", doc("a.md", "abc"))
        changed = await library.add(P, "one", doc("a.md", "xyz"))
        assert [first.status, again.status, changed.status] == ["added", "unchanged", "replaced"]
        assert await texts(library, "abc", search_type="hybrid") == ["xyz"]
        [known] = await library.documents(P, "one")
        assert (known.source, known.passages) == ("a.md", 1)


async def test_a_document_that_is_cut_otherwise_now_is_cut_anew() -> None:
    async with library_in(passage_tokens=300) as (library, _):
        await library.make(P, "one")
        await library.add(P, "one", doc("a.md", "abc. " * 60))
        library._settings = lambda: DocumentSettings(model="letters", passage_tokens=32)
        added = await library.add(P, "one", doc("a.md", "abc. " * 60))
        assert added.status == "replaced"
        assert added.passages > 1


async def test_the_same_source_of_two_origins_is_two_documents() -> None:
    async with library_in() as (library, _):
        await library.make(P, "one")
        await library.add(P, "one", doc("a.md", "abc", origin="/x"))
        await library.add(P, "one", doc("a.md", "xyz", origin="/y"))
        assert len(await library.documents(P, "one")) == 2
        gone = await library.remove(P, "one", origins=["/x"])
        assert [each.origin for each in gone] == ["/x"]
        assert await texts(library, "abc") == ["xyz"]


async def test_a_failure_is_kept_until_its_document_is_taken_in() -> None:
    """Or until its origin was imported without it, or somebody dismisses it."""
    async with library_in() as (library, _):
        await library.make(P, "help")

        async def sources() -> list[str]:
            return [failure.source for failure in await library.failures(P, "help")]

        def failed(*names: str) -> list[StoredFailure]:
            return [
                StoredFailure(source=name, origin="/o", reason="It is broken.") for name in names
            ]

        await library.note_failures(P, "help", failed("b", "a"))
        await library.note_failures(P, "help", failed("a", "c"))
        assert await sources() == ["a", "b", "c"]
        await library.add(P, "help", doc("a", "abc", origin="/o"))
        assert await sources() == ["b", "c"]
        await library.note_failures(P, "help", failed("d"), origins=["/o"])
        assert await sources() == ["d"]
        assert not await library.dismiss_failure(P, "help", "/other", "d")
        assert await library.dismiss_failure(P, "help", "/o", "d")
        assert await sources() == []


async def test_removed_documents_are_found_no_more() -> None:
    async with library_in() as (library, bench):
        await library.make(P, "one")
        for name in ("a", "b", "c"):
            await library.add(P, "one", doc(f"{name}.md", f"{name}{name}{name} word"))
        await library.remove(P, "one", sources=["a.md", "unknown.md"])
        assert sorted(await texts(library, "word", search_type="hybrid")) == [
            "bbb word",
            "ccc word",
        ]
        gone = await library.delete(P, "one")
        assert gone.documents == 2
        assert await library.collections(P) == []
        store: Any = bench.store
        left = await store.reading(
            lambda driver: [
                driver.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("documents", "passages", "vectors")
            ]
        )
        assert left == [0, 0, 0]


async def test_a_failing_model_changes_nothing() -> None:
    letters = Letters()
    async with library_in(embedders={"letters": letters}) as (library, _):
        await library.make(P, "one")
        await library.add(P, "one", doc("a.md", "abc"))
        letters.fails = True
        with pytest.raises(EmbedderError):
            await library.add(P, "one", doc("a.md", "xyz"))
        with pytest.raises(EmbedderError):
            await library.reindex(P, "one", metric="dot")
        letters.fails = False
        assert await texts(library, "abc") == ["abc"]


async def test_vectors_without_their_document_are_not_found() -> None:
    """What a kill between both writes leaves."""
    async with library_in() as (library, bench):
        await library.make(P, "one")
        await library.add(P, "one", doc("a.md", "abc"))

        async def killed(*_: object) -> Any:
            raise StoreError("Killed.")

        rows: Any = library._rows
        real, rows.replace_document = rows.replace_document, killed
        with pytest.raises(StoreError):
            await library.add(P, "one", doc("b.md", "abcd"))
        rows.replace_document = real
        assert await texts(library, "abcd") == ["abc"]
        del bench


async def test_another_model_takes_the_place_of_the_first_as_a_whole() -> None:
    models = {"letters": Letters(), "other": Letters("other", dim=5)}
    async with library_in(embedders=models) as (library, bench):
        await library.make(P, "one")
        for at in range(5):
            await library.add(P, "one", doc(f"{at}.md", "abc" * (at + 1)))
        made = await library.reindex(P, "one", model="other", metric="dot")
        assert (made.model, made.dim, made.metric, made.passages) == ("other", 5, "dot", 5)
        assert len(await texts(library, "abc")) == 4
        store: Any = bench.store
        shelves = await store.reading(
            lambda driver: driver.execute(
                "SELECT collection_id, count(*) FROM vectors GROUP BY 1"
            ).fetchall()
        )
        assert shelves == [(made.shelf_id, 5)]


async def test_a_model_that_is_another_now_is_said_and_cured_by_reindexing() -> None:
    async with library_in() as (library, bench):
        await library.make(P, "one")
        await library.add(P, "one", doc("a.md", "abc"))
        bench.embedders["letters"] = Letters("newer")
        assert (
            "was indexed with the model 'letters-26'"
            in (await library.collection(P, "one")).problem
        )
        with pytest.raises(SettingError, match="toolgate docs reindex one"):
            await library.add(P, "one", doc("b.md", "xyz"))
        await library.reindex(P, "one")
        assert (await library.collection(P, "one")).problem == ""
        assert await texts(library, "abc") == ["abc"]


async def test_alias_and_description_can_be_changed_and_model_only_by_reindexing() -> None:
    async with library_in() as (library, _):
        await library.make(P, "Guides", alias="How-to", description="Old\ntext")
        made = await library.make(P, "guides", description="New text")
        assert (made.name, made.alias, made.description) == ("Guides", "How-to", "New text")
        assert (await library.collection(P, "HOW-TO")).name == "Guides"
        with pytest.raises(ArgumentError, match="has the metric 'cosine', not 'dot'"):
            await library.make(P, "guides", metric="dot")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a b"}, "is not a name for a collection"),
        ({"name": ""}, "is not a name for a collection"),
        ({"name": "x" * 65}, "is not a name for a collection"),
        ({"name": "one", "metric": "manhattan"}, "no metric 'manhattan'"),
        ({"name": "one", "description": "x" * 2001}, "The description has 2,001 characters"),
    ],
)
async def test_a_collection_that_cannot_be_says_why(fields: dict[str, str], words: str) -> None:
    async with library_in() as (library, _):
        with pytest.raises(ArgumentError, match=words):
            await library.make(P, **fields)
        with pytest.raises(SettingError, match="no embedding model"):
            await library.make(P, "one", model="none")


async def test_a_document_without_text_says_so() -> None:
    async with library_in() as (library, _):
        await library.make(P, "one")
        with pytest.raises(DocumentError, match=r"a\.pdf has no text"):
            await library.add(P, "one", doc("a.pdf", "\f\f"))
        with pytest.raises(ArgumentError, match="There is no collection 'two'"):
            await library.add(P, "two", doc("a.md", "abc"))


async def test_texts_that_no_database_likes_are_kept() -> None:
    async with library_in() as (library, _):
        await library.make(P, "one")
        hostile = "a\x00b \ud800 '\"; DROP TABLE passages; -- 漢字"
        await library.add(P, "one", doc("x\x00'.md", hostile))
        assert await texts(library, "漢字 ab", search_type="hybrid") == [hostile]
        [known] = await library.documents(P, "one")
        assert known.source == "x\x00'.md"


async def test_many_may_write_one_collection_at_once() -> None:
    async with library_in() as (library, _):
        await library.make(P, "one")

        async def add(at: int) -> None:
            await library.add(P, "one", doc(f"{at % 5}.md", f"abc {at}"))

        async with create_task_group() as group:
            for at in range(15):
                group.start_soon(add, at)
        assert len(await library.documents(P, "one")) == 5
        assert len(await texts(library, "abc", search_type="hybrid")) == 4
