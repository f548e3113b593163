"""The Documents pages: collections, their documents, and the passages of a document."""

import base64
import binascii
import hashlib
from pathlib import PurePosixPath

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.documents import NewDocument, RetrieveRequest
from toolgate.errors import ArgumentError, DocumentError
from toolgate.store import StoredFailure

_DOCUMENTS_PER_PAGE = 100
"""Documents per page (chosen)."""
_PASSAGES_PER_PAGE = 50
"""Passages per page (chosen)."""
_LONGEST_NAME = 200
"""Characters of the name of an uploaded file (chosen)."""


async def _collections(request: PageRequest) -> Response:
    question = request.query_value("q").strip()
    retrieval = None
    if question and not request.was_sent:
        retrieval = await request.gateway.documents.retrieve(
            request.caller,
            RetrieveRequest(
                question=question,
                collections=tuple(filter(None, [request.query_value("in")])),
                rephrase=False,
                grade=False,
            ),
        )
    return request.page(
        "documents.html",
        collections=await request.gateway.documents.collections(request.caller),
        question=question,
        retrieval=retrieval,
        given=[p.passage_id for p in retrieval.injected_passages] if retrieval else [],
    )


async def _make(request: PageRequest) -> Response:
    collection = await request.gateway.documents.make(
        request.caller,
        request.value("name").strip(),
        description=request.value("description").strip() or None,
    )
    return request.go("documents/collection", message="Saved.", name=collection.name)


async def _collection(request: PageRequest) -> Response:
    name = request.value("name")
    collection = next(
        (
            collection
            for collection in await request.gateway.documents.collections(request.caller)
            if collection.name == name
        ),
        None,
    )
    if collection is None:
        raise ArgumentError(f"No collection {name[:60]!r}.", hint="It may have been removed.")
    documents = await request.gateway.documents.documents(request.caller, name)
    page = request.page_number()
    first = (page - 1) * _DOCUMENTS_PER_PAGE
    return request.page(
        "collection.html",
        collection=collection,
        failures=await request.gateway.documents.failures(request.caller, name)
        if request.manages
        else (),
        documents=documents[first : first + _DOCUMENTS_PER_PAGE],
        outdated=sum(1 for _, is_current in documents if not is_current),
        page=page,
        pages=max(1, -(-len(documents) // _DOCUMENTS_PER_PAGE)),
    )


async def _change(request: PageRequest) -> Response:
    service, name = request.gateway.documents, request.value("name")
    match request.value("do"):
        case "upload":
            message = await _upload(request, name)
        case "remove":
            removed = await service.remove(request.caller, name, documents=[request.value("id")])
            message = f"Removed {removed[0].source}." if removed else "It has already been removed."
        case "dismiss":
            await service.dismiss_failure(
                request.caller, name, request.value("origin"), request.value("source")
            )
            message = "Dismissed."
        case "reindex":
            collection = await service.reindex(request.caller, name)
            message = f"Recomputed vectors: {collection.passages:,}."
        case "describe":
            await service.make(
                request.caller, name, description=request.value("description").strip()
            )
            message = "Saved."
        case "delete":
            await service.delete(request.caller, name)
            return request.go("documents", message=f"Removed the collection {name}.")
        case other:
            raise ArgumentError(f"Unknown action {other[:40]!r}.")
    return request.go("documents/collection", message=message, name=name)


async def _upload(request: PageRequest, name: str) -> str:
    """Import an uploaded file or a pasted text."""
    source = PurePosixPath(request.value("source").strip().replace("\\", "/")).name[:_LONGEST_NAME]
    if not source:
        raise ArgumentError("The document has no name.", hint="Name it, such as leave.md.")
    text, content = request.value("text"), request.value("content")
    data = text.encode()
    if content:
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise ArgumentError("The upload was incomplete.", hint="Send it again.") from error
    if not data.strip():
        raise ArgumentError("The document is empty.", hint="Choose a file, or paste a text.")
    service, origin = request.gateway.documents, f"console:{source}"
    try:
        converted = await service.convert(request.caller, source, data)
        added = await service.add(
            request.caller,
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
        await service.note_failures(request.caller, name, [failure])
        raise
    words = "passage" if added.passages == 1 else "passages"
    return f"{source}: {added.status}, {added.passages:,} {words}."


async def _document(request: PageRequest) -> Response:
    name, document_id = request.query_value("name"), request.query_value("id")
    document = next(
        (
            document
            for document, _ in await request.gateway.documents.documents(request.caller, name)
            if document.document_id == document_id
        ),
        None,
    )
    if document is None:
        raise ArgumentError("No such document.", hint="It may have been removed or replaced.")
    passages = [
        passage
        for _, passage in await request.gateway.documents.passages(
            request.caller, name, document_id
        )
    ]
    shown = request.query_value("passage")
    page = request.page_number()
    if shown.isdecimal() and not request.query_value("page"):
        at = next((at for at, p in enumerate(passages) if p.passage_id == int(shown)), 0)
        page = at // _PASSAGES_PER_PAGE + 1
    first = (page - 1) * _PASSAGES_PER_PAGE
    return request.page(
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
