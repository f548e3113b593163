"""Quarantined definitions as REST shows them."""

from dataclasses import asdict

from toolgate.catalog.scanner import QuarantinedEntry
from toolgate.types import Json

__all__ = ["quarantined_view"]


def quarantined_view(entry: QuarantinedEntry) -> Json:
    """A quarantined definition, with the lines of each difference."""
    return {
        "key": entry.key,
        "kind": entry.kind,
        "serverName": entry.server,
        "name": entry.name,
        "state": entry.state,
        "reason": entry.reason,
        "seenAt": entry.seen_at,
        "findings": [asdict(finding) for finding in entry.findings],
        "differences": [
            {"where": difference.where, "kind": difference.kind, "lines": difference.lines()}
            for difference in entry.differences
        ],
        "definition": entry.definition,
    }
