"""Document operations: questions, collections, uploads.

`gateway.Gateway` offers them as `documents`, and `retrieve` as a method of its own. Callers that
may read the resource `documents:COLLECTION` may query a collection; filling it requires the
right to manage.
"""

from collections.abc import Collection as Some
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Protocol

from toolgate.base.tracing import observe
from toolgate.documents import (
    AddedDocument,
    AskModel,
    Collection,
    ConversationMessage,
    ConvertedDocument,
    GradedPassages,
    NewDocument,
    OnRetrieved,
    RephrasedQuestion,
    Retrieval,
    RetrieveRequest,
    grade,
    rephrase,
    retrieve,
)
from toolgate.errors import ArgumentError, StoreError, UnknownToolError
from toolgate.gateway.parts import DocumentParts, GatewayContext
from toolgate.store import StoredDocument, StoredFailure, StoredPassage
from toolgate.types import Caller, Json

PACK = "documents"
"""The pack whose tools offer these operations, and the server that resources are named after."""

_RETRIEVER = f"{PACK}:retriever"
_QUERY_CHARS = 2_000
"""Characters of a query written by a model (chosen: a few sentences)."""


class Rendered(Protocol):
    """Renders a prompt for a project; see `prompts.Render`."""

    async def __call__(self, project_id: str, name: str, values: Mapping[str, str], /) -> str:
        """Return the text with its fields filled in."""
        ...


