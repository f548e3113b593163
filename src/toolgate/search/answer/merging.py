"""Merges other contents (prompts, resources, skills) into the answer about tools."""

from collections.abc import Sequence
from dataclasses import replace

from toolgate.search.base import Hit, SearchAnswer, SearchedQuery
from toolgate.search.lexical.best_hits import mark_far_behind
from toolgate.search.relevance.calibration import best_fit

_BESIDE = 2
"""Most contents in an answer about tools; chosen: most requests are about tools."""
_LEAST = 0.5
"""Lowest relevance of a content for a query that a tool fits; chosen."""
_LEAST_ALONE = 0.05
"""Lowest relevance of a content for a query that no tool fits; chosen."""


def with_contents(tools: SearchAnswer, contents: SearchAnswer, limit: int) -> SearchAnswer:
    """Insert the contents that fit into the answer about tools, by relevance.

    Each is compared with the tools for the same query, and answers this query alone.
    """
    fits = {query.query[:200]: query.fit for query in tools.queries}
    fitting = [
        hit
        for hit in contents.hits
        if not hit.fields.get("weak") and not hit.is_far_behind
        if hit.relevance >= (_LEAST_ALONE if fits.get(_query(hit), tools.fit) == "none" else _LEAST)
    ][:_BESIDE]
    if not fitting:
        return tools
    hits = list(tools.hits)
    for content in reversed(fitting):
        hits.insert(_place(hits, content), content)
    served = set(map(_query, fitting))
    for query in served:
        places = [at for at, hit in enumerate(hits) if _query(hit) == query]
        marked = mark_far_behind([hits[at] for at in places])
        for at, hit in zip(places, marked, strict=True):
            hits[at] = hit
    better = {
        query.notice: by_content.notice
        for query, by_content in _pairs(tools, contents)
        if query.query[:200] in served and by_content.fit != query.fit
        if best_fit((query.fit, by_content.fit)) == by_content.fit
    }
    notices = (better.get(notice, notice) for notice in tools.notices)
    return replace(
        tools,
        hits=tuple(hits[:limit]),
        fit=best_fit((tools.fit, *(q.fit for q in contents.queries if q.query[:200] in served))),
        notices=tuple(notice for notice in notices if notice),
        searched=tools.searched + contents.searched,
    )


def _query(hit: Hit) -> str:
    """Return the beginning of the query that found a hit."""
    return str(hit.fields.get("query", ""))


def _pairs(
    tools: SearchAnswer, contents: SearchAnswer
) -> list[tuple[SearchedQuery, SearchedQuery]]:
    """Return each query as judged by tools, and by contents."""
    by_contents = {query.query: query for query in contents.queries}
    return [
        (query, by_contents[query.query]) for query in tools.queries if query.query in by_contents
    ]


def _place(hits: Sequence[Hit], content: Hit) -> int:
    """Return where a content belongs: before what fits its query less, behind what fits it more."""
    own = [at for at, hit in enumerate(hits) if _query(hit) == _query(content)]
    behind = [at for at in own if _is_behind(hits[at], content)]
    if behind and not hits[behind[0]].fields.get("weak"):
        return behind[0]
    weak = (at for at, hit in enumerate(hits) if hit.fields.get("weak"))
    return next(weak, len(hits)) if behind or not own else own[-1] + 1


def _is_behind(hit: Hit, content: Hit) -> bool:
    return hit.source != "exact" and (
        hit.relevance < content.relevance or bool(hit.fields.get("weak"))
    )
