"""Telling what a message asks for, and the arguments in it."""

from toolgate.intent._arguments import ArgumentReader
from toolgate.intent._dates import FoundDate, find_dates
from toolgate.intent._detector import Detector, detect, supported_intents, tool_for
from toolgate.intent._keyword import KeywordStage
from toolgate.intent._load import load_intent, load_intents, shipped, with_names
from toolgate.intent._schemas import specs_of_schema
from toolgate.intent.base import (
    NONE,
    Argument,
    ArgumentKind,
    ArgumentSpec,
    Candidate,
    Detection,
    Guard,
    Intent,
    Keywords,
    Request,
    Span,
    Stage,
)

__all__ = [
    "NONE",
    "Argument",
    "ArgumentKind",
    "ArgumentReader",
    "ArgumentSpec",
    "Candidate",
    "Detection",
    "Detector",
    "FoundDate",
    "Guard",
    "Intent",
    "KeywordStage",
    "Keywords",
    "Request",
    "Span",
    "Stage",
    "detect",
    "find_dates",
    "load_intent",
    "load_intents",
    "shipped",
    "specs_of_schema",
    "supported_intents",
    "tool_for",
    "with_names",
]
