"""What Toolgate remembers: servers, listings, audit, results. Implementations by file name."""

from toolgate.base.plugins import make
from toolgate.errors import SettingError
from toolgate.store._batch_writer import Batches
from toolgate.store.base import (
    AuditAnchor,
    AuditEnds,
    AuditFilter,
    AuditLink,
    Checkup,
    DetectionCount,
    DetectionFilter,
    DetectionOutcome,
    Logged,
    Pruned,
    Retention,
    SeenTool,
    SqlAccess,
    Store,
    StoredDetection,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredResult,
    StoredSchema,
    StoredSearch,
    StoredServer,
    StoredSnapshot,
    StoredToken,
    StoredUse,
    ToolVersion,
    Upgrade,
    Upkeep,
    UsageFilter,
    UseOutcome,
)
from toolgate.store.engine.deadline import Patience, current_patience, patience, taken
from toolgate.store.engine.text import keepable, kept
from toolgate.store.records.approvals import (
    ApprovalFilter,
    ApprovalState,
    ApprovalStore,
    StoredApproval,
)
from toolgate.store.records.audit_views import (
    AuditViews,
    ConversationCost,
    MinuteCount,
    ToolUse,
)
from toolgate.store.records.credentials import (
    CredentialKey,
    CredentialRows,
    StoredCredential,
    WrappedKey,
)
from toolgate.store.records.sessions import SessionRows, StoredSession
from toolgate.store.records.statements import StatementOutcome, StatementRows, StoredStatement
from toolgate.store.records.threads import (
    PromptRows,
    StoredArtifact,
    StoredMessage,
    StoredPrompt,
    StoredSpending,
    StoredThread,
    ThreadRows,
)
from toolgate.store.sql.documents import (
    DocumentRows,
    PassageSource,
    StoredCollection,
    StoredDocument,
    StoredPassage,
    WordCounts,
)
from toolgate.types import PluginSpec

__all__ = [
    "ApprovalFilter",
    "ApprovalState",
    "ApprovalStore",
    "AuditAnchor",
    "AuditEnds",
    "AuditFilter",
    "AuditLink",
    "AuditViews",
    "Batches",
    "Checkup",
    "ConversationCost",
    "CredentialKey",
    "CredentialRows",
    "DetectionCount",
    "DetectionFilter",
    "DetectionOutcome",
    "DocumentRows",
    "Logged",
    "MinuteCount",
    "PassageSource",
    "Patience",
    "PromptRows",
    "Pruned",
    "Retention",
    "SeenTool",
    "SessionRows",
    "SqlAccess",
    "StatementOutcome",
    "StatementRows",
    "Store",
    "StoredApproval",
    "StoredArtifact",
    "StoredCollection",
    "StoredCredential",
    "StoredDetection",
    "StoredDocument",
    "StoredGuard",
    "StoredMessage",
    "StoredPassage",
    "StoredPermission",
    "StoredProject",
    "StoredPrompt",
    "StoredResult",
    "StoredSchema",
    "StoredSearch",
    "StoredServer",
    "StoredSession",
    "StoredSnapshot",
    "StoredSpending",
    "StoredStatement",
    "StoredThread",
    "StoredToken",
    "StoredUse",
    "ThreadRows",
    "ToolUse",
    "ToolVersion",
    "Upgrade",
    "Upkeep",
    "UsageFilter",
    "UseOutcome",
    "WordCounts",
    "WrappedKey",
    "current_patience",
    "keepable",
    "kept",
    "kind_of",
    "make_store",
    "patience",
    "taken",
]

_KINDS = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "postgres": "postgres",
    "postgresql+psycopg": "postgres",
}


def kind_of(url: str) -> str:
    """File name of the implementation for an address such as `sqlite:///toolgate.db`.

    Raises:
        SettingError: Nothing of ours speaks this scheme.
    """
    scheme = url.partition(":")[0]
    if scheme not in _KINDS:
        raise SettingError(
            f"store.url begins with {scheme!r}, which is no database that Toolgate knows.",
            allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/NAME.",
            hint="Correct store.url.",
        )
    return _KINDS[scheme]


def make_store(url: str) -> Store:
    """The store at an address; nothing is opened yet.

    Raises:
        SettingError: No such kind of database.
        MissingExtraError: Its library is not installed.
        OptionError: The address is malformed.
    """
    spec = PluginSpec(name=kind_of(url), setting="store.url", options={"url": url})
    return make("store", Store, spec, {})
