"""Documents: cut, found, graded and quoted. Every step is a function that stands by itself."""

from toolgate.documents.base import (
    SEARCH_TYPES,
    Asking,
    Collection,
    FoundPassage,
    OnFound,
    Rendering,
    Retrieval,
    RetrieveRequest,
    Said,
    SearchType,
)
from toolgate.documents.bm25 import best_by_words, words_of
from toolgate.documents.chunking import Piece, cut
from toolgate.documents.conversion import Converted, convert, is_known, kinds
from toolgate.documents.library import Added, Library, Looking, NewDocument, Workshop
from toolgate.documents.model_steps import Graded, Rephrased, grade, rephrase, select
from toolgate.documents.quotation import QUOTED, citation, quoted, quoted_texts
from toolgate.documents.ranking import above, fused, varied, without_repeats
from toolgate.documents.retrieval import NO_COLLECTIONS, NOT_CONNECTED, retrieve, search_type_of

__all__ = [
    "NOT_CONNECTED",
    "NO_COLLECTIONS",
    "QUOTED",
    "SEARCH_TYPES",
    "Added",
    "Asking",
    "Collection",
    "Converted",
    "FoundPassage",
    "Graded",
    "Library",
    "Looking",
    "NewDocument",
    "OnFound",
    "Piece",
    "Rendering",
    "Rephrased",
    "Retrieval",
    "RetrieveRequest",
    "Said",
    "SearchType",
    "Workshop",
    "above",
    "best_by_words",
    "citation",
    "convert",
    "cut",
    "fused",
    "grade",
    "is_known",
    "kinds",
    "quoted",
    "quoted_texts",
    "rephrase",
    "retrieve",
    "search_type_of",
    "select",
    "varied",
    "without_repeats",
    "words_of",
]
