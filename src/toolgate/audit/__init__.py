"""What was asked, decided and answered: recorded for every discovery and call."""

from toolgate.audit._chain import Fault, Sealer, Verification, keep_sealed, seal, verify_audit
from toolgate.audit._compare import SearchReport, compare_searches
from toolgate.audit._fan import Fan
from toolgate.audit._forms import FORMS, as_json_line, as_ocsf
from toolgate.audit._places import FilePlace, Place, SyslogPlace, places_of
from toolgate.audit._receipts import AuditSink, Done, Receipts
from toolgate.audit.housekeeping import keep_house, retention_of
from toolgate.audit.recorder import Recorder, RecorderStatus

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
