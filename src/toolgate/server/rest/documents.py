"""REST routes for document collections: search, upload, administration."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from toolgate.documents import (
    Collection,
    ConversationMessage,
    NewDocument,
    RetrieveRequest,
    search_type_of,
)
from toolgate.errors import ArgumentError, DocumentError
from toolgate.gateway.gateway import Gateway
from toolgate.types import Caller, Json, json_array, json_object

__all__ = ["DOCUMENTS", "read_retrieve"]

Answer = Callable[[Gateway, Caller, tuple[str, ...], Json], Awaitable[tuple[int, object]]]


async def _retrieve(gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json) -> Any:
    """`POST retrieve`: passages that answer a question."""
    retrieval = await gateway.documents.retrieve(caller, read_retrieve(body))
    return 200, {
        **retrieval.as_json(),
        "text": retrieval.injected,
        "for_user": retrieval.for_user or None,
        "took_ms": dict(retrieval.took_ms),
    }


def read_retrieve(body: Json) -> RetrieveRequest:
    """The question of a body.

    Raises:
        ArgumentError: A member is unknown, missing or wrong.
    """
    fields = _read(
        body,
        question=str,
        history=list,
        collections=list,
        top_k=int,
        search_type=str,
        score_threshold=float,
        fetch_k=int,
        lambda_mult=float,
        rephrase=bool,
        grade=bool,
    )
    if "question" not in fields:
        raise ArgumentError("Member 'question' is missing.", allowed="It is a text.")
    search_type = fields.get("search_type")
    return RetrieveRequest(
        question=fields["question"],
        history=tuple(_history_entry(entry) for entry in fields.get("history", ())),
        collections=tuple(_text(name, "collections") for name in fields.get("collections", ())),
        top_k=fields.get("top_k"),
        search_type=None if search_type is None else search_type_of(search_type),
        score_threshold=fields.get("score_threshold"),
        fetch_k=fields.get("fetch_k"),
        lambda_mult=fields.get("lambda_mult"),
        rephrase=fields.get("rephrase"),
        grade=fields.get("grade"),
    )


async def _collections(
    gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json
) -> Any:
    """`GET collections`: those that the caller may ask."""
    collections = await gateway.documents.collections(caller)
    return 200, {"collections": [_collection(collection) for collection in collections]}


async def _save(gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json) -> Any:
    """`POST collections`: make one, or change alias and description of one."""
    fields = _read(body, name=str, alias=str, description=str, model=str, metric=str, place=str)
    if "name" not in fields:
        raise ArgumentError("Member 'name' is missing.", allowed="It is a text.")
    collection = await gateway.documents.make(caller, fields.pop("name"), **fields)
    return 201, _collection(collection)


async def _delete(gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`DELETE collections/NAME`."""
    return 200, _collection(await gateway.documents.delete(caller, names[0]))


async def _reindex(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST collections/NAME/reindex`: vectors anew, also of another model, metric or place."""
    fields = _read(body, model=str, metric=str, place=str)
    return 200, _collection(await gateway.documents.reindex(caller, names[0], **fields))


async def _optimize(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST collections/NAME/settle`: prepare for being searched after much was added."""
    _read(body)
    await gateway.documents.settle(caller, names[0])
    return 200, {"name": names[0]}


async def _documents(gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET collections/NAME/documents`."""
    return 200, {
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
            for row, is_current in await gateway.documents.documents(caller, names[0])
        ]
    }


