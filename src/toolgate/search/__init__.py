"""Finding the tools that a request needs. Strategies by file name."""

from toolgate.search._answer import Discovery, Found, compose
from toolgate.search._signature import shape, signature
from toolgate.search.base import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

__all__ = [
    "Discovery",
    "Found",
    "Hit",
    "SearchAnswer",
    "SearchRequest",
    "SearchStrategy",
    "SearchableTool",
    "compose",
    "shape",
    "signature",
]
