"""Whole agent turns: from a user's message to the model's answer, including tool calls.

Steps are plain functions, run by an engine that is chosen by file name. The endpoints use
`ChatService`.
"""

from toolgate.chat.base import (
    DOCUMENTS,
    KINDS,
    SQL,
    Choices,
    Event,
    Outcome,
    Policy,
    TurnRequest,
    TurnState,
    TurnStatus,
    Update,
)
from toolgate.chat.engines.base import Engine
from toolgate.chat.helper_model import HelperModel
from toolgate.chat.runs import Run, Runs
from toolgate.chat.service import ChatService
from toolgate.chat.threads import ThreadService
from toolgate.chat.transcript import FORGOTTEN, NOTHING
from toolgate.chat.turns.failure import friendly
from toolgate.chat.turns.messages import clean_messages, repair, unanswered, without_internal
from toolgate.chat.turns.model_answer import BETWEEN
from toolgate.chat.turns.outcome import approval_request
from toolgate.chat.turns.sources import citations
from toolgate.chat.turns.turn import Turn, TurnServices
from toolgate.chat.turns.turn_settings import choices_from

__all__ = [
    "BETWEEN",
    "DOCUMENTS",
    "FORGOTTEN",
    "KINDS",
    "NOTHING",
    "SQL",
    "ChatService",
    "Choices",
    "Engine",
    "Event",
    "HelperModel",
    "Outcome",
    "Policy",
    "Run",
    "Runs",
    "ThreadService",
    "Turn",
    "TurnRequest",
    "TurnServices",
    "TurnState",
    "TurnStatus",
    "Update",
    "approval_request",
    "choices_from",
    "citations",
    "clean_messages",
    "friendly",
    "repair",
    "unanswered",
    "without_internal",
]
