"""What was asked, decided and answered: recorded for every discovery and call."""

from toolgate.audit.chain_signer import Fault, Sealer, Verification, keep_sealed, seal, verify_audit
from toolgate.audit.export_formats import FORMS, as_json_line, as_ocsf
from toolgate.audit.fanout import Fan
from toolgate.audit.housekeeping import keep_house, retention_of
from toolgate.audit.receipts import AuditSink, Done, Receipts
from toolgate.audit.recorder import Recorder, RecorderStatus
from toolgate.audit.search_comparison import SearchReport, compare_searches
from toolgate.audit.sinks import FilePlace, Place, SyslogPlace, places_of

__all__ = [
    "FORMS",
    "AuditSink",
    "Done",
    "Fan",
    "Fault",
    "FilePlace",
    "Place",
    "Receipts",
    "Recorder",
    "RecorderStatus",
    "Sealer",
    "SearchReport",
    "SyslogPlace",
    "Verification",
    "as_json_line",
    "as_ocsf",
    "compare_searches",
    "keep_house",
    "keep_sealed",
    "places_of",
    "retention_of",
    "seal",
    "verify_audit",
]
