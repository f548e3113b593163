"""Projects, tokens, rules and guards in memory, synchronized with the store."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import anyio

from toolgate.base.ids import utc_now
from toolgate.errors import StoreError
from toolgate.security.access.rules import AccessRule, rules_of_store
from toolgate.settings import ProjectTable
from toolgate.store import (
    Store,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredToken,
    acquired,
)
from toolgate.types import Json

log = logging.getLogger(__name__)

POLL_S = 0.4
"""Seconds between two polls of the store: a revocation in another process applies within a
second."""

# Seconds between two writes of last use times of tokens. Chosen: one write for many calls.
_TOUCH_S = 10.0


@dataclass(frozen=True, kw_only=True)
class AccessSnapshot:
    """The access data at one point in time."""

    version: int = -1
    """Version of the store."""

    projects: dict[str, StoredProject] = field(default_factory=dict[str, StoredProject])
    """Projects by name, without the default project."""

    tokens: dict[str, StoredToken] = field(default_factory=dict[str, StoredToken])
    """Tokens by prefix."""

    permissions: tuple[StoredPermission, ...] = ()
    """Stored rules."""

    rules: tuple[AccessRule, ...] = ()
    """The stored rules, in the form that decisions use."""

    guards: tuple[StoredGuard, ...] = ()
    """Stored guards, oldest first."""


class AccessData:
    """The access data of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.snapshot = AccessSnapshot()
        """Current access data."""
        self._used: dict[str, str] = {}
        self._references: frozenset[str] = frozenset()
        self._has_written_references = False
        self._is_write_failing = False
        self._listeners: list[Callable[[], None]] = []
        self._session_listeners: list[Callable[[str], None]] = []
        self._reading = anyio.Lock()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a listener that is called after every change."""
        self._listeners.append(listener)

    def token_by_prefix(self, prefix: str) -> StoredToken | None:
        """Return a token by its prefix; None if it does not exist."""
        return self.snapshot.tokens.get(prefix)

    def note_use(self, token_id: str) -> None:
        """Record that a token was used now; it is written later."""
        if token_id not in self._used:  # within seconds of the last writing, the first is enough
            self._used[token_id] = utc_now()

    async def tokens_with_use(self) -> list[StoredToken]:
        """Return all tokens from the store, with every use until now.

        Those of the snapshot have the uses that were known at the last change.

        Raises:
            StoreError: The store cannot be read.
        """
        await self.write_uses()
        return await self._store.access.tokens()

    def refer_to(self, projects: Collection[str]) -> None:
        """Let rows reference projects from files; written by the next `refresh`."""
        self._references, self._has_written_references = frozenset(projects), False

    def on_session_end(self, listener: Callable[[str], None]) -> None:
        """Register a listener for ids of sessions that have ended in another process."""
        self._session_listeners.append(listener)

    async def announce_session_end(self, session_id: str) -> None:
        """Tell other processes that a session has ended; without the store they do not hear it."""
        try:
            await self._store.access.announce_session_end(session_id)
        except StoreError as error:
            log.warning("end of a session not announced", extra={"error": error.full_text})

    async def refresh(self) -> None:
        """Reload if the store has changed, and write references to projects from files.

        Raises:
            StoreError: The store cannot be read; the previous data stay in use.
        """
        async with acquired(self._reading):
            version = await self._store.access.version()
            # Also after a change: another process may have deleted the references, or restored a
            # backup.
            if not self._has_written_references or version != self.snapshot.version:
                self._has_written_references = await self._write_references()
            if version == self.snapshot.version:
                return
            tokens = await self._store.access.tokens()
            permissions = tuple(await self._store.access.permissions())
            projects = await self._store.projects.list_all()
            guards = tuple(await self._store.access.guards())
            self.snapshot = AccessSnapshot(
                version=version,
                projects={project.project_id: project for project in projects},
                tokens={token.prefix: token for token in tokens},
                permissions=permissions,
                rules=tuple(rules_of_store(permissions)),
                guards=guards,
            )
        for listener in list(self._listeners):
            listener()

    async def _write_references(self) -> bool:
        """Let rows reference projects from files; return False if that failed, to retry later.

        A store that can be read but not written is still used.
        """
        try:
            await self._store.projects.add_references(self._references)
        except StoreError as error:
            if not self._is_write_failing:
                log.warning("projects cannot be written", extra={"error": error.full_text})
            self._is_write_failing = True
            return False
        self._is_write_failing = False
        return True

    async def watch(self) -> None:
        """Follow changes of the store until cancelled, and record when tokens were used."""
        is_failing, touched_at = False, anyio.current_time()
        while True:
            for session_id in await self._store.access.wait_for_change(POLL_S):
                for listener in self._session_listeners:
                    listener(session_id)
            try:
                await self.refresh()
                if anyio.current_time() - touched_at > _TOUCH_S:
                    touched_at = anyio.current_time()
                    await self.write_uses()
            except StoreError as error:
                if not is_failing:
                    log.warning(
                        "permissions cannot be read again", extra={"error": error.full_text}
                    )
                is_failing = True
            else:
                is_failing = False

    async def write_uses(self) -> None:
        """Record when tokens were used."""
        used, self._used = self._used, {}
        try:
            await self._store.access.touch_tokens(used)
        except StoreError as error:
            log.warning("use of tokens cannot be noted", extra={"error": error.full_text})


def project_table(settings: Json) -> ProjectTable:
    """Return the settings of a stored project; keys unknown to this version are ignored."""
    values = {name: value for name, value in settings.items() if name in _KEYS}
    for name in ("pinned", "servers", "read_only_allow"):
        values[name] = tuple(values.get(name, ()))
    return ProjectTable(**values)


_KEYS = frozenset(ProjectTable.__dataclass_fields__)
