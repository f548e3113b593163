"""Converts the selection of a service or a model to an answer that any search may give."""

from collections.abc import Sequence

from toolgate.search.base import Hit, SearchRequest


def answered(
    chosen: Sequence[Hit], local: Sequence[Hit], request: SearchRequest
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Return the hits of the answer, and notices about the threshold.

    Exactly named tools are always hits, even if they were not selected. For one query they come
    first, and the rest is sorted by relevance; for several queries the order of the selection
    stays, since each step has its own tools.

    Args:
        chosen: The selection, best first.
        local: Hits of the local search, which knows the exactly named tools.
        request: The request.
    """
    exact = {hit.key: hit for hit in local if hit.source == "exact"}
    if len(request.queries) == 1:
        chosen = sorted(chosen, key=lambda hit: -hit.relevance)
    else:
        there = {hit.key for hit in chosen}
        exact = {key: hit for key, hit in exact.items() if key not in there}
    return within([*exact.values(), *(hit for hit in chosen if hit.key not in exact)], request)


def within(hits: Sequence[Hit], request: SearchRequest) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Return the hits within threshold and limit, and a notice if the threshold leaves none."""
    above = [hit for hit in hits if hit.relevance >= request.threshold]
    notices = (
        f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
        "Ask with a lower threshold.",
    )
    return tuple(above[: request.limit]), () if above or not hits else notices
