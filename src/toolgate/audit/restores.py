"""Which signatures of the audit chain count after the store was restored from a backup.

A restore starts a new branch of the chain: different records follow those of the backup. Anchors
signed on the abandoned branch stay in the file of anchors but are no longer expected in the store.
Only the owner of the key can sign a restore.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from toolgate.store import AuditAnchor
from toolgate.types import json_object


@dataclass(frozen=True, kw_only=True)
class AuditRestore:
    """A restore of the audit log from a backup."""

    file: str
    """Path of the backup."""

    at: str
    """Time of the restore; UTC, ISO 8601."""

    through: int
    """Position of the last record in the backup; 0 if it had none."""


@dataclass(frozen=True, kw_only=True)
class BranchStart:
    """The point at which a branch of the chain starts."""

    restore: AuditRestore
    """The restore that started it."""

    parent: str
    """Time of the restore that started the branch of the backup; empty for the first branch."""

    @classmethod
    def make(cls, *, file: str, through: int, parent: str) -> "BranchStart":
        """The start of a branch that is about to be signed."""
        return cls(restore=AuditRestore(file=file, at="", through=through), parent=parent)

    @classmethod
    def of(cls, anchor: AuditAnchor) -> "BranchStart":
        """Read the start of a branch from a signed restore."""
        detail: Any = json_object(json.loads(anchor.detail))
        restore = AuditRestore(file=detail["file"], at=anchor.at, through=detail["through"])
        return cls(restore=restore, parent=detail["parent"])

    def text(self) -> str:
        """The signed text, besides position and time."""
        restore = self.restore
        fields = {"file": restore.file, "through": restore.through, "parent": self.parent}
        return json.dumps(fields)


def branch_starts(anchors: Collection[AuditAnchor]) -> list[BranchStart]:
    """The restores that led to the current chain, newest first.

    Args:
        anchors: Valid anchors only.
    """
    starts = {anchor.at: BranchStart.of(anchor) for anchor in anchors if anchor.kind == "restored"}
    path: list[BranchStart] = []
    at = max(starts, default="")
    while at in starts:
        path.append(starts.pop(at))
        at = path[-1].parent
    return path


def expected_anchors(anchors: Collection[AuditAnchor]) -> set[AuditAnchor]:
    """The anchors that the current chain must match: those of its branch and its ancestors.

    Args:
        anchors: Valid anchors only.
    """
    restored_at = sorted(anchor.at for anchor in anchors if anchor.kind == "restored")
    expected: set[AuditAnchor] = set()
    through: float = float("inf")
    path = branch_starts(anchors)
    for began, start in [*((start.restore.at, start) for start in path), ("", None)]:
        ended = min((at for at in restored_at if at > began), default="~")
        expected.update(
            anchor
            for anchor in anchors
            if anchor.seq <= through
            and (anchor.at == began if anchor.kind == "restored" else began < anchor.at <= ended)
        )
        if start is not None:
            through = min(through, start.restore.through)
    return expected
