"""Documents: cut, found, graded and quoted. Every step is a function that stands by itself."""

from toolgate.documents.base import (
    SEARCH_TYPES,
    Asking,
    Collection,
    FoundPassage,
    OnFound,
    PromptTexts,
    Retrieval,
    RetrieveRequest,
    Said,
    SearchType,
)

__all__ = [
    "SEARCH_TYPES",
    "Asking",
    "Collection",
    "FoundPassage",
    "OnFound",
    "PromptTexts",
    "Retrieval",
    "RetrieveRequest",
    "Said",
    "SearchType",
]
