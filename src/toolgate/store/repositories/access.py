"""Stored projects, tokens, permission rules and guards."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class StoredProject:
    """A project."""

    project_id: str
    """Its name, which identifies it."""

    settings: Json = field(default_factory=dict[str, Any])
    """Its own settings; empty: none."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """An opaque token. The token itself is not stored."""

    token_id: str
    """Opaque id, which stays when the token is rotated."""

    name: str
    """Unique name for people and rules."""

    prefix: str
    """Its first characters, by which people recognise it."""

    digest: str
    """SHA-256 of the token in hex."""

    user: str = ""
    """Its user; empty: none."""

    projects: tuple[str, ...] = ()
    """Projects it may use, the default first; `*` means all."""

    roles: tuple[str, ...] = ()
    """Its roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    read_only: bool = False
    """Whether it may run only tools marked read-only."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Individual limits by name; other limits come from the settings."""

    created_at: str = ""
    """UTC, ISO 8601."""

    expires_at: str | None = None
    """Expiry; None: never."""

    rotated_at: str | None = None
    """Time of the last rotation."""

    old_digest: str | None = None
    """SHA-256 of the previous secret, which is accepted until `old_until`."""

    old_until: str | None = None
    """UTC, ISO 8601."""

    revoked_at: str | None = None
    """Time of revocation; None: not revoked."""

    last_used_at: str | None = None
    """Approximate time of last use."""


@dataclass(frozen=True, kw_only=True)
class StoredPermission:
    """A permission rule created by command, API or console."""

    permission_id: str
    """Opaque id, sortable by time."""

    effect: Literal["allow", "deny"]
    """Whether it allows or denies."""

    who: str
    """`everyone`, or `token:NAME`, `role:NAME`, `user:NAME` (of tokens), `user@jwt:NAME` (of an
    identity provider), `group:NAME`, `project:NAME`."""

    kind: str
    """`any`, `server`, `tool`, `resource`, `prompt` or `right`."""

    pattern: str
    """Pattern of names; `*` and `?` match any text and any character."""

    hint: str = ""
    """`read_only` or `destructive`: only tools with this annotation; empty: all."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredGuard:
    """A call guard created by command, API or console."""

    guard_id: str
    """Opaque id, sortable by time."""

    settings: Json
    """The keys of a table `[[guard]]`."""

    created_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class DayUsage:
    """Usage that counts against daily limits."""

    calls: int = 0
    """Number of calls."""

    tokens: int = 0
    """Estimated tokens of results."""


@dataclass(frozen=True, kw_only=True)
class CallGrant:
    """Calls granted to a process under a limit per minute."""

    calls: int
    """Number of calls; 0: none now."""

    wait_s: float = 0.0
    """Seconds until the next call; 0 if calls were granted."""


@dataclass(frozen=True, kw_only=True)
class FullLimit:
    """A concurrency limit that is reached."""

    name: str
    """Name of the limit."""

    running: int
    """Running calls in all processes."""


class ProjectRepository(Protocol):
    """Projects. Each method is one transaction."""

    async def add_references(self, project_ids: Collection[str]) -> None:
        """Allow rows to refer to projects that are defined in `toolgate.toml`.

        Existing projects are not changed.
        """
        ...

    async def list_all(self) -> list[StoredProject]:
        """All projects defined in the store and the default one, by name."""
        ...

    async def save(self, project: StoredProject) -> None:
        """Insert a project, or replace the settings of an existing one."""
        ...

    async def delete(self, project_id: str) -> bool:
        """Delete a project and everything that belongs to it. False if it does not exist."""
        ...


class AccessRepository(Protocol):
    """Tokens, permission rules and guards. Each method is one transaction."""

    async def tokens(self) -> list[StoredToken]:
        """All tokens by name, including revoked and expired ones."""
        ...

    async def save_token(self, token: StoredToken) -> None:
        """Insert a token, or replace the one with the same `token_id`.

        Raises:
            StoreError: Another token has this name.
        """
        ...

    async def delete_token(self, token_id: str) -> bool:
        """Delete a token. False if it does not exist."""
        ...

    async def touch_tokens(self, used: Mapping[str, str]) -> None:
        """Set the time of last use by `token_id`; does not count as a change."""
        ...

    async def permissions(self) -> list[StoredPermission]:
        """All permission rules, oldest first."""
        ...

    async def save_permissions(self, rules: Sequence[StoredPermission]) -> None:
        """Add rules; all or none."""
        ...

    async def delete_permissions(self, permission_ids: Collection[str]) -> int:
        """Delete rules. Returns how many existed."""
        ...

    async def guards(self) -> list[StoredGuard]:
        """All guards, oldest first."""
        ...

    async def save_guard(self, guard: StoredGuard) -> None:
        """Add a guard."""
        ...

    async def delete_guards(self, guard_ids: Collection[str]) -> int:
        """Delete guards. Returns how many existed."""
        ...

    async def version(self) -> int:
        """A number that grows with each change that other processes must reload.

        Changes of projects, servers, tokens, rules, guards, credentials, and decisions about
        tools count.
        """
        ...

    async def wait_for_change(self, within_s: float) -> tuple[str, ...]:
        """Return when another process may have changed `version`, or after `within_s` seconds.

        Returns ids of sessions that other processes have announced as ended. Not every change is
        announced, so check `version` in any case.

        Args:
            within_s: Seconds.
        """
        ...

    async def announce_session_end(self, session_id: str) -> None:
        """Let `wait_for_change` return the id of a session in all processes, if they can hear it.

        Args:
            session_id: Its id, at most 7,999 bytes.
        """
        ...

    @property
    def shares_limits(self) -> bool:
        """Whether processes on several machines can use this store and share its limits."""
        ...

    async def add_day_usage(self, day: str, used: Mapping[str, DayUsage]) -> dict[str, DayUsage]:
        """Add usage of a day by name. Returns the totals of these names.

        Adding nothing reads a total. Days before yesterday are deleted.

        Args:
            day: UTC, `YYYY-MM-DD`.
            used: Usage by name of the limit.
        """
        ...

    async def take_calls(
        self, name: str, *, per_minute: int, up_to: int, now_s: float
    ) -> CallGrant:
        """Take calls from a token bucket that processes share.

        Args:
            name: Name of the bucket; a new bucket is full.
            per_minute: Its size, and the calls that it refills per minute.
            up_to: Largest number of calls to take.
            now_s: Seconds since 1970. A clock that is behind refills nothing.
        """
        ...

    async def take_slots(
        self, limits: Mapping[str, int], *, call_id: str, lease_s: float
    ) -> FullLimit | None:
        """Take a slot of each limit for a call, or none. Returns a limit that is reached, if any.

        Processes share the slots; the clock of the database decides when they expire.

        Args:
            limits: Largest number of concurrent calls by name of the limit.
            call_id: Unique id of the call.
            lease_s: Seconds until the slots expire, unless renewed.
        """
        ...

    async def renew_slots(self, call_ids: Collection[str], *, lease_s: float) -> None:
        """Extend the slots of calls to `lease_s` seconds from now; create none."""
        ...

    async def free_slots(self, call_ids: Collection[str]) -> None:
        """Release the slots of calls that ended, and delete expired ones."""
        ...
