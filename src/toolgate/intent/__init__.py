"""Telling what a message asks for, and the arguments in it."""

from toolgate.intent._dates import FoundDate, find_dates
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
    "ArgumentSpec",
    "Candidate",
    "Detection",
    "FoundDate",
    "Guard",
    "Intent",
    "Keywords",
    "Request",
    "Span",
    "Stage",
    "find_dates",
]
