"""Pagination of long lists: `?limit=N` returns a `next_cursor`, `?cursor=` continues there."""

import hashlib
from typing import cast

from toolgate.base import json_text
from toolgate.errors import ArgumentError
from toolgate.server.rest.models import MAX_PAGE, PageQuery
from toolgate.types import Json


def paged(body: Json, name: str, page: PageQuery) -> Json:
    """Return a body with one page of its list, or all of it without `limit` and `cursor`.

    A cursor names the last item of its page, so added or deleted items do not shift the others.

    Raises:
        ArgumentError: The item that the cursor names does not exist anymore.
    """
    if page.limit is None and not page.cursor:
        return body
    items = cast("list[Json]", body[name])
    start = 0
    if page.cursor:
        at = next((at for at, item in enumerate(items) if _cursor(item) == page.cursor), None)
        if at is None:
            raise ArgumentError(
                f"The cursor {page.cursor[:40]!r} points to something that no longer exists.",
                hint="Start again without it.",
            )
        start = at + 1
    selected = items[start : start + (page.limit or MAX_PAGE)]
    answer = {**body, name: selected}
    if selected and start + len(selected) < len(items):
        answer["next_cursor"] = _cursor(selected[-1])
    return answer


_IDENTITY = ("id", "toolKey", "name", "effect", "to", "kind", "pattern", "hint", "source")
"""Fields that identify an item in its list and never change."""


def _cursor(item: Json) -> str:
    identity = [item.get(name) for name in _IDENTITY]
    return hashlib.sha256(json_text.dumps(identity)).hexdigest()[:24]
