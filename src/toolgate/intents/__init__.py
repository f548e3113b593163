"""Telling what a message asks for, and the arguments in it.

What needs numpy is loaded when it is first asked for: keywords and dates do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.intents.arguments.reader import ArgumentReader
from toolgate.intents.arguments.schemas import specs_of_schema
from toolgate.intents.base import (
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
from toolgate.intents.dates.parser import FoundDate, find_dates
from toolgate.intents.detection.cascade import Cascade, settled
from toolgate.intents.detection.detector import Detector, detect, supported_intents, tool_for
from toolgate.intents.detection.intent_files import (
    IntentFiles,
    load_intent,
    load_intents,
    read_intents,
    shipped,
    with_names,
)
from toolgate.intents.detection.keyword import KeywordStage

if TYPE_CHECKING:
    from toolgate.intents.detection.detection_log import Asked, DetectionNotes, note_of
    from toolgate.intents.detection.recognizer import Recognizer
    from toolgate.intents.semantic.classifier import Judgement, Neighbours
    from toolgate.intents.semantic.classifier import Model as SemanticModel
    from toolgate.intents.semantic.stage import Explanation, SemanticStage

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
    "Asked": ("detection.detection_log", "Asked"),
    "DetectionNotes": ("detection.detection_log", "DetectionNotes"),
    "note_of": ("detection.detection_log", "note_of"),
    "Explanation": ("semantic.stage", "Explanation"),
    "Judgement": ("semantic.classifier", "Judgement"),
    "Neighbours": ("semantic.classifier", "Neighbours"),
    "Recognizer": ("detection.recognizer", "Recognizer"),
    "SemanticModel": ("semantic.classifier", "Model"),
    "SemanticStage": ("semantic.stage", "SemanticStage"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _LATER[name]
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), there)
    return value
