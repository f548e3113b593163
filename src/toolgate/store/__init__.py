"""What Toolgate remembers: servers, listings, audit, results. Implementations by file name."""

from toolgate.base.plugins import make
from toolgate.errors import SettingError
from toolgate.store._batch_writer import BatchWriter
from toolgate.store.base import (
    AuditAnchor,
    AuditChainEnds,
    AuditChainLink,
    AuditFilter,
    DetectionCount,
    DetectionFilter,
    DetectionOutcome,
    IntegrityReport,
    PrunedCounts,
    Retention,
    SchemaUpgrade,
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
    StoreMaintenance,
    ToolFingerprint,
    ToolVersion,
    UsageEntry,
    UsageFilter,
    UseOutcome,
)
from toolgate.store.engine.deadline import StoreDeadline, acquired, current_deadline, store_deadline
from toolgate.store.engine.text import escape_text, unescape_text
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
    ToolUsage,
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
    DocumentRepository,
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
    "AuditChainEnds",
    "AuditChainLink",
    "AuditFilter",
    "AuditViews",
    "BatchWriter",
    "ConversationCost",
    "CredentialKey",
    "CredentialRows",
    "DetectionCount",
    "DetectionFilter",
    "DetectionOutcome",
    "DocumentRepository",
    "IntegrityReport",
    "MinuteCount",
    "PassageSource",
    "PromptRows",
    "PrunedCounts",
    "Retention",
    "SchemaUpgrade",
    "SessionRows",
    "SqlAccess",
    "StatementOutcome",
    "StatementRows",
    "Store",
    "StoreDeadline",
    "StoreMaintenance",
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
    "ToolFingerprint",
    "ToolUsage",
    "ToolVersion",
    "UsageEntry",
    "UsageFilter",
    "UseOutcome",
    "WordCounts",
    "WrappedKey",
    "acquired",
    "current_deadline",
    "escape_text",
    "kind_of",
    "make_store",
    "store_deadline",
    "unescape_text",
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
