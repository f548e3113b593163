"""The audit trail of every discovery and call."""

from toolgate.audit.actions import ACTIONS
from toolgate.audit.aggregation import AGGREGATED_ACTIONS
from toolgate.audit.chain_signer import (
    AuditRestore,
    AuditVerification,
    ChainFault,
    ChainSigner,
    sign_chain_end,
    sign_periodically,
    sign_restore,
    verify_audit,
)
from toolgate.audit.export_formats import EXPORT_FORMATS, as_json_line, as_ocsf
from toolgate.audit.fanout import FanoutRecorder
from toolgate.audit.receipts import AuditSink, OutcomeReporter, Receipts, calls_of
from toolgate.audit.recorder import Recorder, RecorderStatus
from toolgate.audit.retention import retention_of, run_housekeeping
from toolgate.audit.search_comparison import SearchReport, compare_searches
from toolgate.audit.sinks import FileSink, Sink, SyslogSink, sinks_of
from toolgate.audit.subjects import subject_of
from toolgate.audit.writers import AuditWriter

__all__ = [
    "ACTIONS",
    "AGGREGATED_ACTIONS",
    "EXPORT_FORMATS",
    "AuditRestore",
    "AuditSink",
    "AuditVerification",
    "AuditWriter",
    "ChainFault",
    "ChainSigner",
    "FanoutRecorder",
    "FileSink",
    "OutcomeReporter",
    "Receipts",
    "Recorder",
    "RecorderStatus",
    "SearchReport",
    "Sink",
    "SyslogSink",
    "as_json_line",
    "as_ocsf",
    "calls_of",
    "compare_searches",
    "retention_of",
    "run_housekeeping",
    "sign_chain_end",
    "sign_periodically",
    "sign_restore",
    "sinks_of",
    "subject_of",
    "verify_audit",
]
