"""Settings: the only reader of configuration files and of the environment.

`load` reads, `watch` tells of changes, `add_server_to_file` and `remove_server_from_file` write.
Files of other MCP clients are understood as they are.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.settings.clients.files import project_folder, server_tables, translate
from toolgate.settings.config_file import ConfigDocument, parse_document, read_document, read_text
from toolgate.settings.current import CurrentSettings
from toolgate.settings.folders import (
    audit_files,
    audit_key,
    base_environment,
    child_environment,
    config_dir,
    credential_key,
    credential_key_file,
    current_environment,
    data_dir,
    default_store_url,
    expand_home,
    home_dir,
    learned_dir,
    own_credentials,
    proxies,
    read_audit_key,
    run_dir,
)
from toolgate.settings.jsonc import spans as json_spans
from toolgate.settings.loader import (
    CONFIG_NAME,
    find_config,
    guard_table,
    load,
    load_errors,
    server_spec,
)
from toolgate.settings.servers.entries import readable_name, redact, server_name
from toolgate.settings.servers.own_entry import is_toolgate
from toolgate.settings.tables import (
    META_TOOLS,
    ApprovalSettings,
    AuditSettings,
    AuthnSettings,
    CatalogSearchSettings,
    ChatSettings,
    ConnectionTable,
    CredentialSettings,
    CredentialTable,
    DiscoverySettings,
    DocumentModelTable,
    DocumentSettings,
    GuardTable,
    ImportTable,
    LimitSettings,
    LogLevel,
    LogSettings,
    MetricSettings,
    ModelTable,
    OutboundSettings,
    PackSettings,
    PermissionTable,
    ProgramSettings,
    ProjectTable,
    ResultSettings,
    RuleSettings,
    SearchSettings,
    ServerTable,
    ServeSettings,
    Settings,
    StoreSettings,
    TlsSettings,
    ToolLimitTable,
    ToolTable,
    TraceSettings,
    UpstreamTlsTable,
    UsageSettings,
)
from toolgate.settings.variables import fill_known

if TYPE_CHECKING:
    from toolgate.settings.described import DescribedSetting, described_settings
    from toolgate.settings.edit import (
        add_server_to_file,
        change_server_in_file,
        migrate_text,
        remove_server_from_file,
        render_table,
        set_import,
        switch_pack,
        with_setting,
        without_table,
        write_text,
    )
    from toolgate.settings.file_watcher import watch
    from toolgate.settings.otlp_environment import OtlpVariables, otlp_variables, service_attributes

__all__ = [
    "CONFIG_NAME",
    "META_TOOLS",
    "ApprovalSettings",
    "AuditSettings",
    "AuthnSettings",
    "CatalogSearchSettings",
    "ChatSettings",
    "ConfigDocument",
    "ConnectionTable",
    "CredentialSettings",
    "CredentialTable",
    "CurrentSettings",
    "DescribedSetting",
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
    "OtlpVariables",
    "OutboundSettings",
    "PackSettings",
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
    "add_server_to_file",
    "audit_files",
    "audit_key",
    "base_environment",
    "change_server_in_file",
    "child_environment",
    "config_dir",
    "credential_key",
    "credential_key_file",
    "current_environment",
    "data_dir",
    "default_store_url",
    "described_settings",
    "expand_home",
    "fill_known",
    "find_config",
    "guard_table",
    "home_dir",
    "is_toolgate",
    "json_spans",
    "learned_dir",
    "load",
    "load_errors",
    "migrate_text",
    "otlp_variables",
    "own_credentials",
    "parse_document",
    "project_folder",
    "proxies",
    "read_audit_key",
    "read_document",
    "read_text",
    "readable_name",
    "redact",
    "remove_server_from_file",
    "render_table",
    "run_dir",
    "server_name",
    "server_spec",
    "server_tables",
    "service_attributes",
    "set_import",
    "switch_pack",
    "translate",
    "watch",
    "with_setting",
    "without_table",
    "write_text",
]

_ON_USE = {
    "OtlpVariables": "toolgate.settings.otlp_environment",
    "add_server_to_file": "toolgate.settings.edit",
    "migrate_text": "toolgate.settings.edit",
    "otlp_variables": "toolgate.settings.otlp_environment",
    "change_server_in_file": "toolgate.settings.edit",
    "remove_server_from_file": "toolgate.settings.edit",
    "render_table": "toolgate.settings.edit",
    "service_attributes": "toolgate.settings.otlp_environment",
    "set_import": "toolgate.settings.edit",
    "switch_pack": "toolgate.settings.edit",
    "watch": "toolgate.settings.file_watcher",
    "without_table": "toolgate.settings.edit",
    "DescribedSetting": "toolgate.settings.described",
    "described_settings": "toolgate.settings.described",
    "with_setting": "toolgate.settings.edit",
    "write_text": "toolgate.settings.edit",
}


def __getattr__(name: str) -> object:
    """Load what only some processes need when it is used."""
    if name not in _ON_USE:
        raise AttributeError(f"module 'toolgate.settings' has no attribute {name!r}")
    value: object = getattr(import_module(_ON_USE[name]), name)
    globals()[name] = value
    return value
