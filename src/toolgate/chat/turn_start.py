"""The start of a turn in a thread: what it reads and writes in the transaction of its claim."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from toolgate.chat.base import Choices, TurnRequest
from toolgate.chat.transcript import to_stored
from toolgate.chat.turns.turn_settings import choices_from
from toolgate.models.llm import Message
from toolgate.settings import ChatSettings
from toolgate.store import StoredMessage, StoredThread
from toolgate.types import Json

__all__ = ["TurnStart", "new_in", "without_history"]


class TurnStart:
    """Implements `store.TurnOpening`: a turn and its question cost one transaction, not four."""

    choices: Choices
    """Settings of the turn."""

    stored: Sequence[StoredMessage] = ()
    """Messages of the thread, without those of the turn."""

    question: Sequence[Message] = ()
    """The messages that were written: the question, or results of the client's tools; empty if
    the turn has to look at the thread before it knows them."""

    def __init__(
        self, request: TurnRequest, run_id: str, settings: Callable[[], ChatSettings]
    ) -> None:
        self._request = request
        self._run_id = run_id
        self._settings = settings

    def read_after(self, thread: StoredThread) -> int:
        """Return the number of the last message that a summary replaces."""
        return int(thread.state.get("from", 0))

    def first_messages(
        self, thread: StoredThread, project_settings: Json, messages: Sequence[StoredMessage]
    ) -> Sequence[StoredMessage]:
        """Return the question.

        Raises:
            ArgumentError: A setting of the request does not exist, or its value is invalid.
        """
        asked = self._request.choices
        self.choices = choices_from(self._settings(), project_settings, thread.settings, asked)
        self.stored = messages
        if self._request.resumes or self._request.is_whole:
            return ()
        self.question = [
            replace(message, notes={**message.notes, "turn": self._run_id})
            for message in new_in(self._request)
        ]
        written = self.question if self.choices.history else without_history(self.question)
        return [to_stored(message, self._run_id) for message in written]


def new_in(request: TurnRequest) -> list[Message]:
    """Return the new messages for a thread: results of the client's tools, or the last question."""
    tail: list[Message] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        tail.insert(0, message)
    if tail:
        return tail
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    return [] if last is None else [last]


def without_history(messages: Sequence[Message]) -> list[Message]:
    """Return the messages, marked as those that later turns do not see."""
    return [replace(message, notes={**message.notes, "history_off": True}) for message in messages]
