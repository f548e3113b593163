"""Telling tool definitions that try to steer a model from those that describe a tool."""

from toolgate.scan._changes import Difference, differences, new_parameters
from toolgate.scan._quarantine import Held, Quarantine, QuarantineMode, Version
from toolgate.scan._rules import Rule, load_rules
from toolgate.scan._scanner import Finding, Neighbours, Scanner, weighs

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
