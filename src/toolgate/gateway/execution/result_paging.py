"""Cuts large results into pages without losing any text.

Offsets and sizes are characters (Unicode code points) of the whole text.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from toolgate.base.token_estimate import estimate_tokens
from toolgate.errors import ArgumentError
from toolgate.types import Json

_PAGE_META = "toolgate/page"
_BETWEEN = "\n"
"""Separator between text blocks in the whole text."""
STRUCTURED_MARK = "\n\n--- structuredContent (JSON) ---\n"
"""Separator before the structured content in the whole text, if both are stored."""


async def page(
    result: Json,
    *,
    page_tokens: int,
    save: Callable[[bytes], Awaitable[str]],
    suggest: Callable[[], str] = str,
) -> Json:
    """Return the result, or its first page if its text is larger than a page.

    Text blocks, text resources and `structuredContent` count. If `structuredContent` alone is
    larger than a page, it is left out with a notice and stored with the text. Images, audio and
    binary resources are passed on unchanged; so are `isError`, `_meta` and every other member.

    Args:
        result: A `tools/call` result as it arrived.
        page_tokens: Estimated tokens of a page.
        save: Stores the whole text (UTF-8) and returns the handle for reading on.
        suggest: Returns a jq filter for a part of the result, or an empty text.
    """
    raw = result.get("content")
    blocks = cast("list[Any]", raw) if isinstance(raw, list) else []
    text = _BETWEEN.join(part for block in blocks if (part := text_of_block(block)) is not None)
    structured = _structured_text(result)
    too_large = estimate_tokens(structured) > page_tokens
    if not too_large and estimate_tokens(text) <= page_tokens:
        return result
    whole = text
    if too_large and not _says_the_same(text, structured):
        whole = f"{text}{STRUCTURED_MARK}{structured}" if text else structured
    handle = await save(whole.encode("utf-8", "surrogatepass"))
    end = _page_end(whole, 0, page_tokens)
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    note = _note(handle, 0, end, len(whole))
    if too_large:
        note += " The structured content is left out here; its JSON is in the stored text."
    elif "structuredContent" in result:
        kept["structuredContent"] = result["structuredContent"]
    if select := suggest():
        call = json.dumps({"handle": handle, "select": select}, ensure_ascii=False)
        note += f" [toolgate: for some fields only: result_read {call}.]"
    return {
        **kept,
        "content": [*_with_first(blocks, whole[:end]), {"type": "text", "text": note}],
        "_meta": {**_meta_of(result), _PAGE_META: _place(handle, 0, end, len(whole))},
    }


def read_page(stored: bytes | str, offset: int, *, handle: str, page_tokens: int) -> Json:
    """Return the page of a stored text that begins at `offset`, as a `tools/call` result.

    The first content block holds only the text of the page; joined, these blocks are the whole
    text.

    Args:
        stored: The whole text, as `page` stored it.
        offset: Characters from the beginning, as given by the previous page.
        handle: The caller's handle, repeated for the next page.
        page_tokens: Estimated tokens of a page.

    Raises:
        ArgumentError: The offset lies outside the text.
    """
    text = stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored
    if not 0 <= offset <= len(text):
        raise ArgumentError(
            f"The offset {offset} is outside this result.",
            allowed=f"Allowed: 0 to {len(text)} (characters).",
            hint="Use the offset given by the previous page.",
        )
    end = _page_end(text, offset, page_tokens)
    return {
        "content": [
            {"type": "text", "text": text[offset:end]},
            {"type": "text", "text": _note(handle, offset, end, len(text))},
        ],
        "_meta": {_PAGE_META: _place(handle, offset, end, len(text))},
    }


def text_of_block(block: object) -> str | None:
    """The text of a text block or text resource; None for other blocks."""
    if not isinstance(block, dict):
        return None
    given = cast("Json", block)
    if given.get("type") == "resource" and isinstance(given.get("resource"), dict):
        given = cast("Json", given["resource"])
    elif given.get("type") != "text":
        return None
    text = given.get("text")
    return text if isinstance(text, str) else None


def _structured_text(result: Json) -> str:
    if result.get("structuredContent") is None:
        return ""
    return json.dumps(result["structuredContent"], ensure_ascii=False)


def _says_the_same(text: str, structured: str) -> bool:
    """Whether the text is the same JSON, as the protocol recommends that servers send."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return bool(json.loads(text) == json.loads(structured))
    except (ValueError, RecursionError):
        return False


def _with_first(blocks: list[Any], first: str) -> list[Any]:
    """Replace the first text with the first page, and remove the other texts."""
    shown: list[Any] = []
    placed = False
    for block in blocks:
        if text_of_block(block) is None:
            shown.append(block)
        elif not placed:
            annotations = cast("Json", block).get("annotations")
            shown.append(
                {"type": "text", "text": first}
                | ({"annotations": annotations} if annotations is not None else {})
            )
            placed = True
    return shown if placed else [{"type": "text", "text": first}, *shown]


def _page_end(text: str, start: int, page_tokens: int) -> int:
    """The end of a page: within the size, after a line end or space in its second half."""
    most_bytes = max(1, page_tokens) * 4
    window = text[start : start + most_bytes]
    encoded = window.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        length = len(window)
    else:
        length = max(1, len(encoded[:most_bytes].decode("utf-8", "ignore")))
    end = start + length
    if end >= len(text):
        return len(text)
    for mark in ("\n", " "):
        at = text.rfind(mark, start + length // 2, end)
        if at >= 0:
            return at + 1
    return end


def _note(handle: str, start: int, end: int, total: int) -> str:
    if end >= total:
        return f"[toolgate: characters {start} to {total} of {total}, the end of the result.]"
    call = json.dumps({"handle": handle, "offset": end})
    return (
        f"[toolgate: characters {start} to {end} of {total}. The result is too large for one "
        f"answer; read on with result_read {call}.]"
    )


def _place(handle: str, start: int, end: int, total: int) -> Json:
    place: Json = {"handle": handle, "offset": start, "totalCharacters": total}
    return place if end >= total else {**place, "nextOffset": end}


def _meta_of(result: Json) -> Json:
    meta = result.get("_meta")
    return cast("Json", meta) if isinstance(meta, dict) else {}
