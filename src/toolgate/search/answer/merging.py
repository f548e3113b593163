"""Merges other contents (prompts, resources, skills) into the answer about tools."""

from dataclasses import replace

from toolgate.search.base import Hit, SearchAnswer
from toolgate.search.relevance.calibration import best_fit

_BESIDE = 2
"""Most contents in an answer about tools; chosen: most requests are about tools."""
_LEAST = 0.5
"""Lowest relevance of a content in an answer about tools that fit; chosen."""


def with_contents(tools: SearchAnswer, contents: SearchAnswer, limit: int) -> SearchAnswer:
    """Insert the contents that fit into the answer about tools, by relevance."""
    least = 0.0 if tools.fit == "none" else _LEAST
    fitting = [
        hit
        for hit in contents.hits
        if hit.relevance >= least and not hit.fields.get("weak") and not hit.is_far_behind
    ][:_BESIDE]
    if not fitting:
        return tools
    hits = list(tools.hits)
    for content in reversed(fitting):
        at = next((at for at, hit in enumerate(hits) if _is_behind(hit, content)), len(hits))
        hits.insert(at, content)
    served = {query.query for query in contents.queries if query.fit != "none"}
    answered = {query.notice for query in tools.queries if query.query in served}
    return replace(
        tools,
        hits=tuple(hits[:limit]),
        fit=best_fit((tools.fit, contents.fit)),
        notices=tuple(notice for notice in tools.notices if notice not in answered),
        searched=tools.searched + contents.searched,
    )


def _is_behind(hit: Hit, content: Hit) -> bool:
    return hit.source != "exact" and (
        hit.relevance < content.relevance or bool(hit.fields.get("weak"))
    )
