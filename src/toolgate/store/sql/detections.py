"""What messages were taken for, in SQL."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Integer, Select, Table, cast, delete, func, select

from toolgate.store.base import DetectionCount, DetectionFilter, StoredDetection
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping

__all__ = ["append", "clear", "counts", "find"]

_MOST = 10_000

SelectT = TypeVar("SelectT", bound="Select[*tuple[Any, ...]]")


def append(
    connection: Connection, insert: Callable[[Table], Any], detections: Sequence[StoredDetection]
) -> None:
    """Write rows; what is there already is left alone."""
    if detections:
        rows = [row_mapping.detection_row(each) for each in detections]
        connection.execute(insert(tables.detections).on_conflict_do_nothing(), rows)


def find(connection: Connection, wanted: DetectionFilter) -> list[StoredDetection]:
    """Detections that fit, newest first."""
    table = tables.detections
    statement = _fitting(select(table), wanted)
    statement = statement.order_by(table.c.at.desc(), table.c.detection_id.desc())
    statement = statement.limit(max(1, min(wanted.limit, _MOST)))
    return [row_mapping.detection_from(row) for row in connection.execute(statement).mappings()]


def counts(connection: Connection, wanted: DetectionFilter) -> list[DetectionCount]:
    """How many there are of each project, outcome, stage and intent."""
    table = tables.detections
    groups = (table.c.project_id, table.c.outcome, table.c.stage, table.c.intent)
    remembered = func.sum(cast(table.c.remembered, Integer)).label("remembered")
    statement = select(*groups, func.count().label("count"), remembered)
    statement = _fitting(statement, wanted).group_by(*groups).order_by(*groups)
    return [
        row_mapping.detection_count_from(row) for row in connection.execute(statement).mappings()
    ]


def clear(connection: Connection, project_id: str) -> int:
    """Forget a project."""
    table = tables.detections
    statement = delete(table).where(table.c.project_id == escape_text(project_id))
    return connection.execute(statement).rowcount


def _fitting(statement: SelectT, wanted: DetectionFilter) -> SelectT:
    table = tables.detections
    if wanted.project_id is not None:
        statement = statement.where(table.c.project_id == escape_text(wanted.project_id))
    if wanted.outcomes:
        statement = statement.where(table.c.outcome.in_(map(escape_text, wanted.outcomes)))
    if wanted.since:
        statement = statement.where(table.c.at >= wanted.since)
    if wanted.below is not None:
        statement = statement.where(table.c.confidence < wanted.below)
    return statement
