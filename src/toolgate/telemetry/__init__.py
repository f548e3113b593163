"""What operators look at: numbers at `/metrics`, and traces. Loaded only where they are wanted.

Hangs on `observe` and on the records of the audit; nothing that works knows of it.
"""

from toolgate.telemetry._extra import part
from toolgate.telemetry._metrics import Metrics
from toolgate.telemetry._names import METRICS, Metric

__all__ = ["METRICS", "Metric", "Metrics", "part"]
