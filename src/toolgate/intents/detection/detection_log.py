"""The log of detections, which `toolgate detect --stats` summarises."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from toolgate.base.ids import new_id, utc_now
from toolgate.intents.base import NONE, Detection
from toolgate.store import BatchWriter, DetectionOutcome, DetectionRepository, StoredDetection
from toolgate.types import Caller

DetectionSource: TypeAlias = Literal["detect", "enrich", "knowledge"]
"""The operation that a message came with."""

_MESSAGE_CHARS: Final = 2_000
"""Largest number of characters of a message that are stored (chosen)."""


class DetectionLog:
    """Writes rows in the background. Belongs to one event loop."""

    def __init__(
        self,
        store: DetectionRepository,
        *,
        enabled: Callable[[], bool],
        keep_messages: Callable[[], bool],
    ) -> None:
        """Create the log.

        Args:
            store: Where rows are written.
            enabled: Whether rows are written.
            keep_messages: Whether rows contain the message.
        """
        self._enabled = enabled
        self._keep_messages = keep_messages
        self._rows: BatchWriter[StoredDetection] = BatchWriter(store.append, name="detections")

    def record_detection(
        self,
        caller: Caller,
        message: str,
        detection: Detection,
        *,
        asked: DetectionSource,
        remembered: bool,
    ) -> None:
        """Record the detection of a message.

        Args:
            caller: The caller who sent the message.
            message: Its text.
            detection: The result.
            asked: The operation.
            remembered: Whether the answer was cached from an equal message.
        """
        if self._enabled():
            # Unless the settings store messages, the row is written without the text.
            text = message if self._keep_messages() else None
            self._rows.put(
                detection_row(caller, text, detection, asked=asked, remembered=remembered)
            )

    def record_mismatch(
        self, caller: Caller, message: str, *, intent: str, called: str, reason: str
    ) -> None:
        """Record that a later call did not match the detected intent.

        Args:
            caller: The caller who sent the message.
            message: Its text.
            intent: The detected intent.
            called: Key of the tool that was called.
            reason: `outside`: the tool does not belong to the intent; `arguments`: they were
                invalid.
        """
        if self._enabled():
            self._rows.put(
                StoredDetection(
                    **_of(caller, message if self._keep_messages() else None),
                    door="recovery",
                    outcome="arguments" if reason == "arguments" else "outside",
                    intent=intent,
                    called=called,
                )
            )

    async def flush(self) -> None:
        """Write the pending rows."""
        await self._rows.flush()

    async def aclose(self) -> None:
        """Write the pending rows, and stop."""
        await self._rows.aclose()


def detection_row(
    caller: Caller,
    message: str | None,
    detection: Detection,
    *,
    asked: DetectionSource,
    remembered: bool,
) -> StoredDetection:
    """Return the row for the detection of a message.

    Args:
        caller: The caller who sent the message.
        message: Its text; None: it is not stored.
        detection: The result.
        asked: The operation.
        remembered: Whether the answer was cached from an equal message.
    """
    intent = "" if detection.intent == NONE else detection.intent
    rival = next(
        (candidate for candidate in detection.candidates if candidate.intent != intent), None
    )
    outcome: DetectionOutcome = "none"
    if intent:
        outcome = "unsure" if detection.question else "found"
    return StoredDetection(
        **_of(caller, message),
        door=asked,
        outcome=outcome,
        stage=detection.stage,
        intent=intent,
        confidence=round(detection.confidence, 4),
        rival=rival.intent if rival else "",
        rival_confidence=round(rival.confidence, 4) if rival else 0.0,
        remembered=remembered,
    )


def _of(caller: Caller, message: str | None) -> dict[str, Any]:
    return {
        "detection_id": new_id(),
        "at": utc_now(),
        "project_id": caller.project_id,
        "caller_id": caller.caller_id,
        "conversation": caller.conversation,
        "message": None if message is None else message[:_MESSAGE_CHARS],
    }
