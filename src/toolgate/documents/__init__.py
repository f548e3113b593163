"""Documents: chunking, retrieval, grading, quotation. Each step is a separate function."""

from toolgate.documents.base import (
    SEARCH_TYPES,
    AskModel,
    Collection,
    ConversationMessage,
    FoundPassage,
    OnRetrieved,
    RenderPrompt,
    Retrieval,
    RetrieveRequest,
    SearchType,
)
from toolgate.documents.bm25 import best_by_words, words_of
from toolgate.documents.chunking import DocumentChunk, split_document
from toolgate.documents.conversion_process import DocumentConverter
from toolgate.documents.formats.conversion import (
    ConvertedDocument,
    is_supported,
    supported_formats,
)
from toolgate.documents.library import (
    AddedDocument,
    DocumentLibrary,
    DocumentResources,
    NewDocument,
    PassageSearch,
)
from toolgate.documents.model_steps import (
    GradedPassages,
    RephrasedQuestion,
    grade,
    rephrase,
    select,
)
from toolgate.documents.quotation import QUOTED, citation, quoted, quoted_texts
from toolgate.documents.ranking import above_threshold, diversify, fuse_rankings, without_duplicates
from toolgate.documents.retrieval import NO_COLLECTIONS, NOT_CONNECTED, retrieve, search_type_of

__all__ = [
    "NOT_CONNECTED",
    "NO_COLLECTIONS",
    "QUOTED",
    "SEARCH_TYPES",
    "AddedDocument",
    "AskModel",
    "Collection",
    "ConversationMessage",
    "ConvertedDocument",
    "DocumentChunk",
    "DocumentConverter",
    "DocumentLibrary",
    "DocumentResources",
    "FoundPassage",
    "GradedPassages",
    "NewDocument",
    "OnRetrieved",
    "PassageSearch",
    "RenderPrompt",
    "RephrasedQuestion",
    "Retrieval",
    "RetrieveRequest",
    "SearchType",
    "above_threshold",
    "best_by_words",
    "citation",
    "diversify",
    "fuse_rankings",
    "grade",
    "is_supported",
    "quoted",
    "quoted_texts",
    "rephrase",
    "retrieve",
    "search_type_of",
    "select",
    "split_document",
    "supported_formats",
    "without_duplicates",
    "words_of",
]
