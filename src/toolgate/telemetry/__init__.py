"""Metrics, traces and cost for operators. Loaded only where they are enabled.

Hangs on `observe` and on the records of the audit; nothing that works knows of it.
"""

from toolgate.telemetry.metric_names import METRICS, Metric
from toolgate.telemetry.metrics import Metrics
from toolgate.telemetry.otel_extra import load_otel_module

__all__ = ["METRICS", "Metric", "Metrics", "load_otel_module"]
