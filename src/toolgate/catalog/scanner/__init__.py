"""Telling tool definitions that try to steer a model from those that describe a tool."""

from toolgate.catalog.scanner.definition_diff import Difference, differences, new_parameters
from toolgate.catalog.scanner.quarantine import Held, Quarantine, QuarantineMode, Version
from toolgate.catalog.scanner.rules import Rule, load_rules
from toolgate.catalog.scanner.scanner import Finding, Neighbours, Scanner, weighs

__all__ = [
    "Difference",
    "Finding",
    "Held",
    "Neighbours",
    "Quarantine",
    "QuarantineMode",
    "Rule",
    "Scanner",
    "Version",
    "differences",
    "load_rules",
    "new_parameters",
    "weighs",
]
