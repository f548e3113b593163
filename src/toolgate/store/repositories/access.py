"""Projects, tokens, permission rules and guards, as a store keeps them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolgate.types import Json

__all__ = [
    "AccessRepository",
    "CallGrant",
    "DayUsage",
    "FullLimit",
    "ProjectRepository",
    "StoredGuard",
    "StoredPermission",
    "StoredProject",
    "StoredToken",
]


@dataclass(frozen=True, kw_only=True)
class StoredProject:
    """A tenant."""

    project_id: str
    """Its name, which is its identity."""

    settings: Json = field(default_factory=dict[str, Any])
    """What it sets for itself; empty: nothing."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """An opaque token. The token itself is nowhere."""

    token_id: str
    """Opaque; stays when the token is rotated."""

    name: str
    """Unique; what rules and people call it by."""

    prefix: str
    """Its first characters, by which a person recognises it."""

    digest: str
    """SHA-256 of it, hex."""

    user: str = ""
    """Who uses it; empty: nobody in particular."""

    projects: tuple[str, ...] = ()
    """Projects it may act in, its own first; `*` is any."""

    roles: tuple[str, ...] = ()
    """Its roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    read_only: bool = False
    """Whether it runs only tools that are marked read-only."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of its own, by name; the others are those of the settings."""

    created_at: str = ""
    """UTC, ISO 8601."""

    expires_at: str | None = None
    """From when on it is refused; None: never."""

    rotated_at: str | None = None
    """When it was last replaced by another secret."""

    old_digest: str | None = None
    """SHA-256 of the secret before that, which is accepted until `old_until`."""

    old_until: str | None = None
    """UTC, ISO 8601."""

    revoked_at: str | None = None
    """When it was revoked; None: it is not."""

    last_used_at: str | None = None
    """Roughly when it was last accepted."""


@dataclass(frozen=True, kw_only=True)
class StoredPermission:
    """A permission rule that was made by command or API."""

    permission_id: str
    """Opaque, time-sortable."""

    effect: Literal["allow", "deny"]
    """What it says."""

    who: str
    """`everyone`, or `token:NAME`, `role:NAME`, `user:NAME` (of tokens), `user@jwt:NAME` (of an
    identity provider), `group:NAME`, `project:NAME`."""

    kind: str
    """`any`, `server`, `tool`, `resource`, `prompt` or `right`."""

    pattern: str
    """Of the things that it is about; `*` and `?` stand for any text and any character."""

    hint: str = ""
    """`read_only` or `destructive`: only tools that are so; empty: all."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredGuard:
    """A guard around calls that was made by command or API."""

    guard_id: str
    """Opaque, time-sortable."""

    settings: Json
    """The keys of a table `[[guard]]`."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class DayUsage:
    """What counts against limits per day."""

    calls: int = 0
    """Calls."""

    tokens: int = 0
    """Estimated tokens of results."""


@dataclass(frozen=True, kw_only=True)
class CallGrant:
    """Calls that a process may run out of a limit per minute."""

    calls: int
    """How many; 0: none now."""

    wait_s: float = 0.0
    """Seconds until the next one; 0 if there are calls."""


@dataclass(frozen=True, kw_only=True)
class FullLimit:
    """A limit for calls at the same time, of which as many run."""

    name: str
    """Of the limit."""

    running: int
    """Calls that run, in all processes."""


class ProjectRepository(Protocol):
    """Projects. Each method is one transaction."""

    async def add_references(self, project_ids: Collection[str]) -> None:
        """Let rows refer to projects that are defined elsewhere, as in `toolgate.toml`.

        Nothing changes for projects that exist.
        """
        ...

    async def list_all(self) -> list[StoredProject]:
        """All projects that are defined here, by name, with the default one."""
        ...

    async def save(self, project: StoredProject) -> None:
        """Insert a project, or replace the settings of the one of this name."""
        ...

    async def delete(self, project_id: str) -> bool:
        """Remove a project with all that belongs to it; False when there was none."""
        ...


class AccessRepository(Protocol):
    """Tokens, permission rules and guards. Each method is one transaction."""

    async def tokens(self) -> list[StoredToken]:
        """All tokens by name, revoked and expired ones too."""
        ...

    async def save_token(self, token: StoredToken) -> None:
        """Insert, or replace the one with this `token_id`.

        Raises:
            StoreError: Another token has this name.
        """
        ...

    async def delete_token(self, token_id: str) -> bool:
        """Remove a token; False when there was none."""
        ...

    async def touch_tokens(self, used: Mapping[str, str]) -> None:
        """Note when tokens were last used, by `token_id`; does not count as a change."""
        ...

    async def permissions(self) -> list[StoredPermission]:
        """All permission rules, oldest first."""
        ...

    async def save_permissions(self, rules: Sequence[StoredPermission]) -> None:
        """Add rules; all or none."""
        ...

    async def delete_permissions(self, permission_ids: Collection[str]) -> int:
        """Remove rules; gives how many there were."""
        ...

    async def guards(self) -> list[StoredGuard]:
        """All guards, oldest first."""
        ...

    async def save_guard(self, guard: StoredGuard) -> None:
        """Add a guard."""
        ...

    async def delete_guards(self, guard_ids: Collection[str]) -> int:
        """Remove guards; gives how many there were."""
        ...

    async def version(self) -> int:
        """A number that grows with each change that other processes have to take over.

        Of projects, servers, tokens, rules, guards and credentials, and decisions about tools.
        """
        ...

    async def wait_for_change(self, within_s: float) -> None:
        """Return once another process may have changed `version`, at the latest after a time.

        Not every change is announced, so look at `version` in any case.

        Args:
            within_s: Seconds.
        """
        ...

    @property
    def shares_limits(self) -> bool:
        """Whether processes on several machines may use this store, and so share limits."""
        ...

    async def add_day_usage(self, day: str, used: Mapping[str, DayUsage]) -> dict[str, DayUsage]:
        """Add what was used on a day, by name; gives the totals of these names.

        Adding nothing to a name reads its total. Days that ended two days before are removed.

        Args:
            day: UTC, `YYYY-MM-DD`.
            used: Names of limits.
        """
        ...

    async def take_calls(
        self, name: str, *, per_minute: int, up_to: int, now_s: float
    ) -> CallGrant:
        """Take calls out of a bucket that refills all the time; processes share it.

        Args:
            name: Of the bucket; a new one is full.
            per_minute: Calls that it holds, and that flow in within a minute.
            up_to: Calls to take at most.
            now_s: Seconds since 1970. A clock that is behind those of others refills nothing.
        """
        ...

    async def take_slots(
        self, limits: Mapping[str, int], *, call_id: str, lease_s: float
    ) -> FullLimit | None:
        """Take a slot of each limit for a call that begins, or none; gives one that is full.

        Processes share the slots, and the clock of the database decides when they expire.

        Args:
            limits: Calls that may run at the same time, by the name of the limit.
            call_id: Of the call, unique.
            lease_s: Seconds until the slots expire, unless they are renewed.
        """
        ...

    async def renew_slots(self, call_ids: Collection[str], *, lease_s: float) -> None:
        """Have the slots of calls expire that many seconds from now; missing ones are not made."""
        ...

    async def free_slots(self, call_ids: Collection[str]) -> None:
        """Give back the slots of calls that have ended, and remove expired ones."""
        ...
