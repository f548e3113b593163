"""Tests of packs: whether messages get the results that are expected of them."""

from collections.abc import Sequence

from toolgate.cli.intents._detect_session import DetectSession
from toolgate.evaluation.pack_expectations import Expectation
from toolgate.packs import Pack


def failures_of(
    packs: Sequence[Pack], expectations: Sequence[Expectation]
) -> list[tuple[Expectation, list[str]]]:
    """Return the tests that these packs fail, each with its mistakes."""
    if not expectations:
        return []
    session = DetectSession(tuple(packs), "UTC", "", "cascade")
    detections = session.answers([(test.message, test.today) for test in expectations])
    return [
        (test, mistakes)
        for test, detection in zip(expectations, detections, strict=True)
        if (mistakes := test.mistakes(detection))
    ]
