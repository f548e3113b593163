"""Metrics, traces and cost for operators. Loaded only if enabled.

Uses hooks of `observe` and the audit records; the rest of the gateway does not depend on it.
"""

from toolgate.telemetry.metric_names import METRICS, Metric
from toolgate.telemetry.metrics import Metrics
from toolgate.telemetry.otel_extra import load_otel_module

__all__ = ["METRICS", "Metric", "Metrics", "load_otel_module"]
