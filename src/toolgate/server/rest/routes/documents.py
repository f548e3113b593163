"""Routes for document collections: search, upload, administration."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from pydantic import Field

from toolgate.documents import ConversationMessage, NewDocument, RetrieveRequest, search_type_of
from toolgate.errors import ArgumentError, DocumentError
from toolgate.server.rest.models import Answer, Body, TextOrNull
from toolgate.server.rest.routing import Call, Reply, Routes, long_transactions
from toolgate.store import StoredFailure
from toolgate.types import Json

routes = Routes()


class HistoryEntry(Body):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    content: str


class Retrieve(Body):
    """A question to the documents; what is absent is as the settings say."""

    question: str
    history: list[HistoryEntry] = Field([], description="The conversation, with the question last.")
    collections: Sequence[str] = Field((), description="Names or aliases; absent: all.")
    top_k: int | None = None
    search_type: str | None = None
    score_threshold: float | None = None
    fetch_k: int | None = None
    lambda_mult: float | None = None
    rephrase: bool | None = None
    grade: bool | None = None

    def request(self) -> RetrieveRequest:
        """Return the request for the gateway.

        Raises:
            ArgumentError: The search type does not exist.
        """
        values = self.members()
        if self.search_type is not None:
            values["search_type"] = search_type_of(self.search_type)
        values["collections"] = tuple(self.collections)
        values["history"] = tuple(
            ConversationMessage(role=entry.role, text=entry.content) for entry in self.history
        )
        return RetrieveRequest(**values)


@routes.post("retrieve")
async def retrieve(call: Call, body: Retrieve) -> Json:
    """Find passages that answer a question."""
    retrieval = await call.gateway.documents.retrieve(call.caller, body.request())
    return {
        **retrieval.as_json(),
        "text": retrieval.injected,
        "for_user": retrieval.for_user or None,
        "took_ms": dict(retrieval.took_ms),
    }


class DocumentCollection(Answer):
    """A collection of documents."""

    name: str
    alias: str
    description: str
    model: str
    metric: str
    place: str
    documents: int
    passages: int
    updated_at: TextOrNull
    problem: TextOrNull


class CollectionList(Answer):
    """Collections that the caller may ask."""

    collections: list[DocumentCollection]


@routes.get("collections")
async def collections(call: Call) -> CollectionList:
    """List the collections that the caller may ask."""
    rows = await call.gateway.documents.collections(call.caller)
    return CollectionList.model_validate({"collections": rows})


class Reindex(Body):
    """How vectors are computed and where they are stored."""

    model: str | None = None
    metric: str | None = None
    place: str | None = None


class SaveCollection(Reindex):
    """A collection."""

    name: str
    alias: str | None = None
    description: str | None = None


@routes.post("collections", status=201)
async def save_collection(call: Call, body: SaveCollection) -> DocumentCollection:
    """Make a collection, or change alias and description of one."""
    row = await call.gateway.documents.make(call.caller, **body.members())
    return DocumentCollection.model_validate(row)


@routes.delete("collections/{name}")
async def delete_collection(call: Call, name: str) -> DocumentCollection:
    """Delete a collection."""
    with long_transactions():
        row = await call.gateway.documents.delete(call.caller, name)
    return DocumentCollection.model_validate(row)


@routes.post("collections/{name}/reindex")
async def reindex(call: Call, name: str, body: Reindex) -> DocumentCollection:
    """Compute vectors again, also of another model, metric or place."""
    row = await call.gateway.documents.reindex(call.caller, name, **body.members())
    return DocumentCollection.model_validate(row)


@routes.post("collections/{name}/settle")
async def optimize(call: Call, name: str) -> Json:
    """Prepare a collection for searches after much was added."""
    await call.gateway.documents.settle(call.caller, name)
    return {"name": name}


@routes.get("collections/{name}/documents")
async def documents(call: Call, name: str) -> Json:
    """List the documents of a collection."""
    return {
        "documents": [
            {
                "document_id": row.document_id,
                "source": row.source,
                "origin": row.origin,
                "title": row.title,
                "media_type": row.media_type,
                "sha256": row.content_hash,
                "is_current": is_current,
                "size_bytes": row.size_bytes,
                "passages": row.passages,
                "added_at": row.added_at,
            }
            for row, is_current in await call.gateway.documents.documents(call.caller, name)
        ]
    }


class AddDocument(Body):
    """A document: either its `text`, or the `content` of a file in base64."""

    source: str
    origin: str = ""
    title: str = ""
    text: str | None = None
    content: str | None = None
    media_type: str = ""
    sha256: str = ""
    size_bytes: int | None = None
    has_pages: bool = False


@routes.post("collections/{name}/documents", status=201)
async def add_document(call: Call, name: str, body: AddDocument) -> Reply:
    """Add a document, as `text` or as a file in `content`."""
    documents = call.gateway.documents
    if body.text is None and body.content is not None:
        try:
            document = await _converted(call, body, body.content)
        except DocumentError as error:
            failure = StoredFailure(source=body.source, origin=body.origin, reason=str(error))
            await documents.note_failures(call.caller, name, [failure])
            raise
    elif body.text is not None and body.content is None:
        document = NewDocument(
            source=body.source,
            origin=body.origin,
            title=body.title,
            text=body.text,
            media_type=body.media_type or "text/markdown",
            sha256=body.sha256 or _hash(body.text.encode("utf-8", "surrogatepass")),
            size_bytes=len(body.text) if body.size_bytes is None else body.size_bytes,
            has_pages=body.has_pages,
        )
    else:
        raise ArgumentError(
            "A document needs a source, and a text or the content of a file.",
            allowed='Allowed: {"source": PATH, "text": MARKDOWN}, or "content" in base64.',
        )
    added = await documents.add(call.caller, name, document)
    return Reply(
        200 if added.status == "unchanged" else 201,
        {"source": added.source, "status": added.status, "passages": added.passages},
    )


async def _converted(call: Call, body: AddDocument, content: str) -> NewDocument:
    """Convert a file to a document."""
    try:
        data = base64.b64decode(content, validate=True)
    except ValueError as error:
        raise ArgumentError("Member 'content' is not base64.", allowed="It is a file.") from error
    max_file_mb = call.gateway.settings.documents.max_file_mb
    if len(data) > max_file_mb * 2**20:
        raise DocumentError(
            f"{body.source} has {len(data) / 2**20:.0f} MB.",
            allowed=f"Allowed: {max_file_mb} MB (setting documents.max_file_mb).",
            hint="Split it, or raise the limit.",
        )
    converted = await call.gateway.documents.convert(
        call.caller, body.source, data, media_type=body.media_type
    )
    return NewDocument(
        source=body.source,
        origin=body.origin,
        title=body.title or converted.title,
        text=converted.text,
        media_type=converted.media_type,
        sha256=_hash(data),
        size_bytes=len(data),
        has_pages=converted.has_pages,
    )


@routes.get("collections/{name}/failures")
async def document_failures(call: Call, name: str) -> Json:
    """List the documents of a collection that could not be imported, and why."""
    failures = await call.gateway.documents.failures(call.caller, name)
    return {"failures": [asdict(failure) for failure in failures]}


class ImportFailure(Body):
    """A document that could not be imported."""

    source: str
    origin: str = ""
    reason: str


class ImportFailures(Body):
    """Documents that could not be imported."""

    failures: list[ImportFailure]
    origins: Sequence[str] = Field(
        (), description="What was imported completely: earlier failures there are deleted."
    )


@routes.post("collections/{name}/failures")
async def note_failures(call: Call, name: str, body: ImportFailures) -> Json:
    """Keep which documents could not be imported, until they are."""
    failures = [StoredFailure(**failure.model_dump()) for failure in body.failures]
    await call.gateway.documents.note_failures(call.caller, name, failures, origins=body.origins)
    return {"noted": len(failures)}


class RemoveDocuments(Body):
    """Which documents."""

    sources: Sequence[str] = ()
    origins: Sequence[str] = ()
    documents: Sequence[str] = Field((), description="Their ids.")


@routes.post("collections/{name}/remove")
async def remove_documents(call: Call, name: str, body: RemoveDocuments) -> Json:
    """Remove documents by `sources`, `origins` or `documents` (ids)."""
    rows = await call.gateway.documents.remove(call.caller, name, **body.members())
    return {"removed": [row.source for row in rows]}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
