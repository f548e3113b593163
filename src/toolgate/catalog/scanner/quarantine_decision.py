"""Decides whether a new or changed definition is quarantined."""

import hashlib
import json
import logging
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any, Final, Literal, cast

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.catalog.listed_definitions import EntryId
from toolgate.catalog.scanner.definition_diff import new_parameters
from toolgate.catalog.scanner.scanner import OtherServersTools, ScanFinding, Scanner, is_suspicious
from toolgate.store import Fingerprint
from toolgate.types import Json, json_object

log = logging.getLogger(__name__)

QuarantineMode = Literal["off", "suspicious", "changed", "new"]
"""What is quarantined: nothing; suspicious definitions; all changed ones, too; all new ones,
too."""

# Both chosen.
_NEW_PARAMETER: Final = 0.4
_NEEDED: Final = 0.7
"""Weights of new parameters in a change, if all are optional or some are required: on their own
they are normal growth, with another finding they are suspicious."""


class Judge:
    """Compares the definitions of one server with those that were accepted."""

    def __init__(
        self,
        scanner: Scanner,
        *,
        project_id: str,
        server: str,
        neighbours: OtherServersTools,
        accepted_elsewhere: Collection[str],
        mode: QuarantineMode,
        was_in_use: bool = False,
    ) -> None:
        """Create a judge.

        Args:
            scanner: Finds suspicious definitions.
            project_id: Project of the gateway.
            server: Server of the definitions.
            neighbours: The tools of all servers.
            accepted_elsewhere: Digests of the definitions in use of other servers. The same text
                of another server, such as the same program for a second account, is no more
                suspicious than that one.
            mode: What is quarantined.
            was_in_use: Whether clients could see all of them before Toolgate recorded any; those
                that are not suspicious stay in use.
        """
        self._scanner = scanner
        self._project_id = project_id
        self._server = server
        self._neighbours = neighbours
        self._accepted_elsewhere = frozenset(accepted_elsewhere)
        self._mode: QuarantineMode = mode
        self._was_in_use = was_in_use

    def fingerprint(self, entry: EntryId, definition: Json, old: Fingerprint | None) -> Fingerprint:
        """Return the row of a new or changed definition, with its state and findings."""
        kind, name = entry
        body = json_text.dumps(definition)
        digest = _digest(definition)
        before = old.accepted if old is not None else b""
        findings = self._findings(entry, definition, before)
        is_known = not self._accepted_elsewhere.isdisjoint(_digests(definition))
        hold = self._is_to_hold(entry, old, findings, is_known=is_known)
        if old is not None and (
            digest == old.accepted_digest
            or (before and digest == _digest(json_object(json_text.loads(before))))
        ):
            hold = False  # it equals the accepted one again
        return Fingerprint(
            project_id=self._project_id,
            server=self._server,
            kind=kind,
            name=name,
            digest=digest,
            definition=body,
            accepted_digest=(old.accepted_digest if old else "") if hold else digest,
            accepted=before if hold else body,
            state="held" if hold else "accepted",
            findings=json.dumps([asdict(finding) for finding in findings], ensure_ascii=False),
            seen_at=utc_now(),
        )

    def _findings(self, entry: EntryId, definition: Json, before: bytes) -> tuple[ScanFinding, ...]:
        try:
            findings = self._scanner.scan(
                definition, server=self._server, neighbours=self._neighbours
            )
        except Exception as error:  # input may be crafted to make the scanner fail
            kind, name = entry
            log.exception(
                "a definition could not be scanned",
                extra={"server": self._server, "kind": kind, "entry": name},
            )
            findings = (_not_read(error),)
        if before:
            findings = (*findings, *_growth(json_object(json_text.loads(before)), definition))
        return findings

    def _is_to_hold(
        self,
        entry: EntryId,
        old: Fingerprint | None,
        findings: tuple[ScanFinding, ...],
        *,
        is_known: bool,
    ) -> bool:
        kind = entry[0]
        if kind == "instructions":
            # Models trust them most, and honest ones give orders, too: no scan can distinguish
            # them.
            return True
        is_accepted = old is not None and bool(old.accepted)
        was_in_use = self._was_in_use and kind != "tool" and old is None
        return (
            (self._mode == "new" and not was_in_use)
            or (self._mode == "changed" and is_accepted)
            or (is_suspicious(findings) and not is_known)
            # A quarantined definition that changes is not new: a person must still look at it.
            or (old is not None and old.state != "accepted" and not is_accepted and bool(findings))
        )


def differs(row: Fingerprint | None, definition: Json) -> bool:
    """Whether a definition differs from the last seen one."""
    return row is None or row.digest not in _digests(definition)


def reason_of(row: Fingerprint) -> str:
    """Return why a definition is quarantined, as a sentence."""
    if row.state == "rejected":
        return f"{row.decided_by or 'Somebody'} rejected it."
    findings = findings_of(row)
    if findings:
        return findings[0].reason
    if row.kind == "instructions":
        return "They have changed." if row.accepted else "They are not approved yet."
    return "It has changed." if row.accepted else "It is new."


def findings_of(row: Fingerprint) -> tuple[ScanFinding, ...]:
    """Return the scanner's findings about a definition."""
    return tuple(
        ScanFinding(**finding) for finding in cast("list[dict[str, Any]]", json.loads(row.findings))
    )


def without_texts(row: Fingerprint) -> Fingerprint:
    """Return the row for the cache: digests suffice for thousands of accepted definitions."""
    return replace(row, definition=b"", accepted=b"") if row.state == "accepted" else row


def _digest(definition: Json) -> str:
    # Some servers send the members of an object in another order each time.
    return hashlib.sha256(json_text.dumps_sorted(definition)).hexdigest()


def _digests(definition: Json) -> tuple[str, str]:
    """The digest of a definition, and the one in rows of versions that heeded that order."""
    return _digest(definition), hashlib.sha256(json_text.dumps(definition)).hexdigest()


def _not_read(error: Exception) -> ScanFinding:
    return ScanFinding(
        rule="not-read",
        where="",
        reason="It could not be scanned.",
        excerpt=type(error).__name__,
    )


def _growth(before: Json, after: Json) -> list[ScanFinding]:
    """Return findings for parameters that a tool did not have when it was accepted."""
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
