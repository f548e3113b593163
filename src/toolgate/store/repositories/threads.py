"""Stored chat threads, with their messages, artifacts and costs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolgate.types import Json

PROJECT_THREAD = ""
"""Name and owner of the thread whose settings are those of its project."""

RESPONSE_PREFIX = "response-"
"""Start of the names of threads that belong to a single response: no person named them, and a
client may make one with each request."""


@dataclass(frozen=True, kw_only=True)
class StoredThread:
    """A stored conversation."""

    thread_id: str
    """Opaque id, sortable by time."""

    project_id: str
    """The project."""

    caller_id: str
    """Its owner."""

    name: str
    """The name that clients use; unique for its owner and project."""

    settings: Json = field(default_factory=dict[str, Any])
    """Its own settings, which override those of the project."""

    state: Json = field(default_factory=dict[str, Any])
    """State for the next turn: tools so far, compaction, pending calls."""

    last_number: int = 0
    """Number of its last message; 0 if it has none."""

    running: str = ""
    """Id of the running turn; empty: none."""

    running_until: str = ""
    """When a running turn counts as dead, UTC, ISO 8601."""

    created_at: str = ""
    """UTC, ISO 8601."""

    used_at: str = ""
    """Start or end of its last turn, UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """A message of a thread; immutable once written."""

    number: int
    """Its number in the thread, from 1."""

    turn_id: str
    """Id of its turn."""

    role: str
    """`user`, `assistant` or `tool`."""

    body: Json
    """Its content: `content`, `calls`, `call_id`, `name`, `kept`."""

    notes: Json = field(default_factory=dict[str, Any])
    """Metadata: policy, artifact, `response_metadata` and others."""

    at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredArtifact:
    """Output of a turn that is not a message: documents, large results."""

    artifact_id: str
    """Opaque id."""

    turn_id: str
    """Id of the turn."""

    body: Json
    """Its content."""


@dataclass(frozen=True, kw_only=True)
class StoredSpending:
    """Cost of a request to a model."""

    turn_id: str
    """Id of the turn."""

    purpose: str
    """Purpose of the request."""

    model: str
    """Name of the model."""

    prompt_tokens: int
    """Tokens of the request."""

    completion_tokens: int
    """Tokens of the response."""

    cached_tokens: int
    """Request tokens that the provider had cached."""

    cost: float
    """Cost at the configured prices."""

    is_estimate: bool
    """Whether the numbers are estimated because the provider did not report them."""

    at: str = ""
    """UTC, ISO 8601."""


class TurnOpening(Protocol):
    """What a turn reads and writes when it begins, in the transaction that claims its thread."""

    def read_after(self, thread: StoredThread, /) -> int:
        """Return the number of the last message that is not read."""
        ...

    def first_messages(
        self,
        thread: StoredThread,
        project_settings: Json,
        messages: Sequence[StoredMessage],
        /,
    ) -> Sequence[StoredMessage]:
        """Return the messages to write. Runs in a worker thread.

        Args:
            thread: The claimed thread.
            project_settings: The settings of all threads of the project.
            messages: Messages of the thread after `read_after`, oldest first.
        """
        ...


class ThreadRepository(Protocol):
    """Chat threads. Each method is one transaction."""

    async def get(self, project_id: str, caller_id: str, name: str) -> StoredThread | None:
        """A thread by name; None if it does not exist."""
        ...

    async def select(
        self,
        project_id: str,
        caller_id: str | None,
        *,
        with_responses: bool = True,
        limit: int = 100,
    ) -> list[StoredThread]:
        """Threads of a caller, or of all callers of a project, most recently used first.

        Args:
            project_id: The project.
            caller_id: The caller; None: all.
            with_responses: Whether to include those whose names begin with `RESPONSE_PREFIX`.
            limit: At most as many.
        """
        ...

    async def begin_turn(
        self,
        thread: StoredThread,
        *,
        turn_id: str,
        until: str,
        now: str,
        over: str = "",
        opening: TurnOpening | None = None,
    ) -> StoredThread:
        """Create the thread if needed, and claim the right to run a turn in it.

        The claim succeeds if no turn is running, if the running one counts as dead, or if it is
        `over`. In the returned thread, `running` says who has the right. `opening` is used only
        if the claim succeeds; if it raises, nothing is written.
        """
        ...

    async def extend_turn(self, thread_id: str, *, turn_id: str, until: str) -> bool:
        """Keep a turn alive. False if another turn has taken over."""
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
        """Write the messages of a turn and number them. Returns the last number.

        Args:
            thread_id: The thread.
            messages: In order; their `number` is ignored.
            artifacts: Artifacts of the messages.
            spending: Costs of the turn.
            state: The new state of the thread; None: unchanged.
            ends: The turn that ends; empty: none.
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
        """Existing artifacts with these ids."""
        ...

    async def spending(self, thread_id: str) -> list[StoredSpending]:
        """Costs of a thread, oldest first."""
        ...

    async def save_settings(
        self, thread: StoredThread, settings: Json, *, now: str
    ) -> StoredThread:
        """Create the thread if needed, and save its settings."""
        ...

    async def drop_turn(self, thread_id: str, turn_id: str) -> int:
        """Delete the messages of a turn. Returns how many existed."""
        ...

    async def clear(self, thread_id: str, *, now: str) -> int:
        """Delete all messages but not the settings. Returns how many existed."""
        ...

    async def delete(self, thread_id: str) -> bool:
        """Delete a thread with its contents. False if it does not exist."""
        ...
