"""Finds tool definitions that try to steer a model."""

from toolgate.catalog.scanner.definition_diff import Difference, differences, new_parameters
from toolgate.catalog.scanner.quarantine import (
    Quarantine,
    QuarantinedTool,
    QuarantineMode,
    ReplacedDefinition,
)
from toolgate.catalog.scanner.rules import ScanRule, load_rules
from toolgate.catalog.scanner.scanner import OtherServersTools, ScanFinding, Scanner, is_suspicious

__all__ = [
    "Difference",
    "OtherServersTools",
    "Quarantine",
    "QuarantineMode",
    "QuarantinedTool",
    "ReplacedDefinition",
    "ScanFinding",
    "ScanRule",
    "Scanner",
    "differences",
    "is_suspicious",
    "load_rules",
    "new_parameters",
]
