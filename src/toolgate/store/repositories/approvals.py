"""Calls that await approval, and programs that wait for such calls. Knows no SQL."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = [
    "ApprovalFilter",
    "ApprovalRepository",
    "ApprovalState",
    "ProgramRepository",
    "StoredApproval",
    "StoredProgram",
]

ApprovalState: TypeAlias = Literal["waiting", "approved", "rejected", "used", "expired"]
"""`approved`: may run once. `used`: has run, or begun to. `expired`: it is too late for it."""


@dataclass(frozen=True, kw_only=True)
class StoredApproval:
    """A call that needs a person's yes, and what became of it."""

    approval_id: str
    """Opaque, time-sortable."""

    binding: str
    """SHA-256 over project, caller, tool, its definition and the arguments: what it holds for."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Who wants to call."""

    who: str
    """The same for people: name of a token or user."""

    client: str = ""
    """The client program as it says itself."""

    conversation: str = ""
    """What the call belongs to."""

    tool: str
    """Key of the tool."""

    digest: str = ""
    """Of its definition; when that changes the approval is worth nothing."""

    arguments: str = "{}"
    """JSON, for people: secrets are masked, long ones are cut."""

    arguments_sha256: str = ""
    """Of the arguments as they came."""

    reason: str = ""
    """Why a person is asked."""

    approver: Literal["user", "admin"] = "user"
    """Who may decide: whoever sits at the client too, or only who has the right `approve`."""

    state: ApprovalState = "waiting"
    """Where it stands."""

    created_at: str
    """UTC, ISO 8601."""

    expires_at: str
    """From when on it is worth nothing; UTC, ISO 8601."""

    decided_at: str | None = None
    """UTC, ISO 8601."""

    decided_by: str = ""
    """Who decided."""

    decided_via: str = ""
    """Where: `rest`, `client` or `console`."""

    comment: str = ""
    """What they said about it."""

    edited: str | None = None
    """JSON: the arguments that run in place of those that came; None: those that came."""

    used_at: str | None = None
    """When the call began; UTC, ISO 8601."""

    step: int = 0
    """How often it was taken: once to begin, and once for each answer to a question of the tool."""

    record_id: str = ""
    """The record of the audit that says that it waits."""


@dataclass(frozen=True, kw_only=True)
class ApprovalFilter:
    """Which approvals are wanted; None means any."""

    state: ApprovalState | None = None
    """Where they stand."""

    project_id: str | None = None
    """The tenant."""

    caller_id: str | None = None
    """Who wants to call."""

    after: str | None = None
    """The id of the last one of the page before."""

    limit: int = 100
    """At most this many, the newest; 1 to 1,000."""


@dataclass(frozen=True, kw_only=True)
class StoredProgram:
    """A program that has stopped at calls which a person has to allow or to answer."""

    program_id: str
    """Opaque id."""

    project_id: str
    """The tenant."""

    caller_id: str
    """The only caller who may let it go on."""

    state: Literal["waiting", "running"]
    """`running`: somebody has taken it; nobody may take it again before it waits again."""

    body: bytes
    """All that it needs to go on, signed."""

    created_at: str
    """UTC, ISO 8601."""

    expires_at: str
    """UTC, ISO 8601."""


class ProgramRepository(Protocol):
    """Programs that wait. Each method is one transaction."""

    async def save(self, program: StoredProgram) -> None:
        """Insert a program, or replace the one of this id."""
        ...

    async def get(self, program_id: str) -> StoredProgram | None:
        """A program; None when there is none. The caller checks owner and expiry."""
        ...

    async def claim(self, program_id: str, *, now: str) -> bool:
        """Turn `waiting` into `running`; False: somebody else did, or it is too late."""
        ...

    async def remove(self, program_id: str) -> None:
        """Forget a program; nothing happens where there is none."""
        ...


class ApprovalRepository(Protocol):
    """Approvals. Each method is one transaction."""

    @property
    def programs(self) -> ProgramRepository:
        """Programs whose calls wait for a person."""
        ...

    async def add_or_get(self, approval: StoredApproval) -> StoredApproval:
        """Insert it, unless one of the same binding is waiting or decided and not used; gives that.

        Of many that come at the same time one is inserted, and all get that one.
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
        """Decide one that waits; False: it no longer waits. Of many at once one succeeds."""
        ...

    async def claim(self, approval_id: str, *, step: int, now: str) -> bool:
        """Take the one right to run that an approval gives; False: it is taken, or too late.

        `step` is 0 to begin; for each answer to a question of the tool one more than the last.
        """
        ...
