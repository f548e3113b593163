"""What Toolgate remembers: servers, listings, audit, results. Implementations by file name."""

from toolgate.errors import SettingError
from toolgate.plugins import make
from toolgate.store._approval import (
    ApprovalFilter,
    ApprovalState,
    ApprovalStore,
    StoredApproval,
)
from toolgate.store._audit_view_rows import (
    AuditViews,
    ConversationCost,
    MinuteCount,
    ToolUse,
)
from toolgate.store._batches import Batches
from toolgate.store._credential_rows import (
    CredentialKey,
    CredentialRows,
    StoredCredential,
    WrappedKey,
)
from toolgate.store._documents import (
    DocumentRows,
    PassageSource,
    StoredCollection,
    StoredDocument,
    StoredPassage,
    WordCounts,
)
from toolgate.store._keepable import keepable, kept
from toolgate.store._patience import Patience, current_patience, patience, taken
from toolgate.store._session_rows import SessionRows, StoredSession
from toolgate.store._statement_rows import StatementOutcome, StatementRows, StoredStatement
from toolgate.store._thread_rows import (
    PromptRows,
    StoredArtifact,
    StoredMessage,
    StoredPrompt,
    StoredSpending,
    StoredThread,
    ThreadRows,
)
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
