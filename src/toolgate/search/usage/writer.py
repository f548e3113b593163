"""Writes the usage log in the background, as its only writer."""

from collections.abc import Sequence

from toolgate.store import BatchWriter, StoredSearch, StoredUse, UsageRepository


class UsageLogWriter(BatchWriter[StoredSearch | StoredUse]):
    """Writes searches and uses through one queue, so that their order stays."""

    def __init__(self, usage: UsageRepository, *, max_pending: int = 5_000) -> None:
        async def write(rows: Sequence[StoredSearch | StoredUse]) -> None:
            searches = [row for row in rows if isinstance(row, StoredSearch)]
            await usage.append(searches, [row for row in rows if isinstance(row, StoredUse)])

        super().__init__(write, name="usage", max_pending=max_pending)

    def forget_project(self, project_id: str) -> None:
        """Drop pending rows of a project."""
        self.forget(lambda row: row.project_id == project_id)
