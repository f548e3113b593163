"""Response ids, which contain thread and turn, so that nothing else has to be saved."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from toolgate.chat import ThreadService
from toolgate.errors import ArgumentError, UnknownResponseError
from toolgate.types import Caller, Json

_PREFIX = "resp_"
_PAGE = 200
"""Messages read at a time; chosen: most threads are shorter."""


@dataclass(frozen=True, kw_only=True)
class ResponseId:
    """The id of a response."""

    turn_id: str
    """The turn that produced the response."""

    thread: str | None = None
    """The thread of the turn; None if it was not saved."""

    def __str__(self) -> str:
        """Return the id in the form that clients get."""
        if self.thread is None:
            return f"{_PREFIX}{self.turn_id}"
        thread = urlsafe_b64encode(self.thread.encode()).decode().rstrip("=")
        return f"{_PREFIX}{self.turn_id}_{thread}"

    @classmethod
    def read(cls, text: object) -> "ResponseId":
        """Parse an id that a client sent back.

        Raises:
            UnknownResponseError: It is not the id of a saved response.
        """
        turn_id, _, encoded = str(text).removeprefix(_PREFIX).partition("_")
        try:
            thread = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except (binascii.Error, ValueError):
            thread = ""
        if not turn_id or not thread:
            raise _unknown(text)
        return cls(turn_id=turn_id, thread=thread)

    async def check_last(self, threads: ThreadService, caller: Caller) -> None:
        """Refuse to continue a response that is not the last of a thread of the caller.

        Raises:
            UnknownResponseError: The caller has no such response.
            ArgumentError: The caller has continued it already.
        """
        page = await threads.history(caller, self.thread or "", limit=_PAGE)
        messages: list[Json] = [] if page is None else page["messages"]
        said = [message for message in messages if message["role"] == "assistant"]
        if not said:
            raise _unknown(self)
        if said[-1]["turn_id"] != self.turn_id:
            await self.messages(threads, caller)
            raise ArgumentError(
                f"The response {str(self)[:80]!r} is not the last one of its conversation.",
                hint="Continue the last one, or begin a new conversation.",
            )

    async def messages(self, threads: ThreadService, caller: Caller) -> list[Json]:
        """Return the messages of the turn, oldest first.

        Raises:
            UnknownResponseError: The caller has no such response.
        """
        found: list[Json] = []
        before: int | None = None
        while True:
            page = await threads.history(caller, self.thread or "", limit=_PAGE, before=before)
            messages: list[Json] = [] if page is None else page["messages"]
            found = [item for item in messages if item["turn_id"] == self.turn_id] + found
            if page is None or not page["has_more"] or (found and found[0] is not messages[0]):
                break
            before = page["before"]
        if not found:
            raise _unknown(self)
        return found


def _unknown(text: object) -> UnknownResponseError:
    return UnknownResponseError(
        f"There is no response {str(text)[:80]!r}.",
        hint="Responses are kept unless 'store' is false, and as long as their thread.",
    )
