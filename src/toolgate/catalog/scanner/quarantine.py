"""Quarantine: which definitions were accepted, and which tools await a decision.

A server that changes a tool after people have come to trust it ("rug pull") is the attack that a
look at the first definition cannot see. So the accepted definition is kept, and a changed one is
looked over against it.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, cast

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.catalog.scanner.definition_diff import Difference, differences, new_parameters
from toolgate.catalog.scanner.scanner import OtherServersTools, ScanFinding, Scanner, is_suspicious
from toolgate.errors import StoreError, UnknownToolError
from toolgate.store import Store, ToolFingerprint
from toolgate.types import Json, json_object

__all__ = ["Quarantine", "QuarantineMode", "QuarantinedTool", "ReplacedDefinition"]

log = logging.getLogger(__name__)

QuarantineMode = Literal["off", "suspicious", "changed", "new"]
"""What is held back: nothing; what the scanner finds suspicious; every change, too; every new tool,
too."""

# Chosen.
_NEW_PARAMETER: Final = 0.4
_NEEDED: Final = 0.7
"""Weights of parameters that came with a change, all optional or some required: alone they are
growth, beside another finding they are not."""


@dataclass(frozen=True, kw_only=True)
class QuarantinedTool:
    """A quarantined tool, with all that a person needs to decide."""

    server: str
    """Its server."""

    tool: str
    """Its name on that server."""

    reason: str
    """Why, as a sentence."""

    state: Literal["held", "rejected"]
    """Whether somebody has said no already."""

    seen_at: str
    """When this definition was seen first; UTC, ISO 8601."""

    findings: tuple[ScanFinding, ...]
    """What the scanner says."""

    differences: tuple[Difference, ...]
    """Against the definition that was accepted; everything, where none was."""

    definition: Json
    """As the server sent it."""

    @property
    def key(self) -> str:
        """`server:tool`."""
        return f"{self.server}:{self.tool}"


@dataclass(frozen=True, kw_only=True)
class ReplacedDefinition:
    """A definition of a tool that its server has replaced."""

    seen_at: str
    """When it was seen first; UTC, ISO 8601."""

    replaced_at: str
    """When the next one came; UTC, ISO 8601."""

    state: Literal["accepted", "held", "rejected"]
    """What held for it last."""

    definition: Json
    """As the server sent it."""

    differences: tuple[Difference, ...]
    """What the next one changed."""


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
            store: Where tools are kept as they were seen.
            project_id: Of the gateway.
            mode: Says what is held back now; settings may change.
            scanner: Its rules; None: those that come with Toolgate.
        """
        self._store = store
        self._project_id = project_id
        self._mode = mode
        self._scanner = scanner
        self._rows_by_server: dict[str, dict[str, ToolFingerprint]] | None = None
        self._lock = asyncio.Lock()

    async def inspect(self, server: str, tools: Sequence[Json]) -> Mapping[str, str]:
        """Which tools of a listing to quarantine: name and reason.

        What cannot be read from the store counts as never seen, and is looked over.

        Raises:
            StoreError: A tool has changed, and what was accepted of it cannot be read.
        """
        async with self._lock:
            rows = (await self._all()).setdefault(server, {})
            if self._mode() == "off":
                return {}
            listed = {str(tool.get("name") or ""): tool for tool in tools}
            new = {name: tool for name, tool in listed.items() if _differs(rows.get(name), tool)}
            if new:
                rows.update(await self._judged_elsewhere(server, new))
                new = {name: tool for name, tool in new.items() if _differs(rows.get(name), tool)}
            if new:
                before, around = await self._with_texts(server, rows, new), self._neighbours()
                seen = await asyncio.to_thread(self._judge_all, server, before, new, around)
                is_kept = await self._save(seen, changed={row for row in new if row in rows})
                rows.update({row.tool: _without_texts(row) if is_kept else row for row in seen})
            return {name: _reason(rows[name]) for name in listed if self._holds(rows[name])}

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
                if row.tool in rows and _is_decided_anew(rows[row.tool], row)
            ]
            for row in decided:  # once all are read: a failure in between adopts none
                everything[row.server][row.tool] = _without_texts(row)
        return frozenset(row.server for row in decided)

    async def list_quarantined(self) -> list[QuarantinedTool]:
        """All quarantined tools, by server and name."""
        async with self._lock:
            everything = await self._all()
            rows = [row for of in everything.values() for row in of.values() if self._holds(row)]
        return [
            _quarantined_tool(row) for row in sorted(rows, key=lambda row: (row.server, row.tool))
        ]

    async def decide(self, server: str, tool: str, *, accept: bool, by: str) -> QuarantinedTool:
        """Accept a tool or keep it quarantined, until it changes again.

        Raises:
            UnknownToolError: No such tool is held back.
            StoreError: The decision could not be kept; nothing has changed.
        """
        async with self._lock:
            rows = (await self._all()).get(server, {})
            row = rows.get(tool)
            if row is None or row.state == "accepted":
                raise UnknownToolError(
                    f"No tool {tool!r} of the server {server!r} is quarantined.",
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
            rows[tool] = _without_texts(decided)
            return _quarantined_tool(row)

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
                log.warning("tools seen not forgotten", extra={"error": error.full_text})

    def _holds(self, row: ToolFingerprint) -> bool:
        """A decision holds in every mode but `off`; the modes differ in what they ask about."""
        return row.state != "accepted" and self._mode() != "off"

    async def _all(self) -> dict[str, dict[str, ToolFingerprint]]:
        if self._rows_by_server is None:
            try:
                rows = await self._store.catalog.fingerprints(self._project_id)
            except StoreError as error:
                log.warning("tools seen cannot be read", extra={"error": error.full_text})
                return {}
            self._rows_by_server = {}
            for row in rows:
                self._rows_by_server.setdefault(row.server, {})[row.tool] = _without_texts(row)
        return self._rows_by_server

    async def _judged_elsewhere(
        self, server: str, tools: Mapping[str, Json]
    ) -> dict[str, ToolFingerprint]:
        """What the store has of exactly these definitions: another process listed them first."""
        try:
            rows = await self._store.catalog.fingerprints(self._project_id, server)
        except StoreError as error:
            log.warning("tools seen cannot be read", extra={"error": error.full_text})
            return {}
        return {
            row.tool: _without_texts(row)
            for row in rows
            if row.tool in tools and not _differs(row, tools[row.tool])
        }

    async def _with_texts(
        self, server: str, rows_by_tool: Mapping[str, ToolFingerprint], tools: Collection[str]
    ) -> Mapping[str, ToolFingerprint]:
        """What is known of a server, with the texts of those of these tools that were accepted."""
        if not any(name in rows_by_tool and rows_by_tool[name].accepted_digest for name in tools):
            return rows_by_tool
        rows = await self._store.catalog.fingerprints(self._project_id, server)
        whole = {name: row for name, row in rows_by_tool.items() if row.accepted}
        return {**rows_by_tool, **{row.tool: row for row in rows}, **whole}

    def _neighbours(self) -> OtherServersTools:
        everything = self._rows_by_server or {}
        return OtherServersTools.of(
            (row.server, row.tool) for of in everything.values() for row in of.values()
        )

    async def _save(self, rows: Sequence[ToolFingerprint], *, changed: Collection[str]) -> bool:
        """Whether they are in the store now."""
        try:
            await self._store.catalog.save_fingerprints(rows, changed=changed)
        except StoreError as error:
            log.warning("tools seen not stored", extra={"error": error.full_text})
            return False
        return True

    def _judge_all(
        self,
        server: str,
        rows: Mapping[str, ToolFingerprint],
        tools: Mapping[str, Json],
        around: OtherServersTools,
    ) -> list[ToolFingerprint]:
        if self._scanner is None:
            self._scanner = Scanner()
        return [
            self._judge(self._scanner, server, rows.get(name), name, tool, around)
            for name, tool in tools.items()
        ]

    def _judge(
        self,
        scanner: Scanner,
        server: str,
        old: ToolFingerprint | None,
        name: str,
        tool: Json,
        around: OtherServersTools,
    ) -> ToolFingerprint:
        body = json_text.dumps(tool)
        digest = _digest(body)
        try:
            findings = scanner.scan(tool, server=server, neighbours=around)
        except Exception as error:  # what makes the scanner fail may be made for that
            log.exception("a tool could not be looked over", extra={"server": server, "tool": name})
            findings = (_not_read(error),)
        before = old.accepted if old is not None else b""
        if before:
            findings = (*findings, *_growth(json_object(json_text.loads(before)), tool))
        mode = self._mode()
        hold = (
            mode == "new"
            or (mode == "changed" and bool(before))
            or is_suspicious(findings)
            # What was held and changes again is no first sight: somebody has to look at it still.
            or (old is not None and old.state != "accepted" and not before and bool(findings))
        )
        if old is not None and digest == old.accepted_digest:
            hold = False  # It is again as it was accepted.
        return ToolFingerprint(
            project_id=self._project_id,
            server=server,
            tool=name,
            digest=digest,
            definition=body,
            accepted_digest=(old.accepted_digest if old else "") if hold else digest,
            accepted=before if hold else body,
            state="held" if hold else "accepted",
            findings=json.dumps([asdict(finding) for finding in findings], ensure_ascii=False),
            seen_at=utc_now(),
        )


def _without_texts(row: ToolFingerprint) -> ToolFingerprint:
    """The row as it is remembered: of thousands of accepted tools the digests do."""
    return replace(row, definition=b"", accepted=b"") if row.state == "accepted" else row


def _not_read(error: Exception) -> ScanFinding:
    return ScanFinding(
        rule="not-read",
        where="",
        reason="It could not be looked over.",
        excerpt=type(error).__name__,
    )


def _is_decided_anew(old: ToolFingerprint, stored: ToolFingerprint) -> bool:
    """Whether the store has another decision about the definition that is quarantined here."""
    return (
        old.state != "accepted"
        and stored.digest == old.digest
        and (stored.state, stored.decided_at) != (old.state, old.decided_at)
    )


def _differs(row: ToolFingerprint | None, tool: Json) -> bool:
    return row is None or row.digest != _digest(json_text.dumps(tool))


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _growth(before: Json, after: Json) -> list[ScanFinding]:
    """Parameters that a tool did not have when it was accepted."""
    added = new_parameters(before, after)
    if not added:
        return []
    required = json_object(after.get("inputSchema")).get("required")
    needed = [name for name in added if isinstance(required, list) and name in required]
    return [
        ScanFinding(
            rule="new-parameter",
            where=f"inputSchema.properties.{(needed or list(added))[0]}",
            reason=f"It has new parameters: {', '.join(map(repr, added[:8]))}.",
            excerpt=", ".join(added)[:160],
            weight=_NEEDED if needed else _NEW_PARAMETER,
        )
    ]


def _reason(row: ToolFingerprint) -> str:
    if row.state == "rejected":
        return f"{row.decided_by or 'Somebody'} said no to it."
    findings = _findings(row)
    if findings:
        return findings[0].reason
    return "It has changed." if row.accepted else "It is new."


def _findings(row: ToolFingerprint) -> tuple[ScanFinding, ...]:
    return tuple(
        ScanFinding(**finding) for finding in cast("list[dict[str, Any]]", json.loads(row.findings))
    )


def _quarantined_tool(row: ToolFingerprint) -> QuarantinedTool:
    definition = json_object(json_text.loads(row.definition))
    before = json_object(json_text.loads(row.accepted)) if row.accepted else {}
    return QuarantinedTool(
        server=row.server,
        tool=row.tool,
        reason=_reason(row),
        state="rejected" if row.state == "rejected" else "held",
        seen_at=row.seen_at,
        findings=_findings(row),
        differences=differences(before, definition),
        definition=definition,
    )
