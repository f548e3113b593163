"""What is looked at around a call: arguments, secrets, sizes, and whether a person has said yes."""

from toolgate.guards._guard import Guard, Guards, Tool
from toolgate.guards._passage import Passage, Passed
from toolgate.guards._secrets import Secrets, secrets
from toolgate.guards.approvals import Approvals, Clearance, hash_of

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
