"""Retrieval: rephrase, select, search, fuse, grade, always in this order.

Failures of models, databases and services raise nothing: a turn continues without documents, and
the user is told only what makes any answer wrong.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.documents.base import (
    SEARCH_TYPES,
    AskModel,
    Collection,
    FoundPassage,
    OnRetrieved,
    RenderPrompt,
    Retrieval,
    RetrieveRequest,
    SearchType,
)
from toolgate.documents.library import DocumentLibrary, PassageSearch
from toolgate.documents.model_steps import (
    RephrasedQuestion,
    SelectedCollections,
    grade,
    rephrase,
    select,
)
from toolgate.documents.ranking import above_threshold, fuse_rankings
from toolgate.documents.reranking import passages_worth_reading, rerank_passages, with_codes_first
from toolgate.errors import ArgumentError, StoreError
from toolgate.settings import DocumentSettings

log = logging.getLogger(__name__)

NO_COLLECTIONS = "No vector stores available with enabled embedding models."
"""Message for the user if there is nothing to search."""

NOT_CONNECTED = "The documents cannot be searched now: not connected to the database."
"""Message for the user if the vector store cannot be reached."""

_LONGEST_QUESTION = 8_000
"""Characters: about 2,000 tokens; longer texts are documents (chosen)."""


async def retrieve(
    library: DocumentLibrary,
    collections: Sequence[Collection] | None,
    request: RetrieveRequest,
    *,
    ask: AskModel | None,
    render: RenderPrompt,
    on_found: OnRetrieved | None = None,
) -> Retrieval:
    """Return the passages that answer a question.

    Args:
        library: The documents.
        collections: Collections that may be searched; None: they could not be listed.
        request: The question.
        ask: Asks the model for rephrasing, selecting and grading; None: these steps are skipped.
        render: Renders prompts.
        on_found: Called after the search, before grading.

    Raises:
        ArgumentError: The request is invalid.
    """
    run = _RetrievalRun(library=library, request=request, ask=ask, render=render)
    usable = [
        collection
        for collection in collections or ()
        if collection.passages and not collection.problem
    ]
    if not usable:
        log.info("no collection to search")
        unusable = {
            collection.name: collection.problem
            for collection in collections or ()
            if collection.problem
        }
        retrieval = run.ended(NO_COLLECTIONS, for_user=NO_COLLECTIONS, failed=unusable)
    else:
        retrieval = await run.search(usable)
    if on_found is not None:
        await on_found(retrieval.metadata())
    return await run.graded(retrieval)


def search_type_of(text: str) -> SearchType:
    """Return a search type by its name, in any spelling: `Similarity Score Threshold`.

    Raises:
        ArgumentError: It does not exist.
    """
    folded = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
    for search_type in SEARCH_TYPES:
        if folded == search_type or (folded, search_type) == (
            "threshold",
            "similarity_score_threshold",
        ):
            return search_type
    raise ArgumentError(
        f"There is no search type {text[:40]!r}.",
        allowed=f"Search types: {', '.join(SEARCH_TYPES)}.",
    )


@dataclass(kw_only=True)
class _RetrievalRun:
    """The retrieval for one question."""

    library: DocumentLibrary
    request: RetrieveRequest
    ask: AskModel | None
    render: RenderPrompt
    asked: RephrasedQuestion | None = None
    selected: SelectedCollections | None = None
    took_ms: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        question = self.request.question
        if not question.strip():
            raise ArgumentError("The question is empty.", hint="Say what to search for.")
        if len(question) > _LONGEST_QUESTION:
            raise ArgumentError(
                f"The question has {len(question):,} characters.",
                allowed=f"Allowed: {_LONGEST_QUESTION:,} at most.",
                hint="Send the question only, not the whole conversation.",
            )
        for name, value, low, high in (
            ("top_k", self.request.top_k, 1, 100),
            ("fetch_k", self.request.fetch_k, 1, 1000),
            ("lambda_mult", self.request.lambda_mult, 0, 1),
        ):
            if value is not None and not low <= value <= high:
                raise ArgumentError(f"{name} is {value!r}.", allowed=f"Allowed: {low} to {high:,}.")

    @property
    def settings(self) -> DocumentSettings:
        return self.library.settings

    async def search(self, usable: Sequence[Collection]) -> Retrieval:
        """Run all steps up to the search."""
        settings, request = self.settings, self.request
        began = perf_counter()
        self.asked = await rephrase(
            request.question,
            request.history,
            ask=self.ask,
            render=self.render,
            is_enabled=settings.rephrase if request.rephrase is None else request.rephrase,
            timeout_s=settings.rephrase_timeout_s,
        )
        began = self._elapsed("rephrase", began)
        chosen: Sequence[Collection] = usable
        if not request.collections:
            self.selected = await select(
                self.asked.query,
                usable,
                limit=settings.max_collections,
                ask=self.ask,
                render=self.render,
                timeout_s=settings.rephrase_timeout_s,
            )
            chosen = [
                collection
                for name in self.selected.names
                for collection in usable
                if collection.name == name
            ]
        began = self._elapsed("select", began)
        retrieval = await self._search(chosen)
        self._elapsed("search", began)
        return retrieval

    async def _search(self, chosen: Sequence[Collection]) -> Retrieval:
        assert self.asked is not None
        settings, request = self.settings, self.request
        top_k = request.top_k or settings.top_k
        looking = PassageSearch(
            search_type=request.search_type or settings.search_type,
            top_k=top_k,
            fetch_k=request.fetch_k or settings.fetch_k,
            lambda_mult=settings.lambda_mult
            if request.lambda_mult is None
            else request.lambda_mult,
        )
        vectors: dict[str, NDArray[np.float32] | Exception] = {}
        lists: dict[str, list[FoundPassage]] = {}
        failures: dict[str, Exception] = {}
        query = self.asked.query

        async def embed(model: str) -> None:
            """Embed the query once per model, however many collections use it."""
            try:
                vectors[model] = await self.library.vector(model, query)
            except Exception as error:  # noqa: BLE001 - other models continue
                vectors[model] = error

        async def search(collection: Collection) -> None:
            vector = vectors[collection.model]
            if isinstance(vector, Exception):
                failures[collection.name] = vector
                return
            try:
                lists[collection.name] = await self.library.search(
                    collection, query, vector, looking
                )
            except Exception as error:
                fields = {"collection": collection.name}
                log.warning("collection not searched", extra=fields, exc_info=True)
                failures[collection.name] = error

        async with anyio.create_task_group() as group:
            for model in dict.fromkeys(collection.model for collection in chosen):
                group.start_soon(embed, model)
        async with anyio.create_task_group() as group:
            for collection in chosen:
                group.start_soon(search, collection)
        failed = {
            collection.name: _reason(failures[collection.name])
            for collection in chosen
            if collection.name in failures
        }
        if not lists:
            lost = all(isinstance(error, StoreError | TimeoutError) for error in failures.values())
            reason = "; ".join(f"{name}: {text}" for name, text in failed.items())
            return self.ended(
                f"No collection could be searched: {reason}",
                for_user=NOT_CONNECTED if lost else "",
                failed=failed,
            )
        answered = [collection for collection in chosen if collection.name in lists]
        searched = tuple(collection.name for collection in answered)
        measures = {(collection.model_identity, collection.metric) for collection in answered}
        is_comparable = len(measures) == 1
        passages = fuse_rankings(
            [lists[name] for name in searched],
            is_comparable=is_comparable,
            by_words=looking.search_type == "hybrid",
        )
        helpful: list[FoundPassage] | None = None
        if looking.search_type == "hybrid":
            passages = await self._in_order(query, passages, is_comparable=is_comparable)
            helpful = passages_worth_reading(query, passages, most=top_k)
        passages = passages[:top_k]
        if looking.search_type == "similarity_score_threshold":
            threshold = request.score_threshold
            passages = above_threshold(
                passages, settings.score_threshold if threshold is None else threshold
            )
        return Retrieval(
            status="success",
            question=request.question,
            query=query,
            was_rephrased=self.asked.was_rephrased,
            documents=tuple(passages),
            helpful=None if helpful is None else tuple(helpful),
            searched=searched,
            failed=failed,
            selection=self.selected.selection if self.selected else "",
            took_ms=self.took_ms,
        )

    async def _in_order(
        self, query: str, passages: list[FoundPassage], *, is_comparable: bool
    ) -> list[FoundPassage]:
        """Sort passages by the reranker, with those that contain a code of the question first."""
        reranker = self.library.reranker()
        if reranker is not None:
            passages = await rerank_passages(
                reranker,
                query,
                passages,
                is_comparable=is_comparable,
                timeout_s=self.settings.timeout_s,
            )
        return with_codes_first(query, passages)

    async def graded(self, retrieval: Retrieval) -> Retrieval:
        """Return the retrieval with the grades of a model."""
        settings, request = self.settings, self.request
        if retrieval.status != "success" or not retrieval.documents:
            return retrieval
        began = perf_counter()
        verdict = await grade(
            request.question,
            [document.text for document in retrieval.injected_passages],
            ask=self.ask,
            render=self.render,
            is_enabled=settings.grade if request.grade is None else request.grade,
            timeout_s=settings.grade_timeout_s,
        )
        self._elapsed("grade", began)
        helpful = retrieval.helpful
        if verdict.helpful:
            helpful = tuple(retrieval.injected_passages[number] for number in verdict.helpful)
        return replace(
            retrieval,
            relevant=verdict.relevant,
            helpful=helpful,
            grading_performed=verdict.grading_performed,
        )

    def ended(self, error: str, *, for_user: str, failed: dict[str, str]) -> Retrieval:
        """Return the result if nothing could be searched."""
        return Retrieval(
            status="error",
            question=self.request.question,
            query=self.asked.query if self.asked else self.request.question,
            was_rephrased=self.asked.was_rephrased if self.asked else False,
            failed=failed,
            error=error,
            for_user=for_user,
            took_ms=self.took_ms,
        )

    def _elapsed(self, step: str, began: float) -> float:
        current = perf_counter()
        self.took_ms[step] = round((current - began) * 1000, 3)
        return current


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "It took too long."
    return str(error).partition("\n")[0] or type(error).__name__
