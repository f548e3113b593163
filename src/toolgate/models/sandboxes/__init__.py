"""Sandboxes run programs of models and pause at each call that they make. One file per sandbox."""

from toolgate.models.sandboxes.base import (
    CallFailure,
    CallValue,
    Completed,
    Execution,
    HostCall,
    HostFunction,
    HostModule,
    PendingCalls,
    Program,
    ProgramLimits,
    Sandbox,
    Step,
    json_value,
)

__all__ = [
    "CallFailure",
    "CallValue",
    "Completed",
    "Execution",
    "HostCall",
    "HostFunction",
    "HostModule",
    "PendingCalls",
    "Program",
    "ProgramLimits",
    "Sandbox",
    "Step",
    "json_value",
]
