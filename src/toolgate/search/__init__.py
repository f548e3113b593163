"""Finding the tools that a request needs. Strategies by file name."""

from toolgate.search._answer import Discovery, Found, compose
from toolgate.search._arms import Arm, Arms
from toolgate.search._catalog_wire import answer_body, catalog_search_schema, tools_of
from toolgate.search._describe import Description, describe_tools
from toolgate.search._index import Indexable, ToolIndex
from toolgate.search._indexed import IndexedTexts, indexed_texts
from toolgate.search._inner import end, ready
from toolgate.search._learning import Learning, LearningStatus
from toolgate.search._relations import Relations
from toolgate.search._signature import shape, signature
from toolgate.search._upkeep import VectorIndex
from toolgate.search.base import (
    WEIGHTS,
    AskedQuery,
    Hit,
    SearchableTool,
    SearchAnswer,
    SearchRequest,
    SearchStrategy,
)

__all__ = [
    "WEIGHTS",
    "Arm",
    "Arms",
    "AskedQuery",
    "Description",
    "Discovery",
    "Found",
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
    "ToolIndex",
    "VectorIndex",
    "answer_body",
    "catalog_search_schema",
    "compose",
    "describe_tools",
    "end",
    "indexed_texts",
    "ready",
    "shape",
    "signature",
    "tools_of",
]
