"""Whole turns: from a message of the user to the answer of the model, tools included.

Steps are plain functions; an engine by file name goes from one to the next. `Chat` is what doors
use.
"""

from toolgate.flow._chat import Chat
from toolgate.flow._failure import friendly
from toolgate.flow._history import clean_messages, repair, unanswered, without_internal
from toolgate.flow._runs import Run, Runs
from toolgate.flow._transcript import FORGOTTEN, NOTHING
from toolgate.flow._turn import Services, Turn
from toolgate.flow.base import (
    DOCUMENTS,
    KINDS,
    SQL,
    Choices,
    Engine,
    Event,
    Outcome,
    Policy,
    TurnRequest,
    TurnState,
    TurnStatus,
    Update,
)

__all__ = [
    "DOCUMENTS",
    "FORGOTTEN",
    "KINDS",
    "NOTHING",
    "SQL",
    "Chat",
    "Choices",
    "Engine",
    "Event",
    "Outcome",
    "Policy",
    "Run",
    "Runs",
    "Services",
    "Turn",
    "TurnRequest",
    "TurnState",
    "TurnStatus",
    "Update",
    "clean_messages",
    "friendly",
    "repair",
    "unanswered",
    "without_internal",
]
