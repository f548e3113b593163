"""What was asked, decided and answered: recorded for every discovery and call."""

from toolgate.audit._chain import Fault, Sealer, Verification, keep_sealed, seal, verify_audit
from toolgate.audit._compare import SearchReport, compare_searches
from toolgate.audit._receipts import AuditSink, Done, Receipts
from toolgate.audit.housekeeping import keep_house, retention_of
from toolgate.audit.recorder import Recorder, RecorderStatus

__all__ = [
    "AuditSink",
    "Done",
    "Fault",
    "Receipts",
    "Recorder",
    "RecorderStatus",
    "Sealer",
    "SearchReport",
    "Verification",
    "compare_searches",
    "keep_house",
    "keep_sealed",
    "retention_of",
    "seal",
    "verify_audit",
]