class DocumentService:
    """Document operations for callers."""

    def __init__(self, context: GatewayContext, parts: DocumentParts, *, render: Rendered) -> None:
        self._library = parts.library
        self._access = context.access
        self._receipts = context.receipts
        self._visible = context.visible
        self._catalog = context.catalog
        self._render = render
        self._settings = context.settings
        self._helper = parts.helper

    # Queries

    async def retrieve(
        self,
        caller: Caller,
        request: RetrieveRequest,
        *,
        ask: AskModel | None = None,
        on_found: OnRetrieved | None = None,
    ) -> Retrieval:
        """Answer a question from documents; see `documents.retrieve`.

        Args:
            caller: The caller.
            request: The question.
            ask: The chat model to use; None for the configured one.
            on_found: Called with what was searched, before anything is graded.

        Raises:
            UnknownToolError: The caller may not query documents.
            ArgumentError: The request cannot be answered, or names a collection that does not
                exist for the caller.
        """
        began = perf_counter()
        with self._receipts.refusals(caller, "retrieve", ",".join(request.collections)):
            self._must_ask(caller)
            try:
                collections: list[Collection] | None = await self.collections(caller, counted=False)
            except StoreError:
                collections = None
            if request.collections and collections is not None:
                collections = _named(collections, request.collections)
        with observe("retrieve", collections=len(collections or ())):
            found = await retrieve(
                self._library,
                collections,
                request,
                ask=ask or self._helper(),
                render=self._rendering(caller),
                on_found=on_found,
            )
        query = found.query if self._settings.current.audit.keep_queries else None
        self._receipts.simple(
            caller,
            "retrieve",
            began=began,
            query=query[:_QUERY_CHARS] if query is not None else None,
            detail={
                "status": found.status,
                "searched": list(found.searched),
                "failed": sorted(found.failed),
                "passages": len(found.documents),
                "documents": sorted({each.document_id for each in found.documents}),
                "was_rephrased": found.was_rephrased,
                "relevant": found.relevant,
                "graded": found.grading_performed,
                "took_ms": dict(found.took_ms),
            },
        )
        return found

    async def rephrase(
        self, caller: Caller, question: str, history: Sequence[ConversationMessage]
    ) -> RephrasedQuestion:
        """Rephrase a question so that it makes sense without its conversation."""
        self._must_ask(caller)
        settings = self._library.settings
        return await rephrase(
            question,
            history,
            ask=self._helper(),
            render=self._rendering(caller),
            is_enabled=settings.rephrase,
            timeout_s=settings.rephrase_timeout_s,
        )

    async def grade(
        self, caller: Caller, question: str, documents: Sequence[str]
    ) -> GradedPassages:
        """Grade whether documents help to answer a question."""
        self._must_ask(caller)
        settings = self._library.settings
        return await grade(
            question,
            documents,
            ask=self._helper(),
            render=self._rendering(caller),
            is_enabled=settings.grade,
            timeout_s=settings.grade_timeout_s,
        )

    async def collections(self, caller: Caller, *, counted: bool = True) -> list[Collection]:
        """The collections that the caller may query; see `Library.collections`."""
        return [
            each
            for each in await self._library.collections(caller.project_id, counted=counted)
            if self._access.decide(caller, "read", f"{PACK}:{each.name}").allowed
        ]

    def _must_ask(self, caller: Caller) -> None:
        """Refuse callers that may not use the tool that queries documents, on every interface."""
        is_listed = self._catalog.snapshot.tool(_RETRIEVER) is not None
        if is_listed and not self._access.decide(caller, "call", _RETRIEVER).allowed:
            raise UnknownToolError(f"There is no tool {_RETRIEVER!r}.")

    def _rendering(self, caller: Caller) -> Any:
        async def render(name: str, values: Mapping[str, str], /) -> str:
            return await self._render(caller.project_id, name, values)

        return render

    # Management

    async def documents(self, caller: Caller, name: str) -> list[tuple[StoredDocument, bool]]:
        """The documents of a collection, and whether each is split as the current settings say."""
        found = _named(await self.collections(caller, counted=False), [name])
        rows = await self._library.documents(caller.project_id, found[0].name)
        suffix = self._library.kept_hash("")
        return [
            (
                replace(row, content_hash=row.content_hash.partition("-")[0]),
                row.content_hash.endswith(suffix),
            )
            for row in rows
        ]

    async def passages(
        self, caller: Caller, name: str, document_id: str | None = None
    ) -> list[tuple[str, StoredPassage]]:
        """The passages of a collection or of one of its documents, each with its source.

        Ordered by document, then by position in the text.
        """
        collection = _named(await self.collections(caller, counted=False), [name])[0]
        project_id = caller.project_id
        sources = {
            document.document_id: document.source
            for document in await self._library.documents(project_id, collection.name)
        }
        passages = await self._library.passages(project_id, collection.name, document_id)
        return [
            (sources[owner], passage)
            for owner, passage in passages
            if owner in sources  # one that has just been removed
        ]

    async def passage_texts(
        self, caller: Caller, name: str, passage_ids: Sequence[int]
    ) -> dict[int, str]:
        """Texts of a collection's passages by number; missing passages are left out."""
        collection = _named(await self.collections(caller, counted=False), [name])[0]
        return await self._library.passage_texts(caller.project_id, collection.name, passage_ids)

    async def make(self, caller: Caller, name: str, **settings: str | None) -> Collection:
        """Create a collection, or change its alias and description; see `Library.make`."""
        self._visible.must_manage(caller)
        began = perf_counter()
        made = await self._library.make(caller.project_id, name, **settings)
        await self._note(caller, "collection_save", began, {"collection": made.name})
        return made

    async def delete(self, caller: Caller, name: str) -> Collection:
        """Delete a collection with everything in it."""
        self._visible.must_manage(caller)
        began = perf_counter()
        gone = await self._library.delete(caller.project_id, name)
        await self._note(
            caller,
            "collection_delete",
            began,
            {"collection": gone.name, "documents": gone.documents},
        )
        return gone

    async def reindex(self, caller: Caller, name: str, **settings: str | None) -> Collection:
        """Recompute the vectors of a collection; see `Library.reindex`."""
        self._visible.must_manage(caller)
        began = perf_counter()
        made = await self._library.reindex(caller.project_id, name, **settings)
        await self._note(
            caller, "collection_reindex", began, {"collection": made.name, "model": made.model}
        )
        return made

    async def convert(
        self, caller: Caller, name: str, data: bytes, *, media_type: str = ""
    ) -> ConvertedDocument:
        """Convert a file to text before it is added; see `documents.DocumentConverter`."""
        self._visible.must_manage(caller)
        return await self._library.converter.convert(name, data, media_type=media_type)

    async def add(self, caller: Caller, name: str, document: NewDocument) -> AddedDocument:
        """Add a document."""
        self._visible.must_manage(caller)
        began = perf_counter()
        with self._receipts.refusals(caller, "document_add", name):
            added = await self._library.add(caller.project_id, name, document)
        if added.status != "unchanged":
            await self._note(
                caller,
                "document_add",
                began,
                {
                    "collection": name,
                    "status": added.status,
                    "passages": added.passages,
                    "sha256": document.sha256,
                },
            )
        return added

    async def remove(
        self,
        caller: Caller,
        name: str,
        *,
        sources: Some[str] = (),
        origins: Some[str] = (),
        documents: Some[str] = (),
    ) -> list[StoredDocument]:
        """Delete documents by source, origin or id."""
        self._visible.must_manage(caller)
        began = perf_counter()
        gone = await self._library.remove(
            caller.project_id, name, sources=sources, origins=origins, documents=documents
        )
        if gone:
            detail: Json = {"collection": name, "documents": [each.document_id for each in gone]}
            await self._note(caller, "document_remove", began, detail)
        return gone

    async def failures(self, caller: Caller, name: str) -> list[StoredFailure]:
        """Documents that could not be imported into a collection, by origin and source."""
        self._visible.must_manage(caller)
        return await self._library.failures(caller.project_id, name)

    async def note_failures(
        self,
        caller: Caller,
        name: str,
        failures: Sequence[StoredFailure],
        *,
        origins: Some[str] = (),
    ) -> None:
        """Keep which documents could not be imported; see `Library.note_failures`."""
        self._visible.must_manage(caller)
        await self._library.note_failures(caller.project_id, name, failures, origins=origins)

    async def dismiss_failure(self, caller: Caller, name: str, origin: str, source: str) -> bool:
        """Delete a failure. Return False if there is none."""
        self._visible.must_manage(caller)
        return await self._library.dismiss_failure(caller.project_id, name, origin, source)

    async def settle(self, caller: Caller, name: str) -> None:
        """Optimize a collection for search after many additions."""
        self._visible.must_manage(caller)
        await self._library.settle(caller.project_id, name)

    async def _note(self, caller: Caller, action: str, began: float, detail: Json) -> None:
        await self._receipts.note(caller, action, detail, began=began)


def _named(collections: Sequence[Collection], names: Sequence[str]) -> list[Collection]:
    """The collections with these names or aliases.

    Raises:
        ArgumentError: One does not exist.
    """
    found: dict[str, Collection] = {}
    for name in names:
        wanted = name.strip().casefold()
        by_name = [each for each in collections if each.name.casefold() == wanted]
        by_alias = [each for each in collections if each.alias and each.alias.casefold() == wanted]
        if not by_name and not by_alias:
            raise ArgumentError(
                f"There is no collection {name[:80]!r}.",
                allowed=f"Collections: {', '.join(each.name for each in collections) or 'none'}.",
                hint="Correct the name, or leave it out.",
            )
        first = (by_name or by_alias)[0]
        found[first.name] = first
    return list(found.values())
