"""Which signatures of the audit count after the store was restored from a backup.

A restore begins a branch of the chain: the records of the backup go on with other records than
those that were written after the backup. What was signed on the abandoned branch stays in the file
of signatures, and is not expected in the store. Only who has the key can sign a restore.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from toolgate.store import AuditAnchor
from toolgate.types import json_object

__all__ = ["AuditRestore", "BranchStart", "branch_starts", "expected_anchors"]


@dataclass(frozen=True, kw_only=True)
class AuditRestore:
    """A restore of the audit from a backup."""

    file: str
    """Path of the backup."""

    at: str
    """When; UTC, ISO 8601."""

    through: int
    """Position of the last record of the backup; 0: it had none."""


@dataclass(frozen=True, kw_only=True)
class BranchStart:
    """Where a branch of the chain leaves another one."""

    restore: AuditRestore
    """What began it."""

    parent: str
    """Time of the restore that began the branch of the backup; empty: it was the first branch."""

    @classmethod
    def make(cls, *, file: str, through: int, parent: str) -> "BranchStart":
        """The start of a branch that is about to be signed."""
        return cls(restore=AuditRestore(file=file, at="", through=through), parent=parent)

    @classmethod
    def of(cls, anchor: AuditAnchor) -> "BranchStart":
        """What a signed restore says."""
        detail: Any = json_object(json.loads(anchor.detail))
        restore = AuditRestore(file=detail["file"], at=anchor.at, through=detail["through"])
        return cls(restore=restore, parent=detail["parent"])

    def text(self) -> str:
        """What is signed of it, besides position and time."""
        restore = self.restore
        fields = {"file": restore.file, "through": restore.through, "parent": self.parent}
        return json.dumps(fields)


def branch_starts(anchors: Collection[AuditAnchor]) -> list[BranchStart]:
    """The restores that led to the present chain, the last one first.

    Args:
        anchors: Genuine signatures; others must be left out before.
    """
    starts = {anchor.at: BranchStart.of(anchor) for anchor in anchors if anchor.kind == "restored"}
    path: list[BranchStart] = []
    at = max(starts, default="")
    while at in starts:
        path.append(starts.pop(at))
        at = path[-1].parent
    return path


def expected_anchors(anchors: Collection[AuditAnchor]) -> set[AuditAnchor]:
    """The signatures that the present chain has to meet: those of its branch and its ancestors.

    Args:
        anchors: Genuine signatures; others must be left out before.
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