async def _add(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST collections/NAME/documents`: take one in, as `text` or as a file in `content`."""
    fields = _read(
        body,
        source=str,
        origin=str,
        title=str,
        text=str,
        content=str,
        media_type=str,
        sha256=str,
        size_bytes=int,
        has_pages=bool,
    )
    if "source" not in fields or ("text" in fields) == ("content" in fields):
        raise ArgumentError(
            "A document needs a source, and a text or the content of a file.",
            allowed='Allowed: {"source": PATH, "text": MARKDOWN}, or "content" in base64.',
        )
    if "content" in fields:
        document = await _converted(gateway, caller, fields)
    else:
        text: str = fields["text"]
        document = NewDocument(
            source=fields["source"],
            origin=fields.get("origin", ""),
            title=fields.get("title", ""),
            text=text,
            media_type=fields.get("media_type", "text/markdown"),
            sha256=fields.get("sha256") or _hash(text.encode("utf-8", "surrogatepass")),
            size_bytes=fields.get("size_bytes", len(text)),
            has_pages=fields.get("has_pages", False),
        )
    added = await gateway.documents.add(caller, names[0], document)
    return 200 if added.status == "unchanged" else 201, {
        "source": added.source,
        "status": added.status,
        "passages": added.passages,
    }


async def _converted(gateway: Gateway, caller: Caller, fields: Json) -> NewDocument:
    """A file as a document."""
    settings = gateway.settings.documents
    try:
        data = base64.b64decode(fields["content"], validate=True)
    except ValueError as error:
        raise ArgumentError("Member 'content' is not base64.", allowed="It is a file.") from error
    if len(data) > settings.max_file_mb * 2**20:
        raise DocumentError(
            f"{fields['source']} has {len(data) / 2**20:.0f} MB.",
            allowed=f"Allowed: {settings.max_file_mb} MB (setting documents.max_file_mb).",
            hint="Split it, or raise the limit.",
        )
    converted = await gateway.documents.convert(
        caller, fields["source"], data, media_type=fields.get("media_type", "")
    )
    return NewDocument(
        source=fields["source"],
        origin=fields.get("origin", ""),
        title=fields.get("title") or converted.title,
        text=converted.text,
        media_type=converted.media_type,
        sha256=_hash(data),
        size_bytes=len(data),
        has_pages=converted.has_pages,
    )


async def _remove(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST collections/NAME/remove`: documents by `sources`, `origins` or `documents` (ids)."""
    fields = _read(body, sources=list, origins=list, documents=list)
    filters = {key: [_text(item, key) for item in values] for key, values in fields.items()}
    gone = await gateway.documents.remove(caller, names[0], **filters)
    return 200, {"removed": [row.source for row in gone]}


def _collection(collection: Collection) -> Json:
    return {
        "name": collection.name,
        "alias": collection.alias,
        "description": collection.description,
        "model": collection.model,
        "metric": collection.metric,
        "place": collection.place,
        "documents": collection.documents,
        "passages": collection.passages,
        "updated_at": collection.updated_at or None,
        "problem": collection.problem or None,
    }


def _history_entry(value: object) -> ConversationMessage:
    entry = json_object(value)
    role, text = entry.get("role"), entry.get("content")
    if role not in {"user", "assistant"} or not isinstance(text, str):
        raise ArgumentError(
            "An entry of 'history' is none.",
            allowed='Allowed: {"role": "user" or "assistant", "content": TEXT}.',
        )
    return ConversationMessage(role=cast('Literal["user", "assistant"]', role), text=text)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"Member {name!r} must be a list of texts.")
    return value


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _read(body: Json, **members: type) -> Json:
    """The members that are there, after a check of all."""
    unknown = sorted(body.keys() - members.keys())
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.",
            allowed=f"Allowed: {', '.join(members)}." if members else "No member is allowed here.",
        )
    fields: Json = {name: value for name, value in body.items() if value is not None}
    for name, value in fields.items():
        kind = members[name]
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ArgumentError(f"Member {name!r} must be {_WORDS.get(kind, 'a list')}.")
        if kind is list:
            fields[name] = json_array(value)
    return fields


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


DOCUMENTS: dict[tuple[str, str], Answer] = {
    ("POST", "retrieve"): _retrieve,
    ("GET", "collections"): _collections,
    ("POST", "collections"): _save,
    ("DELETE", "collections/*"): _delete,
    ("POST", "collections/*/reindex"): _reindex,
    ("POST", "collections/*/settle"): _optimize,
    ("GET", "collections/*/documents"): _documents,
    ("POST", "collections/*/documents"): _add,
    ("POST", "collections/*/remove"): _remove,
}
"""What answers, by method and path."""
