"""Calls that await approval, and programs that wait for them. Contains no SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

ApprovalState: TypeAlias = Literal["waiting", "approved", "rejected", "used", "expired"]
"""`approved`: may run once. `used`: has started. `expired`: can no longer be decided or used."""


@dataclass(frozen=True, kw_only=True)
class StoredApproval:
    """A call that needs a person's approval, and the decision."""

    approval_id: str
    """Opaque id, sortable by time."""

    binding: str
    """SHA-256 over project, caller, tool, definition and arguments: the call that it is valid
    for."""

    project_id: str
    """The project."""

    caller_id: str
    """The caller who wants to make the call."""

    who: str
    """The caller for people: name of the token or user."""

    client: str = ""
    """Self-declared name of the client program."""

    conversation: str = ""
    """The conversation of the call."""

    tool: str
    """Key of the tool."""

    digest: str = ""
    """Digest of the tool's definition; the approval becomes invalid when it changes."""

    arguments: str = "{}"
    """The arguments as JSON for people: secrets masked, long values cut."""

    arguments_sha256: str = ""
    """Hash of the original arguments."""

    reason: str = ""
    """Why approval is needed."""

    approver: Literal["user", "admin"] = "user"
    """Who may decide: also the user of the client, or only people with the right `approve`."""

    state: ApprovalState = "waiting"
    """Its state."""

    created_at: str
    """UTC, ISO 8601."""

    expires_at: str
    """Expiry; UTC, ISO 8601."""

    decided_at: str | None = None
    """UTC, ISO 8601."""

    decided_by: str = ""
    """The person who decided."""

    decided_via: str = ""
    """How: `rest`, `client` or `console`."""

    comment: str = ""
    """Their comment."""

    edited: str | None = None
    """JSON: edited arguments that replace the original ones; None: not edited."""

    used_at: str | None = None
    """Start of the call; UTC, ISO 8601."""

    step: int = 0
    """How often it was claimed: once to start, and once per answer to a question of the tool."""

    record_id: str = ""
    """The audit record of the waiting call."""


@dataclass(frozen=True, kw_only=True)
class ApprovalFilter:
    """Criteria for approvals; None matches any."""

    state: ApprovalState | None = None
    """Their state."""

    project_id: str | None = None
    """The project."""

    caller_id: str | None = None
    """The caller who wants to make the call."""

    after: str | None = None
    """Id of the last approval of the previous page."""

    limit: int = 100
    """Largest number, newest first; 1 to 1,000."""


@dataclass(frozen=True, kw_only=True)
class StoredProgram:
    """A program that stopped at calls which a person must approve or answer."""

    program_id: str
    """Opaque id."""

    project_id: str
    """The project."""

    caller_id: str
    """The only caller who may resume it."""

    state: Literal["waiting", "running"]
    """`running`: it was claimed, and cannot be claimed again before it waits again."""

    body: bytes
    """Its signed snapshot."""

    created_at: str
    """When it stopped at these calls. UTC, ISO 8601."""

    expires_at: str
    """UTC, ISO 8601."""


class ProgramRepository(Protocol):
    """Waiting programs. Each method is one transaction."""

    async def save(self, program: StoredProgram) -> None:
        """Insert a program, or replace the one with this id."""
        ...

    async def add(self, program: StoredProgram, *, now: str) -> bool:
        """Insert a program. False: one with this id exists that has not expired.

        Of concurrent calls, one succeeds.
        """
        ...

    async def get(self, program_id: str) -> StoredProgram | None:
        """A program; None if it does not exist. The caller checks owner and expiry."""
        ...

    async def first_waiting(self, program_ids: Sequence[str], *, now: str) -> str | None:
        """Which of these programs has been waiting longest; None: none waits, or they expired."""
        ...

    async def claim(self, program_id: str, *, now: str) -> bool:
        """Change `waiting` to `running`. False if someone else did, or it has expired."""
        ...

    async def remove(self, program_id: str) -> None:
        """Delete a program, if it exists."""
        ...

    async def select(self, *, caller_id: str | None, now: str, limit: int) -> list[StoredProgram]:
        """Programs that have not expired, newest first; of this caller, or with None of all."""
        ...


class ApprovalRepository(Protocol):
    """Approvals. Each method is one transaction."""

    @property
    def programs(self) -> ProgramRepository:
        """Programs that wait for a person."""
        ...

    async def add_or_get(self, approval: StoredApproval) -> StoredApproval:
        """Insert an approval, or return the pending or unused one with the same binding.

        Of concurrent calls, one inserts, and all get the same approval.
        """
        ...

    async def get(self, approval_id: str, *, now: str) -> StoredApproval | None:
        """An approval by its id."""
        ...

    async def select(self, query: ApprovalFilter, *, now: str) -> list[StoredApproval]:
        """Approvals that match, newest first."""
        ...

    async def decide(
        self,
        approval_id: str,
        *,
        state: Literal["approved", "rejected"],
        by: str,
        via: str,
        comment: str,
        edited: str | None,
        now: str,
    ) -> bool:
        """Decide a waiting approval. False if it is not waiting; concurrent calls succeed once."""
        ...

    async def claim(self, approval_id: str, *, step: int, now: str) -> bool:
        """Claim the single run that an approval allows. False if it is taken or has expired.

        `step` is 0 to start, and one more for each answer to a question of the tool.
        """
        ...
