"""Search for the tools that a request needs; one file per strategy."""

from toolgate.search.ab_test import Experiment, Variant
from toolgate.search.answer.answer import Discovery, DiscoveryResult, compose
from toolgate.search.answer.descriptions import Description, describe_tools
from toolgate.search.answer.merging import with_contents
from toolgate.search.answer.relations import Relations
from toolgate.search.answer.server_summary import server_summary
from toolgate.search.answer.signature import shape, signature
from toolgate.search.base import (
    WEIGHTS,
    Hit,
    SearchableTool,
    SearchAnswer,
    SearchedQuery,
    SearchRequest,
    SearchStrategy,
)
from toolgate.search.index_explanation import IndexedTexts, indexed_texts
from toolgate.search.lexical.translation import (
    EnglishReading,
    in_english,
    languages_of,
    load_languages,
)
from toolgate.search.relevance.calibration import Fit
from toolgate.search.semantic.index_maintenance import VectorIndex
from toolgate.search.semantic.tool_vector_store import ToolVectorStore
from toolgate.search.strategies._catalog_search_json import (
    answer_body,
    catalog_search_schema,
    tools_of,
)
from toolgate.search.strategies._lifecycle import end, ready
from toolgate.search.tool_index import Indexable, ToolIndex
from toolgate.search.usage.learning import Learning, LearningStatus

__all__ = [
    "WEIGHTS",
    "Description",
    "Discovery",
    "DiscoveryResult",
    "EnglishReading",
    "Experiment",
    "Fit",
    "Hit",
    "Indexable",
    "IndexedTexts",
    "Learning",
    "LearningStatus",
    "Relations",
    "SearchAnswer",
    "SearchRequest",
    "SearchStrategy",
    "SearchableTool",
    "SearchedQuery",
    "ToolIndex",
    "ToolVectorStore",
    "Variant",
    "VectorIndex",
    "answer_body",
    "catalog_search_schema",
    "compose",
    "describe_tools",
    "end",
    "in_english",
    "indexed_texts",
    "languages_of",
    "load_languages",
    "ready",
    "server_summary",
    "shape",
    "signature",
    "tools_of",
    "with_contents",
]
