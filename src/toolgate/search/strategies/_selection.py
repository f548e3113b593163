"""What a service or a model chose, made into an answer that keeps the duties of every search."""

from collections.abc import Sequence

from toolgate.search.base import Hit, SearchRequest

__all__ = ["answered", "within"]


def answered(
    chosen: Sequence[Hit], local: Sequence[Hit], request: SearchRequest
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The hits to give, and what is to be said of the threshold.

    Tools that are named exactly are found, also where they were not chosen. With one query they
    come first and the rest is in order of relevance; with several the order is as it was chosen,
    since each step has its own.

    Args:
        chosen: Best first.
        local: What the local search found; it knows which tools are named.
        request: What was asked for.
    """
    exact = {hit.key: hit for hit in local if hit.source == "exact"}
    if len(request.queries) == 1:
        chosen = sorted(chosen, key=lambda hit: -hit.relevance)
    else:
        there = {hit.key for hit in chosen}
        exact = {key: hit for key, hit in exact.items() if key not in there}
    return within([*exact.values(), *(hit for hit in chosen if hit.key not in exact)], request)


def within(hits: Sequence[Hit], request: SearchRequest) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The hits within threshold and limit, and what is to be said when that leaves none."""
    above = [hit for hit in hits if hit.relevance >= request.threshold]
    notices = (
        f"No tool reaches the relevance of {request.threshold:g} that was asked for. "
        "Ask with a lower threshold.",
    )
    return tuple(above[: request.limit]), () if above or not hits else notices
