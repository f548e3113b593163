"""Pagination of long lists: `?limit=N` returns a `next_cursor`, `?cursor=` continues there."""

import hashlib
from collections.abc import Mapping
from typing import cast

from toolgate.base import json_text
from toolgate.errors import ArgumentError
from toolgate.types import Json

__all__ = ["limit_of", "paged"]

MOST = 1_000
"""Most things of one page."""


def limit_of(query: Mapping[str, str], *, max_limit: int = MOST) -> int | None:
    """How many things a request wants; None: it does not say.

    Raises:
        ArgumentError: It is no number, or too large.
    """
    text = query.get("limit")
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= max_limit:
        raise ArgumentError(
            f"limit is {text[:40]!r}.", allowed=f"Allowed: whole numbers from 1 to {max_limit:,}."
        )
    return int(text)


def paged(body: Json, name: str, query: Mapping[str, str]) -> Json:
    """A body with one page of its list; without `limit` and `cursor` all of it.

    A cursor names the last thing of its page, so things that come or go do not move the others.

    Raises:
        ArgumentError: The limit is none, or the thing that the cursor names is gone.
    """
    limit, cursor = limit_of(query), query.get("cursor")
    if limit is None and not cursor:
        return body
    items = cast("list[Json]", body[name])
    start = 0
    if cursor:
        at = next((at for at, item in enumerate(items) if _mark(item) == cursor), None)
        if at is None:
            raise ArgumentError(
                f"The cursor {cursor[:40]!r} names nothing that is there now.",
                hint="Begin again without it.",
            )
        start = at + 1
    page = items[start : start + (limit or MOST)]
    answer = {**body, name: page}
    if page and start + len(page) < len(items):
        answer["next_cursor"] = _mark(page[-1])
    return answer


_IDENTITY = ("id", "toolKey", "name", "effect", "to", "kind", "pattern", "hint", "source")
"""What tells things of one list apart and does not change while they are there."""


def _mark(item: Json) -> str:
    identity = [item.get(name) for name in _IDENTITY]
    return hashlib.sha256(json_text.dumps(identity)).hexdigest()[:24]
