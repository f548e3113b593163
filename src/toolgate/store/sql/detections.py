"""Detected intents in SQL."""

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Integer, Select, cast, delete, func, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.detections import (
    DetectionCount,
    DetectionFilter,
    StoredDetection,
)
from toolgate.store.sql import row_mapping

_MAX_ROWS = 10_000
"""Most detections in a result; as in `DetectionFilter.limit`."""

SelectT = TypeVar("SelectT", bound="Select[*tuple[Any, ...]]")


class SqlDetections(SqlRepository):
    """Implements `DetectionRepository`."""

    async def append(self, detections: Sequence[StoredDetection]) -> None:
        """Write detections, all or nothing; existing ones are skipped."""
        if detections:
            rows = [row_mapping.detection_row(detection) for detection in detections]
            statement = self.database.insert(tables.detections).on_conflict_do_nothing()
            await self.database.execute(statement, rows)

    async def select(self, query: DetectionFilter) -> list[StoredDetection]:
        """Detections that match, newest first."""
        table = tables.detections
        statement = _filtered(select(table), query)
        statement = statement.order_by(table.c.at.desc(), table.c.detection_id.desc())
        statement = statement.limit(max(1, min(query.limit, _MAX_ROWS)))
        return await self.database.fetch_all(statement, row_mapping.detection_from)

    async def counts(self, query: DetectionFilter) -> list[DetectionCount]:
        """Number of matches by project, outcome, stage and intent, in this order."""
        table = tables.detections
        groups = (table.c.project_id, table.c.outcome, table.c.stage, table.c.intent)
        remembered = func.sum(cast(table.c.remembered, Integer)).label("remembered")
        statement = select(*groups, func.count().label("count"), remembered)
        statement = _filtered(statement, query).group_by(*groups).order_by(*groups)
        return await self.database.fetch_all(statement, row_mapping.detection_count_from)

    async def clear(self, project_id: str) -> int:
        """Delete the detections of a project. Returns their number."""
        table = tables.detections
        return await self.database.execute(
            delete(table).where(table.c.project_id == escape_text(project_id))
        )


def _filtered(statement: SelectT, query: DetectionFilter) -> SelectT:
    table = tables.detections
    if query.project_id is not None:
        statement = statement.where(table.c.project_id == escape_text(query.project_id))
    if query.outcomes:
        statement = statement.where(table.c.outcome.in_(map(escape_text, query.outcomes)))
    if query.since:
        statement = statement.where(table.c.at >= query.since)
    if query.below is not None:
        statement = statement.where(table.c.confidence < query.below)
    return statement
