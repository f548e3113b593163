"""What is looked at around a call: arguments, secrets, sizes, and whether a person has said yes."""

from toolgate.security.guards.approvals import Approvals, Clearance, hash_of
from toolgate.security.guards.call_guard import Guard, Guards, Tool
from toolgate.security.guards.guard_chain import Passage, Passed
from toolgate.security.guards.secret_detection import Secrets, secrets

__all__ = [
    "Approvals",
    "Clearance",
    "Guard",
    "Guards",
    "Passage",
    "Passed",
    "Secrets",
    "Tool",
    "hash_of",
    "secrets",
]
