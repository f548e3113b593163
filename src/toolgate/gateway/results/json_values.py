"""Reads and describes the JSON in a result."""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from toolgate.gateway.execution import STRUCTURED_MARK, text_of_block
from toolgate.types import Json

_MAX_KEYS: Final = 30
"""Keys that a message names (chosen)."""

_MAX_FIELDS: Final = 5
"""Fields of a suggested filter (chosen)."""

_MAX_DEPTH: Final = 3
"""Nested objects that are searched for a list (chosen)."""

_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})


def read_result(result: Json) -> Any:
    """The value of a result: its structured content, else the JSON in its text, else its text."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    raw = result.get("content")
    blocks = cast("list[object]", raw) if isinstance(raw, list) else []
    return read_text("\n".join(text for block in blocks if (text := text_of_block(block))))


def read_text(text: str) -> Any:
    """The value of a text: its JSON (several documents as a list), else the text itself."""
    _, mark, structured = text.rpartition(STRUCTURED_MARK)
    if mark:
        text = structured
    decoder, documents, at = json.JSONDecoder(), list[Any](), 0
    try:
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            document, at = decoder.raw_decode(text, at)
            documents.append(document)
    except (ValueError, RecursionError):
        return text
    if not documents:
        return text
    if len(documents) == 1:
        return documents[0]
    # Several numbers in a row are text; servers send a list as one object or list per block.
    return documents if all(isinstance(value, dict | list) for value in documents) else text


def describe(value: object) -> str:
    """Describe a value in a sentence."""
    if isinstance(value, dict):
        return f"The result is an object with {_keys(cast('Json', value))}."
    if isinstance(value, list):
        items = cast("list[object]", value)
        head = f"The result is a list of {len(items)}"
        if items and isinstance(items[0], dict):
            return f"{head}, the first with {_keys(cast('Json', items[0]))}."
        return f"{head}."
    if isinstance(value, str):
        return 'The result is a text, not JSON; split("\\n") makes a list of its lines.'
    return f"The result is {json.dumps(value)}."


def suggest_filter(schema: Json, value: object = None) -> str:
    """Suggest a jq filter for a few fields of each item, or of the object; empty if none is found.

    Args:
        schema: The output schema of the tool; what it leaves open is read from the value.
        value: The result; None if it is not read.
    """
    # A schema may leave its items to `$ref`, as those of the Python SDK do.
    shapes = (schema, _shape(value))
    for shape in shapes:
        if (listed := _list_of_objects(shape, ".", _MAX_DEPTH)) is not None:
            path, fields = listed
            return f"{path}[] | {{{', '.join(fields)}}}"
    fields = _scalar_fields(schema) or _scalar_fields(_shape(value))
    return f"{{{', '.join(fields)}}}" if fields else ""


def _keys(members: Mapping[str, object]) -> str:
    names = [
        f"{name} (list of {len(cast('list[object]', value))})" if isinstance(value, list) else name
        for name, value in list(members.items())[:_MAX_KEYS]
    ]
    if not names:
        return "no keys"
    more = f" and {len(members) - _MAX_KEYS} more" if len(members) > _MAX_KEYS else ""
    return f"the keys: {', '.join(names)}{more}"


def _list_of_objects(shape: Json, path: str, depth: int) -> tuple[str, list[str]] | None:
    items = shape.get("items")
    if isinstance(items, dict):
        fields = _scalar_fields(cast("Json", items))
        return (path, fields) if fields else None
    members = shape.get("properties")
    if depth == 0 or not isinstance(members, dict):
        return None
    for name, member in cast("dict[str, object]", members).items():
        if isinstance(member, dict):
            inner = f"{path.rstrip('.')}{_member(name)}"
            if listed := _list_of_objects(cast("Json", member), inner, depth - 1):
                return listed
    return None


def _scalar_fields(shape: Json) -> list[str]:
    members = shape.get("properties")
    if not isinstance(members, dict):
        return []
    names = [
        name
        for name, member in cast("dict[str, object]", members).items()
        if isinstance(member, dict) and _is_scalar(cast("Json", member))
    ]
    return [name if _is_plain(name) else json.dumps(name) for name in names[:_MAX_FIELDS]]


def _is_scalar(shape: Json) -> bool:
    kind = shape.get("type")
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    return any(name in _SCALARS for name in kinds)


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _member(name: str) -> str:
    return f".{name}" if _is_plain(name) else f".[{json.dumps(name)}]"


def _shape(value: object, depth: int = _MAX_DEPTH + 1) -> Json:
    """Describe a value as a schema would."""
    match value:
        case dict() if depth:
            members = cast("Json", value)
            return {"properties": {name: _shape(v, depth - 1) for name, v in members.items()}}
        case list() if depth and value:
            return {"items": _shape(cast("list[object]", value)[0], depth - 1)}
        case str():
            return {"type": "string"}
        case bool() | int() | float():
            return {"type": "number"}
        case _:
            return {}
