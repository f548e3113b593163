"""Chat threads, their messages, artifacts and costs, as a store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolgate.types import Json

__all__ = [
    "StoredArtifact",
    "StoredMessage",
    "StoredSpending",
    "StoredThread",
    "ThreadRepository",
]


@dataclass(frozen=True, kw_only=True)
class StoredThread:
    """A conversation that the gateway keeps."""

    thread_id: str
    """Opaque, time-sortable."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Whose it is."""

    name: str
    """What clients call it; unique for its caller and project."""

    settings: Json = field(default_factory=dict[str, Any])
    """What was set for it, in place of the settings of the project."""

    state: Json = field(default_factory=dict[str, Any])
    """What the next turn has to know: tools so far, what was made shorter, calls that wait."""

    last_number: int = 0
    """Number of its last message; 0 without any."""

    running: str = ""
    """The turn that runs now; empty: none."""

    running_until: str = ""
    """From when on a turn that runs is thought to be dead, UTC, ISO 8601."""

    created_at: str = ""
    """UTC, ISO 8601."""

    used_at: str = ""
    """When its last turn began or ended, UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """One message of a thread; never changed once it is written."""

    number: int
    """From 1 on in its thread, in order."""

    turn_id: str
    """The turn that it belongs to."""

    role: str
    """`user`, `assistant` or `tool`."""

    body: Json
    """What was said: `content`, `calls`, `call_id`, `name`, `kept`."""

    notes: Json = field(default_factory=dict[str, Any])
    """What is known of it: policy, artifact, `response_metadata` and others."""

    at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredArtifact:
    """What a turn made that is no message: documents, large results."""

    artifact_id: str
    """Opaque."""

    turn_id: str
    """The turn."""

    body: Json
    """What it is."""


@dataclass(frozen=True, kw_only=True)
class StoredSpending:
    """What one request to a model cost."""

    turn_id: str
    """The turn."""

    purpose: str
    """What the request was for."""

    model: str
    """Name of the model."""

    prompt_tokens: int
    """Tokens that were sent."""

    completion_tokens: int
    """Tokens of the answer."""

    cached_tokens: int
    """Those that the service had in its cache."""

    cost: float
    """By the prices that are configured."""

    is_estimate: bool
    """Whether the service did not say."""

    at: str = ""
    """UTC, ISO 8601."""


class ThreadRepository(Protocol):
    """Chat threads. Each method is one transaction."""

    async def get(self, project_id: str, caller_id: str, name: str) -> StoredThread | None:
        """A thread by its name; None when there is none."""
        ...

    async def select(
        self, project_id: str, caller_id: str | None, *, limit: int = 100
    ) -> list[StoredThread]:
        """Threads of a caller, or of all callers of a project, the last used first."""
        ...

    async def begin_turn(
        self, thread: StoredThread, *, turn_id: str, until: str, now: str, over: str = ""
    ) -> StoredThread:
        """Create the thread unless it exists, and take the right to run a turn in it.

        The right is taken when no turn runs, when the one that runs is thought to be dead, or when
        it is `over`. In the answer `running` says who has it.
        """
        ...

    async def extend_turn(self, thread_id: str, *, turn_id: str, until: str) -> bool:
        """Say that a turn is alive; False: another one has taken over."""
        ...

    async def append_messages(
        self,
        thread_id: str,
        messages: Sequence[StoredMessage],
        *,
        artifacts: Sequence[StoredArtifact] = (),
        spending: Sequence[StoredSpending] = (),
        state: Json | None = None,
        ends: str = "",
        now: str,
    ) -> int:
        """Write the messages of a turn, numbered here; gives the last number.

        Args:
            thread_id: The thread.
            messages: In order; their `number` is ignored.
            artifacts: What belongs to them.
            spending: What was spent.
            state: The new state of the thread; None: as it was.
            ends: The turn that ends with this; empty: none.
            now: UTC, ISO 8601.
        """
        ...

    async def messages(
        self,
        thread_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """Messages between two numbers, oldest first; with a limit the newest of them."""
        ...

    async def artifacts(self, thread_id: str, artifact_ids: Sequence[str]) -> list[StoredArtifact]:
        """Those of these ids that exist."""
        ...

    async def spending(self, thread_id: str) -> list[StoredSpending]:
        """What was spent in a thread, oldest first."""
        ...

    async def save_settings(
        self, thread: StoredThread, settings: Json, *, now: str
    ) -> StoredThread:
        """Create the thread unless it exists, and give it these settings."""
        ...

    async def drop_turn(self, thread_id: str, turn_id: str) -> int:
        """Delete the messages of a turn; gives how many there were."""
        ...

    async def clear(self, thread_id: str, *, now: str) -> int:
        """Delete all messages; settings stay. Gives how many there were."""
        ...

    async def delete(self, thread_id: str) -> bool:
        """Remove a thread with everything; False when there was none."""
        ...
