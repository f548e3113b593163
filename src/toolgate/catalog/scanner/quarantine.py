"""Quarantine: which definitions were accepted, and which await a decision.

In the "rug pull" attack, a server changes a definition after people have come to trust it, which
an inspection of the first definition cannot detect. So the accepted definition is stored, and a
changed one is compared with it. That applies to everything that a model reads of a server: its
tools, prompts, resources, resource templates and instructions.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.catalog.listed_definitions import EntryId, listed_definitions
from toolgate.catalog.scanner.definition_diff import differences
from toolgate.catalog.scanner.quarantine_decision import (
    Judge,
    QuarantineMode,
    differs,
    reason_of,
    without_texts,
)
from toolgate.catalog.scanner.quarantined_entry import (
    QuarantinedEntry,
    ReplacedDefinition,
    quarantined_entry,
)
from toolgate.catalog.scanner.scanner import OtherServersTools, Scanner
from toolgate.errors import StoreError, UnknownEntryError
from toolgate.store import Fingerprint, Store
from toolgate.types import EntryKind, Json, json_object
from toolgate.upstream import Listing

log = logging.getLogger(__name__)


class Quarantine:
    """Inspects what servers list, and stores definitions and decisions."""

    def __init__(
        self,
        store: Store,
        *,
        project_id: str,
        mode: Callable[[], QuarantineMode],
        scanner: Scanner | None = None,
    ) -> None:
        """Create a quarantine; it reads the store on first use.

        Args:
            store: Stores the last seen definitions.
            project_id: Project of the gateway.
            mode: Returns what is quarantined now; settings may change.
            scanner: The scanner; None: one with the rules that ship with Toolgate.
        """
        self._store = store
        self._project_id = project_id
        self._mode = mode
        self._scanner = scanner
        self._rows_by_server: dict[str, dict[EntryId, Fingerprint]] | None = None
        self._has_tools_only = False
        """Whether the store was written by a version that recorded only tools."""
        self._lock = asyncio.Lock()

    async def inspect(
        self, server: str, listing: Listing, *, is_stored: bool = False
    ) -> Mapping[EntryId, str]:
        """Return the definitions of a listing to quarantine, each with the reason.

        Definitions that cannot be read from the store count as new, and are scanned.

        Args:
            server: The server.
            listing: Its listing.
            is_stored: Whether an earlier run stored the listing, so that clients may have seen it.

        Raises:
            StoreError: A definition has changed, and the accepted one cannot be read.
        """
        async with self._lock:
            rows = (await self._all()).setdefault(server, {})
            if self._mode() == "off":
                return {}
            listed = listed_definitions(listing)
            new = {entry: body for entry, body in listed.items() if differs(rows.get(entry), body)}
            if new:
                rows.update(await self._judged_elsewhere(server, new))
                new = {entry: body for entry, body in new.items() if differs(rows.get(entry), body)}
            if new:
                before = await self._with_texts(server, rows, new)
                was_in_use = is_stored and self._has_tools_only
                seen = await asyncio.to_thread(self._judge_all, server, before, new, was_in_use)
                changed = {name for kind, name in new if kind == "tool" and ("tool", name) in rows}
                is_kept = await self._save(seen, changed=changed)
                rows.update({_id_of(row): without_texts(row) if is_kept else row for row in seen})
            return {entry: reason_of(rows[entry]) for entry in listed if self._holds(rows[entry])}

    async def refresh(self) -> frozenset[str]:
        """Adopt decisions that other processes made. Returns the affected servers.

        Raises:
            StoreError: They cannot be read; a later call reads them again.
        """
        async with self._lock:
            everything = await self._all()
            decided = [
                row
                for server, rows in everything.items()
                if any(row.state != "accepted" for row in rows.values())  # only these are decided
                for row in await self._store.catalog.fingerprints(self._project_id, server)
                if _id_of(row) in rows and _is_decided_anew(rows[_id_of(row)], row)
            ]
            for row in decided:  # after reading all: a failure adopts none
                everything[row.server][_id_of(row)] = without_texts(row)
        return frozenset(row.server for row in decided)

    async def list_quarantined(self, server: str | None = None) -> list[QuarantinedEntry]:
        """Return quarantined definitions by server, kind and name; None: of all servers."""
        async with self._lock:
            everything = await self._all()
            rows = [
                row
                for name, of in everything.items()
                if server is None or name == server
                for row in of.values()
                if self._holds(row)
            ]
        return [
            quarantined_entry(row)
            for row in sorted(rows, key=lambda row: (row.server, row.kind, row.name))
        ]

    async def decide(
        self, server: str, kind: EntryKind, name: str, *, accept: bool, by: str
    ) -> QuarantinedEntry:
        """Accept a definition or reject it, until it changes again.

        Raises:
            UnknownEntryError: No such definition is quarantined.
            StoreError: The decision could not be stored; nothing has changed.
        """
        async with self._lock:
            rows = (await self._all()).get(server, {})
            row = rows.get((kind, name))
            if row is None or row.state == "accepted":
                raise UnknownEntryError(
                    f"No {kind} {name!r:.200} of the server {server!r} is quarantined.",
                    hint="See what is: toolgate servers approve",
                )
            decided = replace(
                row,
                state="accepted" if accept else "rejected",
                accepted=row.definition if accept else row.accepted,
                accepted_digest=row.digest if accept else row.accepted_digest,
                decided_at=utc_now(),
                decided_by=by,
            )
            await self._store.catalog.save_fingerprints([decided])
            rows[kind, name] = without_texts(decided)
            return quarantined_entry(row)

    async def versions(self, server: str, tool: str, current: Json) -> list[ReplacedDefinition]:
        """Return the previous definitions of a tool, latest first, each with the following changes.

        Args:
            server: Its server.
            tool: Its name on that server.
            current: Its definition as callers see it.

        Raises:
            StoreError: They cannot be read.
        """
        versions: list[ReplacedDefinition] = []
        after = current
        for row in await self._store.catalog.tool_versions(self._project_id, server, tool):
            before = json_object(json_text.loads(row.definition))
            changes = differences(before, after)
            if changes:
                versions.append(
                    ReplacedDefinition(
                        seen_at=row.seen_at,
                        replaced_at=row.replaced_at,
                        state=row.state,
                        definition=before,
                        differences=changes,
                    )
                )
            after = before
        return versions

    async def forget(self, server: str) -> None:
        """Delete everything about a removed server."""
        async with self._lock:
            (await self._all()).pop(server, None)
            try:
                await self._store.catalog.delete_fingerprints(self._project_id, server)
            except StoreError as error:
                log.warning("definitions seen not forgotten", extra={"error": error.full_text})

    def _holds(self, row: Fingerprint) -> bool:
        """Whether a definition is quarantined: decisions hold in every mode but `off`."""
        return row.state != "accepted" and self._mode() != "off"

    async def _all(self) -> dict[str, dict[EntryId, Fingerprint]]:
        if self._rows_by_server is None:
            try:
                rows = await self._store.catalog.fingerprints(self._project_id)
            except StoreError as error:
                log.warning("definitions seen cannot be read", extra={"error": error.full_text})
                return {}
            self._rows_by_server = {}
            for row in rows:
                self._rows_by_server.setdefault(row.server, {})[_id_of(row)] = without_texts(row)
            self._has_tools_only = bool(rows) and all(row.kind == "tool" for row in rows)
        return self._rows_by_server

    async def _judged_elsewhere(
        self, server: str, definitions: Mapping[EntryId, Json]
    ) -> dict[EntryId, Fingerprint]:
        """Return stored rows of exactly these definitions, which another process saw first."""
        try:
            rows = await self._store.catalog.fingerprints(self._project_id, server)
        except StoreError as error:
            log.warning("definitions seen cannot be read", extra={"error": error.full_text})
            return {}
        return {
            _id_of(row): without_texts(row)
            for row in rows
            if _id_of(row) in definitions and not differs(row, definitions[_id_of(row)])
        }

    async def _with_texts(
        self,
        server: str,
        rows_by_entry: Mapping[EntryId, Fingerprint],
        entries: Collection[EntryId],
    ) -> Mapping[EntryId, Fingerprint]:
        """Return the rows of a server, with texts for those of these entries that were accepted."""
        if not any(
            entry in rows_by_entry and rows_by_entry[entry].accepted_digest for entry in entries
        ):
            return rows_by_entry
        rows = await self._store.catalog.fingerprints(self._project_id, server)
        whole = {entry: row for entry, row in rows_by_entry.items() if row.accepted}
        return {**rows_by_entry, **{_id_of(row): row for row in rows}, **whole}

    def _neighbours(self) -> OtherServersTools:
        everything = self._rows_by_server or {}
        return OtherServersTools.of(
            (row.server, row.name)
            for of in everything.values()
            for row in of.values()
            if row.kind == "tool"
        )

    def _accepted_elsewhere(self, server: str) -> frozenset[str]:
        everything = self._rows_by_server or {}
        return frozenset(
            row.digest
            for other, of in everything.items()
            if other != server
            for row in of.values()
            if row.state == "accepted"
        )

    async def _save(self, rows: Sequence[Fingerprint], *, changed: Collection[str]) -> bool:
        """Store rows. Returns whether that succeeded."""
        try:
            await self._store.catalog.save_fingerprints(rows, changed=changed)
        except StoreError as error:
            log.warning("definitions seen not stored", extra={"error": error.full_text})
            return False
        return True

    def _judge_all(
        self,
        server: str,
        rows: Mapping[EntryId, Fingerprint],
        definitions: Mapping[EntryId, Json],
        was_in_use: bool,  # noqa: FBT001 - passed through a thread
    ) -> list[Fingerprint]:
        if self._scanner is None:
            self._scanner = Scanner()
        judge = Judge(
            self._scanner,
            project_id=self._project_id,
            server=server,
            neighbours=self._neighbours(),
            accepted_elsewhere=self._accepted_elsewhere(server),
            mode=self._mode(),
            was_in_use=was_in_use,
        )
        return [
            judge.fingerprint(entry, definition, rows.get(entry))
            for entry, definition in definitions.items()
        ]


def _id_of(row: Fingerprint) -> EntryId:
    return row.kind, row.name


def _is_decided_anew(old: Fingerprint, stored: Fingerprint) -> bool:
    """Whether the store has a new decision about a definition that is quarantined here."""
    return (
        old.state != "accepted"
        and stored.digest == old.digest
        and (stored.state, stored.decided_at) != (old.state, old.decided_at)
    )
