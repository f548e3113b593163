"""Guards for calls: arguments, secrets, sizes and approvals."""

from toolgate.security.guards.approvals import APPROVAL_QUESTION, Approvals, Clearance, hash_of
from toolgate.security.guards.argument_texts import unpacked
from toolgate.security.guards.call_guard import ArgumentKind, CallGuard, CallGuards, GuardedTool
from toolgate.security.guards.guard_chain import CallGuardChain, GuardedCall
from toolgate.security.guards.guarded_peer import CollectingPeer
from toolgate.security.guards.path_readings import PathReadings, TooManyReadingsError
from toolgate.security.guards.secret_detection import SecretScanner, secret_scanner
from toolgate.security.guards.server_secrets import ServerSecrets

__all__ = [
    "APPROVAL_QUESTION",
    "Approvals",
    "ArgumentKind",
    "CallGuard",
    "CallGuardChain",
    "CallGuards",
    "Clearance",
    "CollectingPeer",
    "GuardedCall",
    "GuardedTool",
    "PathReadings",
    "SecretScanner",
    "ServerSecrets",
    "TooManyReadingsError",
    "hash_of",
    "secret_scanner",
    "unpacked",
]
