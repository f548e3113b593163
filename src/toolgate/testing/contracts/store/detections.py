"""The store contract for the log of detected intents."""

from dataclasses import replace
from typing import Any

import pytest

from toolgate.store import (
    DetectionFilter,
    PrunedCounts,
    Retention,
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, NOW, SAMPLE_PROJECT, sample_detection


@pytest.mark.anyio
class DetectionContract(StoreFixtures):
    """The log of detected intents."""

    async def test_detections_come_back_as_they_were(self, store: Store) -> None:
        """Newest first, with any text."""
        first = sample_detection(1, message=HOSTILE, conversation=HOSTILE, rival=HOSTILE)
        second = sample_detection(2, message=None, outcome="none", intent="", remembered=True)

        await store.detections.append([first, second])
        await store.detections.append([replace(first, intent="another")])

        assert await store.detections.select(DetectionFilter()) == [second, first]

    async def test_the_detections_that_are_wanted_are_found_and_counted(self, store: Store) -> None:
        """By project, outcome, time and confidence."""
        detections = [sample_detection(minute, confidence=minute / 10) for minute in range(4)]
        detections += [sample_detection(4, outcome="none", intent="", remembered=True)]
        detections += [sample_detection(5, project_id="other")]
        await store.detections.append(detections)

        async def minutes(**filters: Any) -> list[int]:
            rows = await store.detections.select(DetectionFilter(**filters))
            return [int(row.detection_id, 16) for row in rows]

        assert await minutes() == [5, 4, 3, 2, 1, 0]
        assert await minutes(limit=2) == [5, 4]
        assert await minutes(project_id="other") == [5]
        assert await minutes(outcomes=("none", "unsure")) == [4]
        assert await minutes(since=detections[4].at) == [5, 4]
        assert await minutes(project_id=SAMPLE_PROJECT, below=0.2) == [1, 0]
        counts = await store.detections.counts(DetectionFilter())
        assert [(count.project_id, count.outcome, count.intent) for count in counts] == [
            (SAMPLE_PROJECT, "found", "refunds"),
            (SAMPLE_PROJECT, "none", ""),
            ("other", "found", "refunds"),
        ]
        assert [(count.count, count.remembered) for count in counts] == [(4, 0), (1, 1), (1, 0)]

    async def test_detections_are_forgotten_by_project_age_and_size(self, store: Store) -> None:
        """By each limit separately, and by project."""
        await store.detections.append(
            [sample_detection(minute, message="x" * 900) for minute in range(9)]
        )
        await store.detections.append([sample_detection(0, project_id="other", detection_id="o")])

        pruned = await store.prune(Retention(detection_max_bytes=5_000), now=NOW)
        left = await store.detections.select(DetectionFilter())
        assert 0 < len(left) < 6
        assert pruned == PrunedCounts(detections=10 - len(left))
        assert await store.detections.clear(SAMPLE_PROJECT) == len(left)
        await store.detections.append([sample_detection(1)])
        pruned = await store.prune(Retention(detection_days=1), now="2026-08-19T12:00:00.000Z")
        assert pruned == PrunedCounts(detections=1)
