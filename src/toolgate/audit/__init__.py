"""What was asked, decided and answered: recorded for every discovery and call."""

from toolgate.audit._compare import SearchReport, compare_searches
from toolgate.audit._receipts import AuditSink, Receipts
from toolgate.audit.housekeeping import keep_house, retention_of
from toolgate.audit.recorder import Recorder, RecorderStatus

__all__ = [
    "AuditSink",
    "Receipts",
    "Recorder",
    "RecorderStatus",
    "SearchReport",
    "compare_searches",
    "keep_house",
    "retention_of",
]
