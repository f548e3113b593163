"""Finds definitions that try to steer a model."""

from toolgate.catalog.scanner.definition_diff import Difference, differences, new_parameters
from toolgate.catalog.scanner.quarantine import Quarantine
from toolgate.catalog.scanner.quarantine_decision import QuarantineMode
from toolgate.catalog.scanner.quarantined_entry import QuarantinedEntry, ReplacedDefinition
from toolgate.catalog.scanner.rules import ScanRule, load_rules
from toolgate.catalog.scanner.scanner import OtherServersTools, ScanFinding, Scanner, is_suspicious

__all__ = [
    "Difference",
    "OtherServersTools",
    "Quarantine",
    "QuarantineMode",
    "QuarantinedEntry",
    "ReplacedDefinition",
    "ScanFinding",
    "ScanRule",
    "Scanner",
    "differences",
    "is_suspicious",
    "load_rules",
    "new_parameters",
]
