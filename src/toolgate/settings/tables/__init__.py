"""What can be configured: one frozen dataclass per table of `toolgate.toml`.

The reference in `docs/configuration.md` is made from the sentences below the fields. A range in
a sentence is repeated by `between`, which is what `load` checks.
"""

from toolgate.settings.tables.access import (
    ApprovalSettings,
    AuthnSettings,
    CredentialSettings,
    GuardTable,
    LimitSettings,
    PermissionTable,
    ProjectTable,
    ToolLimitTable,
)
from toolgate.settings.tables.chat import (
    ChatSettings,
    DocumentModelTable,
    DocumentSettings,
    ModelTable,
)
from toolgate.settings.tables.operations import (
    AuditSettings,
    LogLevel,
    LogSettings,
    MetricSettings,
    StoreSettings,
    TraceSettings,
)
from toolgate.settings.tables.packs import PackSettings, RuleSettings
from toolgate.settings.tables.programs import ProgramSettings
from toolgate.settings.tables.root import META_TOOLS, Settings
from toolgate.settings.tables.search import (
    CatalogSearchSettings,
    DiscoverySettings,
    ResultSettings,
    SearchSettings,
    UsageSettings,
)
from toolgate.settings.tables.servers import (
    ConnectionTable,
    CredentialTable,
    ImportTable,
    ParameterTable,
    ServerTable,
    ToolTable,
    UpstreamTlsTable,
)
from toolgate.settings.tables.serving import OutboundSettings, ServeSettings, TlsSettings

__all__ = [
    "META_TOOLS",
    "ApprovalSettings",
    "AuditSettings",
    "AuthnSettings",
    "CatalogSearchSettings",
    "ChatSettings",
    "ConnectionTable",
    "CredentialSettings",
    "CredentialTable",
    "DiscoverySettings",
    "DocumentModelTable",
    "DocumentSettings",
    "GuardTable",
    "ImportTable",
    "LimitSettings",
    "LogLevel",
    "LogSettings",
    "MetricSettings",
    "ModelTable",
    "OutboundSettings",
    "PackSettings",
    "ParameterTable",
    "PermissionTable",
    "ProgramSettings",
    "ProjectTable",
    "ResultSettings",
    "RuleSettings",
    "SearchSettings",
    "ServeSettings",
    "ServerTable",
    "Settings",
    "StoreSettings",
    "TlsSettings",
    "ToolLimitTable",
    "ToolTable",
    "TraceSettings",
    "UpstreamTlsTable",
    "UsageSettings",
]
