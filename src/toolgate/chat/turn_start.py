"""The start of a turn in a thread: what it reads and writes in the transaction of its claim."""

from collections.abc import Sequence
from dataclasses import replace

from toolgate.chat.base import Choices, TurnRequest
from toolgate.chat.transcript import to_stored
from toolgate.chat.turns.turn_settings import choices_from
from toolgate.models.llm import Message
from toolgate.settings import CurrentSettings
from toolgate.store import StoredMessage, StoredThread
from toolgate.types import Json


class TurnStart:
    """Implements `store.TurnOpening`: a turn and its question cost one transaction, not four."""

    choices: Choices
    """Settings of the turn."""

    stored: Sequence[StoredMessage] = ()
    """Messages of the thread, without those of the turn."""

    question: Sequence[Message] = ()
    """The messages that were written: the question, or results of the client's tools."""

    system: str = ""
    """System text of the client."""

    def __init__(
        self,
        request: TurnRequest,
        run_id: str,
        settings: CurrentSettings,
        *,
        whole: Sequence[Message],
    ) -> None:
        """Create it.

        Args:
            request: The request.
            run_id: Id of the turn.
            settings: The current settings.
            whole: The messages of the request, completed with calls that its client never saw.
        """
        self._request = request
        self._whole = whole
        self._run_id = run_id
        self._settings = settings

    def read_after(self, thread: StoredThread) -> int:
        """Return the number of the last message that a summary replaces."""
        return int(thread.state.get("from", 0))

    def first_messages(
        self, thread: StoredThread, project_settings: Json, messages: Sequence[StoredMessage]
    ) -> Sequence[StoredMessage]:
        """Return the question; in a new thread, it follows the conversation that precedes it.

        Raises:
            ArgumentError: A setting of the request does not exist, or its value is invalid.
        """
        defaults, asked = self._settings.current.chat, self._request.choices
        self.choices = choices_from(defaults, project_settings, thread.settings, asked)
        self.stored = messages
        if self._request.resumes:
            return ()
        history, question, self.system = split(self._whole)
        if thread.last_number or not self._request.is_whole:
            # The thread knows the rest, including calls that the client has never seen.
            question, history = _new_in(self._request.messages), ()
        before = [
            replace(to_stored(message, f"{self._run_id}-before"), number=number)
            for number, message in enumerate(history, start=1)
        ]
        self.stored = [*messages, *before]
        self.question = [
            replace(message, notes={**message.notes, "turn": self._run_id}) for message in question
        ]
        written = self.question if self.choices.history else without_history(self.question)
        return [*before, *(to_stored(message, self._run_id) for message in written)]


def split(messages: Sequence[Message]) -> tuple[tuple[Message, ...], list[Message], str]:
    """Return the history, the last question with what follows it, and the system text."""
    system = "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text
    )
    rest = [message for message in messages if message.role != "system"]
    last = max((at for at, message in enumerate(rest) if message.role == "user"), default=0)
    return tuple(rest[:last]), rest[last:], system


def _new_in(messages: Sequence[Message]) -> list[Message]:
    """Return the new messages for a thread: results of the client's tools, or the last question."""
    tail: list[Message] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        tail.insert(0, message)
    if tail:
        return tail
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    return [] if last is None else [last]


def without_history(messages: Sequence[Message]) -> list[Message]:
    """Return the messages, marked as those that later turns do not see."""
    return [replace(message, notes={**message.notes, "history_off": True}) for message in messages]
