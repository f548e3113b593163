"""Finding the tools that a request needs. Strategies by file name."""

from toolgate.search.base import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

__all__ = ["Hit", "SearchAnswer", "SearchRequest", "SearchStrategy", "SearchableTool"]
