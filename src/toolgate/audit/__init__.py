"""What was asked, decided and answered: recorded for every discovery and call."""

from toolgate.audit.housekeeping import keep_house, retention_of
from toolgate.audit.recorder import Recorder, RecorderStatus

__all__ = ["Recorder", "RecorderStatus", "keep_house", "retention_of"]
