"""What a person sees of a quarantined definition, and of the versions of a tool."""

from dataclasses import dataclass
from typing import Literal

from toolgate.base import json_text
from toolgate.catalog.scanner.definition_diff import Difference, differences
from toolgate.catalog.scanner.judgement import findings_of, reason_of
from toolgate.catalog.scanner.scanner import ScanFinding
from toolgate.store import Fingerprint
from toolgate.types import EntryKind, Json, json_object

__all__ = ["QuarantinedEntry", "ReplacedDefinition", "quarantined_entry"]


@dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """A quarantined definition, with all that a person needs to decide."""

    server: str
    """Its server."""

    kind: EntryKind
    """What it is the definition of."""

    name: str
    """Its name on that server; for resources the URI, for templates the URI template."""

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
        """`server:name`."""
        return f"{self.server}:{self.name}"


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


def quarantined_entry(row: Fingerprint) -> QuarantinedEntry:
    """The entry of a row with its texts."""
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
