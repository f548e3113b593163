"""Telling what a message asks for, and the arguments in it.

What needs numpy is loaded when it is first asked for: keywords and dates do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.intent._arguments import ArgumentReader
from toolgate.intent._cascade import Cascade, settled
from toolgate.intent._dates import FoundDate, find_dates
from toolgate.intent._detector import Detector, detect, supported_intents, tool_for
from toolgate.intent._keyword import KeywordStage
from toolgate.intent._load import (
    IntentFiles,
    load_intent,
    load_intents,
    read_intents,
    shipped,
    with_names,
)
from toolgate.intent._schemas import specs_of_schema
from toolgate.intent.base import (
    NONE,
    Argument,
    ArgumentKind,
    ArgumentSpec,
    Candidate,
    Deciding,
    Detection,
    DetectRequest,
    Guard,
    Intent,
    Keywords,
    Limits,
    Request,
    Span,
    Stage,
    Taught,
)

if TYPE_CHECKING:
    from toolgate.intent._notes import Asked, DetectionNotes, note_of
    from toolgate.intent._recognizer import Recognizer
    from toolgate.intent._semantic_model import Judgement, Neighbours
    from toolgate.intent._semantic_model import Model as SemanticModel
    from toolgate.intent._semantic_stage import Explanation, SemanticStage

__all__ = [
    "NONE",
    "Argument",
    "ArgumentKind",
    "ArgumentReader",
    "ArgumentSpec",
    "Asked",
    "Candidate",
    "Cascade",
    "Deciding",
    "DetectRequest",
    "Detection",
    "DetectionNotes",
    "Detector",
    "Explanation",
    "FoundDate",
    "Guard",
    "Intent",
    "IntentFiles",
    "Judgement",
    "KeywordStage",
    "Keywords",
    "Limits",
    "Neighbours",
    "Recognizer",
    "Request",
    "SemanticModel",
    "SemanticStage",
    "Span",
    "Stage",
    "Taught",
    "detect",
    "find_dates",
    "load_intent",
    "load_intents",
    "note_of",
    "read_intents",
    "settled",
    "shipped",
    "specs_of_schema",
    "supported_intents",
    "tool_for",
    "with_names",
]

_LATER = {
    "Asked": ("_notes", "Asked"),
    "DetectionNotes": ("_notes", "DetectionNotes"),
    "note_of": ("_notes", "note_of"),
    "Explanation": ("_semantic_stage", "Explanation"),
    "Judgement": ("_semantic_model", "Judgement"),
    "Neighbours": ("_semantic_model", "Neighbours"),
    "Recognizer": ("_recognizer", "Recognizer"),
    "SemanticModel": ("_semantic_model", "Model"),
    "SemanticStage": ("_semantic_stage", "SemanticStage"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _LATER[name]
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), there)
    return value
