"""Deletes old audit records in the background, by age and size."""

import logging
from collections.abc import Callable, Collection

import anyio

from toolgate.base.ids import utc_now
from toolgate.errors import StoreError
from toolgate.settings import StoreSettings
from toolgate.store import AuditAnchor, PrunedCounts, Retention, Store

log = logging.getLogger(__name__)

_MIB = 2**20
"""Bytes in the unit of the settings, as IEC 80000-13 defines it."""


def retention_of(settings: StoreSettings) -> Retention:
    """The retention limits of the settings."""
    return Retention(
        audit_days=settings.audit_days,
        audit_max_bytes=settings.audit_max_mb * _MIB,
        results_max_bytes=settings.results_max_mb * _MIB,
        usage_days=settings.usage_days,
        usage_max_bytes=settings.usage_max_mb * _MIB,
        detection_days=settings.detection_days,
        detection_max_bytes=settings.detection_max_mb * _MIB,
        schema_days=settings.schema_days,
        schema_max_bytes=settings.schema_max_mb * _MIB,
        tool_version_days=settings.tool_version_days,
        tool_version_max_bytes=settings.tool_version_max_mb * _MIB,
        statement_days=settings.statement_days,
        statement_max_bytes=settings.statement_max_mb * _MIB,
        thread_days=settings.thread_days,
        response_days=settings.response_days,
        thread_max_bytes=settings.thread_max_mb * _MIB,
    )


async def run_housekeeping(
    store: Store,
    retention: Callable[[], Retention],
    *,
    configured: Callable[[], Collection[tuple[str, str]]] = tuple,
    sign: Callable[[int, str], AuditAnchor] | None = None,
    first_after_s: float = 60.0,
    every_s: float = 3600.0,
) -> None:
    """Delete old records periodically, until cancelled. A failure is logged and retried next time.

    Args:
        store: The store to clean up.
        retention: Returns the limits, which may change while running.
        configured: Returns project and name of the configured servers, whose tool lists stay.
        sign: Signs the position at which the audit log starts afterwards.
        first_after_s: Seconds until the first clean-up, so that it does not slow down the start.
        every_s: Seconds between two clean-ups.
    """
    await anyio.sleep(first_after_s)
    while True:
        try:
            pruned = await store.prune(
                retention(), now=utc_now(), configured=configured(), sign=sign
            )
        except StoreError as error:
            log.warning("clean-up failed", extra={"reason": str(error)})
        except Exception:  # a fault here must not end all later clean-ups
            log.exception("clean-up failed unexpectedly")
        else:
            if pruned != PrunedCounts():
                log.info("cleaned up", extra={"removed": pruned})
        await anyio.sleep(every_s)
