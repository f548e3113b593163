"""What a person sees of a quarantined definition, and of the versions of a tool."""

from dataclasses import dataclass
from typing import Literal

from toolgate.base import json_text
from toolgate.catalog.scanner.definition_diff import Difference, differences
from toolgate.catalog.scanner.quarantine_decision import findings_of, reason_of
from toolgate.catalog.scanner.scanner import ScanFinding
from toolgate.store import Fingerprint
from toolgate.types import EntryKind, Json, json_object


@dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """A quarantined definition, with all that a person needs to decide."""

    server: str
    """Its server."""

    kind: EntryKind
    """Its kind."""

    name: str
    """Its name on that server; for resources the URI, for templates the URI template."""

    reason: str
    """Why it is quarantined, as a sentence."""

    state: Literal["held", "rejected"]
    """`rejected` if a person has decided."""

    seen_at: str
    """When this definition was first seen; UTC, ISO 8601."""

    findings: tuple[ScanFinding, ...]
    """The scanner's findings."""

    differences: tuple[Difference, ...]
    """Differences from the accepted definition; everything, if there was none."""

    definition: Json
    """The definition as the server sent it."""

    @property
    def key(self) -> str:
        """`server:name`."""
        return f"{self.server}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class ReplacedDefinition:
    """A definition of a tool that its server has replaced."""

    seen_at: str
    """When it was first seen; UTC, ISO 8601."""

    replaced_at: str
    """When the next definition was seen; UTC, ISO 8601."""

    state: Literal["accepted", "held", "rejected"]
    """Its last state."""

    definition: Json
    """The definition as the server sent it."""

    differences: tuple[Difference, ...]
    """Changes in the next definition."""


def quarantined_entry(row: Fingerprint) -> QuarantinedEntry:
    """Return the entry of a row with texts."""
    definition = json_object(json_text.loads(row.definition))
    before = json_object(json_text.loads(row.accepted)) if row.accepted else {}
    return QuarantinedEntry(
        server=row.server,
        kind=row.kind,
        name=row.name,
        reason=reason_of(row),
        state="rejected" if row.state == "rejected" else "held",
        seen_at=row.seen_at,
        findings=findings_of(row),
        differences=differences(before, definition),
        definition=definition,
    )
