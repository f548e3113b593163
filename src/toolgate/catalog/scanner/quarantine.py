"""Quarantine: which definitions were accepted, and which await a decision.

A server that changes a definition after people have come to trust it ("rug pull") is the attack
that a look at the first definition cannot see. So the accepted definition is kept, and a changed
one is looked over against it. That holds for all that a model reads of a server: its tools,
prompts, resources, resource templates and instructions.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.catalog.listed_definitions import EntryId, listed_definitions
from toolgate.catalog.scanner.definition_diff import differences
from toolgate.catalog.scanner.judgement import (
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

__all__ = ["Quarantine"]

log = logging.getLogger(__name__)


class Quarantine:
    """Inspects what servers list, and remembers definitions and decisions."""

    def __init__(
        self,
        store: Store,
        *,
        project_id: str,
        mode: Callable[[], QuarantineMode],
        scanner: Scanner | None = None,
    ) -> None:
        """Make one; it reads the store when it is first asked.

        Args:
            store: Where definitions are kept as they were seen.
            project_id: Of the gateway.
            mode: Says what is held back now; settings may change.
            scanner: Its rules; None: those that come with Toolgate.
        """
        self._store = store
        self._project_id = project_id
        self._mode = mode
        self._scanner = scanner
        self._rows_by_server: dict[str, dict[EntryId, Fingerprint]] | None = None
        self._has_tools_only = False
        """Whether the store is of a version that recorded tools alone."""
        self._lock = asyncio.Lock()

    async def inspect(
        self, server: str, listing: Listing, *, is_stored: bool = False
    ) -> Mapping[EntryId, str]:
        """Which definitions of a listing to quarantine, each with the reason.

        What cannot be read from the store counts as never seen, and is looked over.

        Args:
            server: Whose listing it is.
            listing: What it offers.
            is_stored: Whether an earlier run stored the listing; then clients may have seen it.

        Raises:
            StoreError: A definition has changed, and what was accepted of it cannot be read.
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
        """Adopt decisions that other processes made; gives the servers that they are about.

        Raises:
            StoreError: They cannot be read; a later call reads them again.
        """
        async with self._lock:
            everything = await self._all()
            decided = [
                row
                for server, rows in everything.items()
                if any(row.state != "accepted" for row in rows.values())  # nobody decides on others
                for row in await self._store.catalog.fingerprints(self._project_id, server)
                if _id_of(row) in rows and _is_decided_anew(rows[_id_of(row)], row)
            ]
            for row in decided:  # once all are read: a failure in between adopts none
                everything[row.server][_id_of(row)] = without_texts(row)
        return frozenset(row.server for row in decided)

    async def list_quarantined(self, server: str | None = None) -> list[QuarantinedEntry]:
        """Quarantined definitions by server, kind and name; None: of all servers."""
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
        """Accept a definition or keep it quarantined, until it changes again.

        Raises:
            UnknownEntryError: No such definition is held back.
            StoreError: The decision could not be kept; nothing has changed.
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
        """What a tool was before, the last first, each with what is different from the next.

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
        """A server is removed: nothing of it is known any more."""
        async with self._lock:
            (await self._all()).pop(server, None)
            try:
                await self._store.catalog.delete_fingerprints(self._project_id, server)
            except StoreError as error:
                log.warning("definitions seen not forgotten", extra={"error": error.full_text})

    def _holds(self, row: Fingerprint) -> bool:
        """A decision holds in every mode but `off`; the modes differ in what they ask about."""
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
        """What the store has of exactly these definitions: another process listed them first."""
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
        """What is known of a server, with the texts of those of these that were accepted."""
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

    async def _save(self, rows: Sequence[Fingerprint], *, changed: Collection[str]) -> bool:
        """Whether they are in the store now."""
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
    """Whether the store has another decision about the definition that is quarantined here."""
    return (
        old.state != "accepted"
        and stored.digest == old.digest
        and (stored.state, stored.decided_at) != (old.state, old.decided_at)
    )
