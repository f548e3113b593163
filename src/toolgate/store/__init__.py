"""The database of a gateway: one repository per topic. Implementations by file name."""

from toolgate.base.plugins import is_available, make
from toolgate.errors import SettingError
from toolgate.store._batch_writer import BatchWriter
from toolgate.store.base import (
    IntegrityReport,
    PrunedCounts,
    RelocatableStore,
    Retention,
    SchemaUpgrade,
    SqlAccess,
    Store,
    StoreMaintenance,
)
from toolgate.store.engine.deadline import StoreDeadline, acquired, current_deadline, store_deadline
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.access import (
    AccessRepository,
    CallGrant,
    DayUsage,
    FullLimit,
    ProjectRepository,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredToken,
)
from toolgate.store.repositories.approvals import (
    ApprovalFilter,
    ApprovalRepository,
    ApprovalState,
    ProgramRepository,
    StoredApproval,
    StoredProgram,
)
from toolgate.store.repositories.audit import (
    DURATION_BOUNDS_MS,
    AuditAnchor,
    AuditChainEnds,
    AuditChainLink,
    AuditFilter,
    AuditRepository,
    AuditWriterRow,
    CallCount,
    ConversationCost,
    ToolUsage,
)
from toolgate.store.repositories.catalog import (
    CatalogRepository,
    Fingerprint,
    StoredSnapshot,
    ToolVersion,
)
from toolgate.store.repositories.console_sessions import SessionRepository, StoredSession
from toolgate.store.repositories.credentials import (
    CredentialKey,
    CredentialRepository,
    StoredCredential,
    WrappedKey,
)
from toolgate.store.repositories.detections import (
    DetectionCount,
    DetectionFilter,
    DetectionOutcome,
    DetectionRepository,
    StoredDetection,
)
from toolgate.store.repositories.documents import (
    DocumentRepository,
    PassageSource,
    StoredCollection,
    StoredDocument,
    StoredFailure,
    StoredPassage,
    WordCounts,
)
from toolgate.store.repositories.prompts import PromptRepository, StoredPrompt
from toolgate.store.repositories.results import ResultRepository, ResultSummary, StoredResult
from toolgate.store.repositories.schemas import SchemaRepository, StoredSchema
from toolgate.store.repositories.servers import ServerRepository, StoredServer
from toolgate.store.repositories.statements import (
    StatementOutcome,
    StatementRepository,
    StoredStatement,
)
from toolgate.store.repositories.threads import (
    PROJECT_THREAD,
    RESPONSE_PREFIX,
    StoredArtifact,
    StoredMessage,
    StoredSpending,
    StoredThread,
    ThreadRepository,
    TurnOpening,
)
from toolgate.store.repositories.tool_texts import (
    StoredModel,
    TextLink,
    ToolTextCounts,
    ToolTextRepository,
    UnlinkedTexts,
)
from toolgate.store.repositories.usage import (
    StoredSearch,
    StoredUse,
    UsageEntry,
    UsageFilter,
    UsageRepository,
    UseOutcome,
)
from toolgate.types import PluginSpec

__all__ = [
    "DURATION_BOUNDS_MS",
    "PROJECT_THREAD",
    "RESPONSE_PREFIX",
    "AccessRepository",
    "ApprovalFilter",
    "ApprovalRepository",
    "ApprovalState",
    "AuditAnchor",
    "AuditChainEnds",
    "AuditChainLink",
    "AuditFilter",
    "AuditRepository",
    "AuditWriterRow",
    "BatchWriter",
    "CallCount",
    "CallGrant",
    "CatalogRepository",
    "ConversationCost",
    "CredentialKey",
    "CredentialRepository",
    "DayUsage",
    "DetectionCount",
    "DetectionFilter",
    "DetectionOutcome",
    "DetectionRepository",
    "DocumentRepository",
    "Fingerprint",
    "FullLimit",
    "IntegrityReport",
    "PassageSource",
    "ProgramRepository",
    "ProjectRepository",
    "PromptRepository",
    "PrunedCounts",
    "RelocatableStore",
    "ResultRepository",
    "ResultSummary",
    "Retention",
    "SchemaRepository",
    "SchemaUpgrade",
    "ServerRepository",
    "SessionRepository",
    "SqlAccess",
    "StatementOutcome",
    "StatementRepository",
    "Store",
    "StoreDeadline",
    "StoreMaintenance",
    "StoredApproval",
    "StoredArtifact",
    "StoredCollection",
    "StoredCredential",
    "StoredDetection",
    "StoredDocument",
    "StoredFailure",
    "StoredGuard",
    "StoredMessage",
    "StoredModel",
    "StoredPassage",
    "StoredPermission",
    "StoredProgram",
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
    "TextLink",
    "ThreadRepository",
    "ToolTextCounts",
    "ToolTextRepository",
    "ToolUsage",
    "ToolVersion",
    "TurnOpening",
    "UnlinkedTexts",
    "UsageEntry",
    "UsageFilter",
    "UsageRepository",
    "UseOutcome",
    "WordCounts",
    "WrappedKey",
    "acquired",
    "current_deadline",
    "escape_text",
    "make_store",
    "store_deadline",
    "unescape_text",
]

_SCHEMES = {"postgresql": "postgres", "postgresql+psycopg": "postgres"}
"""URL schemes whose implementation has another name."""


def make_store(url: str) -> Store:
    """Create the store for a URL, without opening it.

    The scheme, without what follows a `+`, names the implementation: a package with the entry
    point `mysql` in the group `toolgate.store` serves `mysql://` and `mysql+pymysql://`.

    Raises:
        SettingError: There is no store for this scheme.
        MissingExtraError: The library of the store is not installed.
        OptionError: The URL is malformed.
    """
    scheme = url.partition(":")[0]
    name = _SCHEMES.get(scheme, scheme.partition("+")[0])
    if not is_available("store", name):
        raise SettingError(
            f"store.url begins with {scheme!r}, which is not a database that Toolgate supports.",
            allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/NAME.",
            hint="Correct store.url, or install the package that provides this database.",
        )
    spec = PluginSpec(name=name, setting="store.url", options={"url": url})
    return make("store", Store, spec, {})
