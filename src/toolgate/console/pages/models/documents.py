"""The Documents pages: collections, their documents, and the passages of a document."""

import base64
import binascii
import hashlib
from pathlib import PurePosixPath

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.documents import NewDocument, RetrieveRequest
from toolgate.errors import ArgumentError, DocumentError
from toolgate.store import StoredFailure

__all__ = ["ROUTES"]

_DOCUMENTS_PER_PAGE = 100
"""Documents per page (chosen)."""
_PASSAGES_PER_PAGE = 50
"""Passages per page (chosen)."""
_LONGEST_NAME = 200
"""Characters of the name of an uploaded file (chosen)."""


async def _collections(visit: Visit) -> Response:
    question = visit.asked("q").strip()
    retrieval = None
    if question and not visit.was_sent:
        retrieval = await visit.gateway.documents.retrieve(
            visit.caller,
            RetrieveRequest(
                question=question,
                collections=tuple(filter(None, [visit.asked("in")])),
                rephrase=False,
                grade=False,
            ),
        )
    return visit.page(
        "documents.html",
        collections=await visit.gateway.documents.collections(visit.caller),
        question=question,
        retrieval=retrieval,
        given=[p.passage_id for p in retrieval.injected_passages] if retrieval else [],
    )


async def _make(visit: Visit) -> Response:
    collection = await visit.gateway.documents.make(
        visit.caller,
        visit.typed("name").strip(),
        description=visit.typed("description").strip() or None,
    )
    return visit.go("documents/collection", message="Saved.", name=collection.name)


async def _collection(visit: Visit) -> Response:
    name = visit.typed("name")
    collection = next(
        (
            collection
            for collection in await visit.gateway.documents.collections(visit.caller)
            if collection.name == name
        ),
        None,
    )
    if collection is None:
        raise ArgumentError(f"No collection {name[:60]!r}.", hint="It may have been removed.")
    documents = await visit.gateway.documents.documents(visit.caller, name)
    page = visit.page_number()
    first = (page - 1) * _DOCUMENTS_PER_PAGE
    return visit.page(
        "collection.html",
        collection=collection,
        failures=await visit.gateway.documents.failures(visit.caller, name)
        if visit.manages
        else (),
        documents=documents[first : first + _DOCUMENTS_PER_PAGE],
        outdated=sum(1 for _, is_current in documents if not is_current),
        page=page,
        pages=max(1, -(-len(documents) // _DOCUMENTS_PER_PAGE)),
    )


async def _change(visit: Visit) -> Response:
    service, name = visit.gateway.documents, visit.typed("name")
    match visit.typed("do"):
        case "upload":
            message = await _upload(visit, name)
        case "remove":
            removed = await service.remove(visit.caller, name, documents=[visit.typed("id")])
            message = f"Removed {removed[0].source}." if removed else "It was removed already."
        case "dismiss":
            await service.dismiss_failure(
                visit.caller, name, visit.typed("origin"), visit.typed("source")
            )
            message = "Dismissed."
        case "reindex":
            collection = await service.reindex(visit.caller, name)
            message = f"{collection.passages:,} passages have new vectors."
        case "describe":
            await service.make(visit.caller, name, description=visit.typed("description").strip())
            message = "Saved."
        case "delete":
            await service.delete(visit.caller, name)
            return visit.go("documents", message=f"Removed the collection {name}.")
        case other:
            raise ArgumentError(f"Unknown action {other[:40]!r}.")
    return visit.go("documents/collection", message=message, name=name)


async def _upload(visit: Visit, name: str) -> str:
    """Import an uploaded file or a pasted text."""
    source = PurePosixPath(visit.typed("source").strip().replace("\\", "/")).name[:_LONGEST_NAME]
    if not source:
        raise ArgumentError("The document has no name.", hint="Name it, such as leave.md.")
    text, content = visit.typed("text"), visit.typed("content")
    data = text.encode()
    if content:
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise ArgumentError("The upload was incomplete.", hint="Send it again.") from error
    if not data.strip():
        raise ArgumentError("The document is empty.", hint="Choose a file, or paste a text.")
    service, origin = visit.gateway.documents, f"console:{source}"
    try:
        converted = await service.convert(visit.caller, source, data)
        added = await service.add(
            visit.caller,
            name,
            NewDocument(
                source=source,
                origin=origin,
                text=converted.text,
                title=converted.title,
                has_pages=converted.has_pages,
                media_type=converted.media_type,
                sha256=hashlib.sha256(data).hexdigest(),
                size_bytes=len(data),
            ),
        )
    except DocumentError as error:
        failure = StoredFailure(source=source, origin=origin, reason=str(error))
        await service.note_failures(visit.caller, name, [failure])
        raise
    return f"{source}: {added.status}, {added.passages:,} passages."


async def _document(visit: Visit) -> Response:
    name, document_id = visit.asked("name"), visit.asked("id")
    document = next(
        (
            document
            for document, _ in await visit.gateway.documents.documents(visit.caller, name)
            if document.document_id == document_id
        ),
        None,
    )
    if document is None:
        raise ArgumentError("No such document.", hint="It may have been removed or replaced.")
    passages = [
        passage
        for _, passage in await visit.gateway.documents.passages(visit.caller, name, document_id)
    ]
    shown = visit.asked("passage")
    page = visit.page_number()
    if shown.isdecimal() and not visit.asked("page"):
        at = next((at for at, p in enumerate(passages) if p.passage_id == int(shown)), 0)
        page = at // _PASSAGES_PER_PAGE + 1
    first = (page - 1) * _PASSAGES_PER_PAGE
    return visit.page(
        "document.html",
        collection=name,
        document=document,
        passages=passages[first : first + _PASSAGES_PER_PAGE],
        total=len(passages),
        shown=shown,
        page=page,
        pages=max(1, -(-len(passages) // _PASSAGES_PER_PAGE)),
    )


ROUTES = (
    Route(path="documents", show=_collections, act=_make),
    Route(path="documents/collection", show=_collection, act=_change, is_long=True),
    Route(path="documents/document", show=_document),
)
